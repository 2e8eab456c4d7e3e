//! The serial console of a virtual machine, both ways.

use bytes::Bytes;
use strata_api::strata::v1;
use strata_api::strata::v1::console_input::Input;
use strata_audit::{Session, SessionEnd};
use strata_tasks::spawn_detached;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::api::audit;
use crate::api::units::Answers;
use crate::vms::Console;

/// Passes on what is typed and what is printed until either side ends.
pub(super) fn serve(
    lease: Console,
    socket: UnixStream,
    mut typed: Streaming<v1::ConsoleInput>,
    session: Session,
) -> Answers<v1::ConsoleOutput> {
    let (mut from, mut to) = socket.into_split();
    let (sender, stream) = mpsc::channel(16);
    let meter = session.meter();
    let counted = meter.clone();
    let typing = spawn_detached("console-input", async move {
        while let Ok(Some(message)) = typed.message().await {
            if let Some(Input::Typed(bytes)) = message.input {
                counted.sent(bytes.len());
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    });
    spawn_detached("console-output", async move {
        let _lease = lease;
        let mut buffer = vec![0; 16 << 10];
        let end = loop {
            let read = tokio::select! {
                read = from.read(&mut buffer) => read,
                () = sender.closed() => break audit::caller_left(),
            };
            let Ok(n @ 1..) = read else {
                break SessionEnd::because("the console closed");
            };
            meter.received(n);
            let printed = Bytes::copy_from_slice(&buffer[..n]);
            if sender
                .send(Ok(v1::ConsoleOutput { printed }))
                .await
                .is_err()
            {
                break audit::caller_left();
            }
        };
        typing.abort();
        session.end(end);
    });
    Box::pin(ReceiverStream::new(stream))
}

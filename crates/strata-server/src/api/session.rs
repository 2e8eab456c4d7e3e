//! What the audit log is given of an exec that goes through the server: the
//! streams are counted as they pass, and the end is written with the exit that
//! the node reports, or when the caller leaves. So with what a machine prints
//! on its console.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use strata_api::strata::v1::{ExecInput, ExecOutput, exec_input, exec_output};
use strata_audit::{Session, SessionEnd, SessionMeter};
use tonic::Status;

/// Counts what the caller sends.
pub(super) fn count_input(meter: &SessionMeter, input: &ExecInput) {
    if let Some(exec_input::Input::Stdin(bytes)) = &input.input {
        meter.sent(bytes.len());
    }
}

/// The output of an exec. Dropped before its end, the caller left.
pub(super) struct RecordedOutput<S> {
    output: S,
    meter: Arc<SessionMeter>,
    session: Option<Session>,
}

impl<S> RecordedOutput<S> {
    pub(super) fn new(output: S, session: Session) -> Self {
        Self {
            output,
            meter: session.meter(),
            session: Some(session),
        }
    }

    fn end(&mut self, end: SessionEnd) {
        if let Some(session) = self.session.take() {
            session.end(end);
        }
    }

    fn look_at(&mut self, next: Option<&Result<ExecOutput, Status>>) {
        use exec_output::Output;
        let output = match next {
            Some(Ok(message)) => message.output.as_ref(),
            Some(Err(status)) => return self.end(SessionEnd::because(status.message())),
            None => return self.end(SessionEnd::because("the node went away")),
        };
        match output {
            Some(Output::Stdout(bytes) | Output::Stderr(bytes)) => {
                self.meter.received(bytes.len());
            }
            Some(Output::Ended(ended)) => self.end(SessionEnd {
                exit_code: ended.exit_code,
                signal: ended.signal,
                reason: Some(ended.reason.clone()).filter(|reason| !reason.is_empty()),
            }),
            Some(Output::Started(_)) | None => {}
        }
    }
}

impl<S: Stream<Item = Result<ExecOutput, Status>> + Unpin> Stream for RecordedOutput<S> {
    type Item = Result<ExecOutput, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let next = Pin::new(&mut this.output).poll_next(context);
        if let Poll::Ready(next) = &next {
            this.look_at(next.as_ref());
        }
        next
    }
}

impl<S> Drop for RecordedOutput<S> {
    fn drop(&mut self) {
        self.end(SessionEnd::because("the caller left"));
    }
}

/// What a console prints. Dropped before its end, the caller left.
pub(super) struct RecordedText<S> {
    text: S,
    meter: Arc<SessionMeter>,
    session: Option<Session>,
}

impl<S> RecordedText<S> {
    pub(super) fn new(text: S, session: Session) -> Self {
        Self {
            text,
            meter: session.meter(),
            session: Some(session),
        }
    }
}

impl<E, S: Stream<Item = Result<Bytes, E>> + Unpin> Stream for RecordedText<S> {
    type Item = Result<Bytes, E>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let next = Pin::new(&mut this.text).poll_next(context);
        match &next {
            Poll::Ready(Some(Ok(text))) => this.meter.received(text.len()),
            Poll::Ready(Some(Err(_)) | None) => {
                if let Some(session) = this.session.take() {
                    session.end(SessionEnd::because("the console closed"));
                }
            }
            Poll::Pending => {}
        }
        next
    }
}

impl<S> Drop for RecordedText<S> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.end(SessionEnd::because("the caller left"));
        }
    }
}

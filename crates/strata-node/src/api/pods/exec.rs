//! A further process in a pod: what is typed goes in, what it writes comes
//! out, its end comes last. When the caller goes away, so does the process.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use strata_api::pod_fields;
use strata_api::strata::v1;
use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::exec_output::Output;
use strata_audit::{Session, SessionKind, SessionMeter, SessionRecorder};
use strata_identity::Caller;
use strata_tasks::spawn_detached;
use strata_types::{CommandLine, Error, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::{Answers, audit, may_enter, start_session, status};
use crate::api::views::split;
use crate::cells::RunView;
use crate::pods::{ExecHandle, ExecRequest, ExecStreams, Pods, Terminal, TerminalSize, exec};

/// The most that is read at once.
const CHUNK: usize = 32 << 10;
/// Pieces on their way to a client that does not take them as they come; the
/// process waits meanwhile.
const CHANNEL_CAPACITY: usize = 4;
/// The longest silence once a process has ended: others may hold its output
/// open forever.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// What it wrote before its end is in a pipe by then: no more than this.
const PIPE: usize = 64 << 10;

type Sender = mpsc::Sender<Result<v1::ExecOutput, Status>>;

pub(super) async fn run(
    pods: &Pods,
    caller: Option<&Caller>,
    recorder: &SessionRecorder,
    mut input: Streaming<v1::ExecInput>,
) -> Result<Answers<v1::ExecOutput>, Status> {
    let missing = || status(Error::invalid("start", "must come first"));
    let first = input.message().await?.and_then(|message| message.input);
    let Some(Input::Start(start)) = first else {
        return Err(missing());
    };
    let pod = pods.find("start.pod", &start.pod).map_err(status)?;
    may_enter(pods, caller, &pod).map_err(status)?;
    // Before the command is looked at: what is refused for its form was tried.
    let session = start_session(recorder, SessionKind::Exec, &pod, &start.command);
    let begun = async { exec(&pod, request(start)?).await };
    let (handle, streams) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            session.end(audit::not_started(&error));
            return Err(status(error));
        }
    };
    let (sender, stream) = mpsc::channel(CHANNEL_CAPACITY);
    spawn_detached(
        "exec-session",
        serve(handle, streams, input, sender, session),
    );
    Ok(Box::pin(ReceiverStream::new(stream)))
}

fn request(start: v1::ExecStart) -> Result<ExecRequest> {
    let text = |text: String| (!text.is_empty()).then_some(text);
    Ok(ExecRequest {
        command: CommandLine::try_from(start.command)
            .map_err(|error| error.in_field("start.command"))?,
        environment: pod_fields::environment("start.environment", start.environment)?,
        user: text(start.user),
        working_directory: text(start.working_directory),
        terminal: start
            .terminal
            .map(|s| size("start.terminal", s))
            .transpose()?,
        stdin: start.stdin,
    })
}

/// The size of a terminal, from a field.
pub(super) fn size(field: &str, size: v1::TerminalSize) -> Result<TerminalSize> {
    let part = |part: &str, n: u32| {
        let why = format!("is {n}; 65535 is the most");
        u16::try_from(n).map_err(|_| Error::invalid(format!("{field}.{part}"), why))
    };
    Ok(TerminalSize {
        rows: part("rows", size.rows)?,
        columns: part("columns", size.columns)?,
    })
}

fn output(output: Output) -> Result<v1::ExecOutput, Status> {
    Ok(v1::ExecOutput {
        output: Some(output),
    })
}

/// How it ended, on the wire.
pub(super) fn ended(view: RunView) -> Output {
    let (exit_code, signal) = view.ending.map_or((None, None), split);
    Output::Ended(v1::ExecEnded {
        exit_code,
        signal,
        reason: view
            .ending
            .map(|ending| ending.to_string())
            .unwrap_or_default(),
    })
}

/// Where what the caller types goes.
enum Keys {
    Terminal(Arc<Terminal>),
    /// None once there is nothing more to come, or no reader.
    Pipe(Option<pipe::Sender>),
}

impl Keys {
    async fn type_in(&mut self, bytes: &[u8]) {
        let written = match self {
            Self::Terminal(terminal) => terminal.write_all(bytes).await,
            Self::Pipe(Some(stdin)) => stdin.write_all(bytes).await,
            Self::Pipe(None) => Ok(()),
        };
        // A client that does not read any more may still write.
        if written.is_err() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Self::Pipe(stdin) = self {
            stdin.take();
        }
    }
}

async fn serve(
    handle: ExecHandle,
    streams: ExecStreams,
    input: Streaming<v1::ExecInput>,
    sender: Sender,
    session: Session,
) {
    let meter = session.meter();
    let started = Output::Started(v1::ExecStarted {
        process_id: handle.run.pid,
    });
    let _ = sender.send(output(started)).await;
    let over = CancellationToken::new();
    let (first, second) = (sender.clone(), sender.clone());
    let rests = (OutputDrain::until(&over), OutputDrain::until(&over));
    let (keys, out) = match streams {
        ExecStreams::Terminal(terminal) => {
            let printed = pump_terminal(terminal.clone(), rests.0, first, meter.clone());
            (
                Keys::Terminal(terminal),
                spawn_detached("exec-output", printed),
            )
        }
        ExecStreams::Pipes {
            stdin,
            stdout,
            stderr,
        } => {
            let counted = meter.clone();
            let out = spawn_detached("exec-output", async move {
                tokio::join!(
                    pump(stdout, rests.0, first, Output::Stdout, &counted),
                    pump(stderr, rests.1, second, Output::Stderr, &counted)
                );
            });
            (Keys::Pipe(stdin), out)
        }
    };
    let has_left = tokio::select! {
        view = handle.ended() => {
            over.cancel();
            // Ends by itself, as fast as the caller takes it.
            let _ = out.await;
            let _ = sender.send(output(ended(view))).await;
            false
        }
        () = sender.closed() => true,
        never = take_in(&handle, keys, input, &meter) => match never {},
    };
    let run = handle.run.clone();
    handle.close().await;
    session.end(audit::ended(&run.view(), has_left));
}

/// What is still to be read of a process, until there is no writer any more, or
/// it is over and all it wrote was read.
struct OutputDrain {
    over: CancellationToken,
    left: usize,
}

impl OutputDrain {
    fn until(over: &CancellationToken) -> Self {
        Self {
            over: over.clone(),
            left: PIPE,
        }
    }

    /// The length of the next piece; none at the end.
    async fn of(&mut self, read: impl Future<Output = io::Result<usize>>) -> Option<usize> {
        let is_over = self.over.is_cancelled();
        if is_over && self.left == 0 {
            return None;
        }
        let silence = async {
            self.over.cancelled().await;
            tokio::time::sleep(DRAIN_TIMEOUT).await;
        };
        let n = tokio::select! {
            biased;
            n = read => n.ok().filter(|n| *n > 0)?,
            () = silence => return None,
        };
        if is_over {
            self.left = self.left.saturating_sub(n);
        }
        Some(n)
    }
}

async fn pump(
    mut from: pipe::Receiver,
    mut rest: OutputDrain,
    to: Sender,
    wrap: fn(Bytes) -> Output,
    meter: &SessionMeter,
) {
    let mut buffer = vec![0; CHUNK];
    while let Some(n) = rest.of(from.read(&mut buffer)).await {
        meter.received(n);
        let piece = wrap(Bytes::copy_from_slice(&buffer[..n]));
        if to.send(output(piece)).await.is_err() {
            return;
        }
    }
}

async fn pump_terminal(
    terminal: Arc<Terminal>,
    mut rest: OutputDrain,
    to: Sender,
    meter: Arc<SessionMeter>,
) {
    let mut buffer = vec![0; CHUNK];
    while let Some(n) = rest.of(terminal.read(&mut buffer)).await {
        meter.received(n);
        let piece = Output::Stdout(Bytes::copy_from_slice(&buffer[..n]));
        if to.send(output(piece)).await.is_err() {
            return;
        }
    }
}

/// Passes on what the caller sends, for as long as it is let.
async fn take_in(
    handle: &ExecHandle,
    mut keys: Keys,
    mut input: Streaming<v1::ExecInput>,
    meter: &SessionMeter,
) -> Infallible {
    while let Ok(Some(message)) = input.message().await {
        match message.input {
            Some(Input::Stdin(bytes)) => {
                meter.sent(bytes.len());
                keys.type_in(&bytes).await;
            }
            Some(Input::End(_)) => keys.end(),
            Some(Input::Resize(wire)) => {
                if let (Keys::Terminal(terminal), Ok(size)) = (&keys, size("resize", wire)) {
                    let _ = terminal.resize(size);
                }
            }
            Some(Input::Signal(signal @ 1..=64)) => {
                let _ = handle.signal(signal);
            }
            _ => {}
        }
    }
    keys.end();
    std::future::pending().await
}

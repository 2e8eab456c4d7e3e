//! Interactive sessions with a remote process: output is printed here; input
//! and signals are sent there. `exec` and `attach` differ only in their
//! messages, and pods from instances in the service they call.

mod exec;

use std::io;

use futures_util::stream::{self, Stream};
use strata_api::strata::v1::exec_output::Output;
use strata_api::strata::v1::{ExecEnded, ExecOutput, TerminalSize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::failure::{Exit, Failure, Peer, Result, cannot};
use crate::session::Session;
use crate::terminal::{self, RawMode};

pub(crate) use exec::ExecArgs;

/// Capacity of the control channel. Signals and resizes come from users: the
/// channel fills only if the peer reads nothing.
const CONTROL_CAPACITY: usize = 64;

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGHUP: i32 = 1;

/// A control message to the process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ControlMessage {
    /// New size of the terminal.
    Resize(TerminalSize),
    /// A signal to deliver.
    Signal(i32),
}

/// The control channel, merged with the input into one stream.
pub(crate) fn orders() -> (
    mpsc::Sender<ControlMessage>,
    impl Stream<Item = ControlMessage> + Send,
) {
    let (sender, receiver) = mpsc::channel(CONTROL_CAPACITY);
    (sender, received(receiver))
}

/// What comes out of a channel, as a stream.
pub(crate) fn received<T: Send>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

/// Options of an interactive session.
pub(crate) struct InteractiveSession<'a> {
    pub(crate) peer: &'a dyn Peer,
    /// For errors: "run cat in the pod web".
    pub(crate) what: String,
    pub(crate) outputs: Streaming<ExecOutput>,
    pub(crate) orders: mpsc::Sender<ControlMessage>,
    /// It has a terminal of the size of ours.
    pub(crate) terminal: bool,
    /// Every key that is pressed goes to it, Ctrl-C among them.
    pub(crate) raw: bool,
    /// Signals that reach us go to it; the second one leaves it.
    pub(crate) pass_signals: bool,
}

/// Why the session ended.
pub(crate) enum DetachReason {
    /// The process exited.
    Ended(ExecEnded),
    /// Detached; the exit code names the signal.
    Left(Exit),
}

impl InteractiveSession<'_> {
    /// Runs until either side ends the session, then restores the terminal.
    pub(crate) async fn run(mut self, session: &mut Session) -> Result<DetachReason> {
        let mut signals = Signals::new().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot listen for signals").because(why.to_string())
        })?;
        let _raw = match self.raw {
            true => Some(RawMode::enter().map_err(|why| {
                Failure::new(Exit::Unexpected, "cannot take over the terminal")
                    .because(why.to_string())
            })?),
            false => None,
        };
        let mut passed = false;
        loop {
            tokio::select! {
                output = self.outputs.message() => {
                    let Some(output) = output.map_err(cannot(self.peer, &*self.what))? else {
                        let what = format!("cannot {}", self.what);
                        let why = "no exit status received";
                        return Err(Failure::new(Exit::Server, what).because(why));
                    };
                    match output.output {
                        Some(Output::Stdout(bytes)) => session.printer.data(&bytes)?,
                        Some(Output::Stderr(bytes)) => session.printer.data_err(&bytes)?,
                        Some(Output::Ended(ended)) => return Ok(DetachReason::Ended(ended)),
                        Some(Output::Started(_)) | None => {}
                    }
                }
                number = signals.next() => match number {
                    None if self.terminal => self.order(ControlMessage::Resize(terminal::size())),
                    None => {}
                    Some(number) => {
                        // A raw terminal sends Ctrl-C as a key; a signal
                        // that comes nevertheless is meant for us.
                        let pass = self.pass_signals && !self.raw && !passed;
                        if !pass || number == SIGHUP {
                            return Ok(DetachReason::Left(by_signal(number)));
                        }
                        passed = true;
                        self.order(ControlMessage::Signal(number));
                    }
                },
            }
        }
    }

    fn order(&self, order: ControlMessage) {
        let _ = self.orders.try_send(order);
    }
}

/// Signals handled during the session.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    resize: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// The next signal number; `None` for a resize.
    async fn next(&mut self) -> Option<i32> {
        tokio::select! {
            _ = self.interrupt.recv() => Some(SIGINT),
            _ = self.terminate.recv() => Some(SIGTERM),
            _ = self.hangup.recv() => Some(SIGHUP),
            _ = self.resize.recv() => None,
        }
    }
}

/// Exit code of a process killed by a signal, as in shells.
pub(crate) fn by_signal(number: i32) -> Exit {
    match number {
        SIGINT => Exit::Interrupted,
        _ => Exit::Program(128u8.saturating_add(u8::try_from(number).unwrap_or(127))),
    }
}

/// Maps the exit of a process to ours.
pub(crate) fn exit(command: &str, ended: &ExecEnded) -> Result {
    match (ended.exit_code, ended.signal) {
        (Some(0), _) => Ok(()),
        // As a parent sees it: the lowest eight bits.
        (Some(code), _) => Err(Failure::silent(Exit::Program((code & 0xff) as u8))),
        (None, Some(signal)) => {
            let how = match ended.reason.as_str() {
                "" => format!("killed by signal {signal}"),
                reason => reason.to_owned(),
            };
            let what = format!("{command} ended: {how}");
            Err(Failure::new(by_signal(signal), what))
        }
        (None, None) => {
            let what = format!("{command} did not run");
            Err(Failure::new(Exit::Failed, what).because(&*ended.reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_becomes_our_own() {
        let code = |exit_code, signal| {
            let ended = ExecEnded {
                exit_code,
                signal,
                reason: String::new(),
            };
            exit("x", &ended).map_or_else(|failure| failure.exit().code(), |()| 0)
        };
        assert_eq!(code(Some(0), None), 0);
        assert_eq!(code(Some(42), None), 42);
        assert_eq!(code(Some(256 + 3), None), 3);
        assert_eq!(code(None, Some(2)), 130);
        assert_eq!(code(None, Some(9)), 137);
        assert_eq!(code(None, None), 7);
    }
}

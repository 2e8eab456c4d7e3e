//! Staying with a process elsewhere: what it writes comes here, what is typed
//! and the signals that reach us go there. `exec` and `attach` differ in
//! their messages alone, and pods from instances in whom they ask.

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

/// How many signals and sizes may wait. They come from people: more only
/// wait where the other side takes nothing at all, and then are of no use.
const ORDERS: usize = 64;

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGHUP: i32 = 1;

/// What goes to the process beside its input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Its terminal has this size now.
    Resize(TerminalSize),
    /// It gets this signal.
    Signal(i32),
}

/// A way for orders, to be made one stream with the input.
pub(crate) fn orders() -> (mpsc::Sender<Order>, impl Stream<Item = Order> + Send) {
    let (sender, receiver) = mpsc::channel(ORDERS);
    (sender, received(receiver))
}

/// What comes out of a channel, as a stream.
pub(crate) fn received<T: Send>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

/// How it is stayed with.
pub(crate) struct Talk<'a> {
    pub(crate) peer: &'a dyn Peer,
    /// For errors: "run cat in the pod web".
    pub(crate) what: String,
    pub(crate) outputs: Streaming<ExecOutput>,
    pub(crate) orders: mpsc::Sender<Order>,
    /// It has a terminal of the size of ours.
    pub(crate) terminal: bool,
    /// Every key that is pressed goes to it, Ctrl-C among them.
    pub(crate) raw: bool,
    /// Signals that reach us go to it; the second one leaves it.
    pub(crate) pass_signals: bool,
}

/// How staying with it ended.
pub(crate) enum Parting {
    /// It ended.
    Ended(ExecEnded),
    /// We left it; the exit code says by which signal.
    Left(Exit),
}

impl Talk<'_> {
    /// Stays until one of both ends it. The terminal is ours again after.
    pub(crate) async fn stay(mut self, session: &mut Session) -> Result<Parting> {
        let mut signals = Signals::new().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot listen for signals").because(why.to_string())
        })?;
        let _raw = match self.raw {
            true => Some(RawMode::enter().map_err(|why| {
                Failure::new(Exit::Unexpected, "cannot take the terminal over")
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
                        let why = "nobody told how it ended";
                        return Err(Failure::new(Exit::Server, what).because(why));
                    };
                    match output.output {
                        Some(Output::Stdout(bytes)) => session.printer.data(&bytes)?,
                        Some(Output::Stderr(bytes)) => session.printer.data_err(&bytes)?,
                        Some(Output::Ended(ended)) => return Ok(Parting::Ended(ended)),
                        Some(Output::Started(_)) | None => {}
                    }
                }
                number = signals.next() => match number {
                    None if self.terminal => self.order(Order::Resize(terminal::size())),
                    None => {}
                    Some(number) => {
                        // A raw terminal sends Ctrl-C as a key; a signal
                        // that comes nevertheless is meant for us.
                        let pass = self.pass_signals && !self.raw && !passed;
                        if !pass || number == SIGHUP {
                            return Ok(Parting::Left(by_signal(number)));
                        }
                        passed = true;
                        self.order(Order::Signal(number));
                    }
                },
            }
        }
    }

    fn order(&self, order: Order) {
        let _ = self.orders.try_send(order);
    }
}

/// The signals that matter while we stay.
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

    /// The number of the next one; none when it is the terminal's new size.
    async fn next(&mut self) -> Option<i32> {
        tokio::select! {
            _ = self.interrupt.recv() => Some(SIGINT),
            _ = self.terminate.recv() => Some(SIGTERM),
            _ = self.hangup.recv() => Some(SIGHUP),
            _ = self.resize.recv() => None,
        }
    }
}

/// The exit code of a process that a signal ended, as shells tell it.
pub(crate) fn by_signal(number: i32) -> Exit {
    match number {
        SIGINT => Exit::Interrupted,
        _ => Exit::Program(128u8.saturating_add(u8::try_from(number).unwrap_or(127))),
    }
}

/// The end of a process as our own.
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

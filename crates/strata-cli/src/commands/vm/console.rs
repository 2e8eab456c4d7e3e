//! `strata vm console`: the serial console, every key as it is. Ctrl-] leaves
//! it, as it leaves telnet and virsh: no program on the other side needs it.

use std::future::ready;
use std::sync::Arc;

use clap::Args;
use futures_util::stream::{self, Stream, StreamExt as _};
use strata_api::strata::v1::ConsoleInput;
use strata_api::strata::v1::console_input::Input;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::session::Session;
use crate::terminal::{self, Keyboard, RawMode};
use crate::values::label_name;

/// Ctrl-].
const ESCAPE: u8 = 0x1d;

/// Attach to the serial console of a virtual machine
#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-] detaches; the VM keeps running. Several clients can watch at once.

Examples:
  strata vm console build
  strata vm console build > boot.log")]
pub struct Console {
    /// Name of the virtual machine
    #[arg(value_parser = label_name, add = complete::vms())]
    name: String,
}

impl Console {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let failed = || cannot(&node, format!("open the console of the vm {}", self.name));
        let input = std::mem::replace(&mut session.input, Box::new(std::io::empty()));
        let left = Arc::new(Notify::new());
        let escape = session.terminal.then(|| left.clone());
        let typed = typed(terminal::keyboard(input), escape).map(|b| Input::Typed(b.into()));
        // The console goes on where the input ends.
        let input = stream::once(ready(Input::Vm(self.name.clone())))
            .chain(typed)
            .chain(stream::pending());
        let answer = node.vms().console(input.map(wrap)).await;
        let mut printed = answer.map_err(failed())?.into_inner();
        let mut signals = Signals::new().map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot listen for signals").because(why.to_string())
        })?;
        let raw = match session.terminal {
            true => {
                let name = &self.name;
                let said = format!("connected to the console of {name}; Ctrl-] detaches");
                session.printer.note(&said);
                Some(RawMode::enter().map_err(|why| {
                    Failure::new(Exit::Unexpected, "cannot take over the terminal")
                        .because(why.to_string())
                })?)
            }
            false => None,
        };
        let ended = loop {
            tokio::select! {
                message = printed.message() => match message.map_err(failed())? {
                    Some(message) => session.printer.data(&message.printed)?,
                    None => break Ok("the console was closed"),
                },
                () = left.notified() => break Ok("detached from the console"),
                exit = signals.next() => break Err(Failure::silent(exit)),
            }
        };
        drop(raw);
        if session.terminal {
            session.printer.note(&format!("\n{}", ended?));
            return Ok(());
        }
        ended.map(drop)
    }
}

fn wrap(input: Input) -> ConsoleInput {
    ConsoleInput { input: Some(input) }
}

/// What is typed. The first Ctrl-] ends it and tells `left`, where there is a
/// person who could have typed it.
fn typed(keys: Keyboard, left: Option<Arc<Notify>>) -> impl Stream<Item = Vec<u8>> + Send {
    stream::unfold(Some((keys, left)), |state| async move {
        let (mut keys, left) = state?;
        let mut bytes = keys.recv().await?;
        let escape = bytes.iter().position(|byte| *byte == ESCAPE);
        match (escape, left) {
            (Some(at), Some(left)) => {
                bytes.truncate(at);
                left.notify_one();
                Some((bytes, None))
            }
            (_, left) => Some((bytes, Some((keys, left)))),
        }
    })
}

/// The signals that end us; while the terminal is raw, they must not before
/// it is given back.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Program(143),
            _ = self.hangup.recv() => Exit::Program(129),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_escape_ends_what_is_typed() {
        let keys = || terminal::keyboard(Box::new(std::io::Cursor::new(b"ls\r\x1drm")));
        let left = Arc::new(Notify::new());
        let sent: Vec<_> = typed(keys(), Some(left.clone())).collect().await;
        assert_eq!(sent.concat(), b"ls\r");
        left.notified().await;
        let piped: Vec<_> = typed(keys(), None).collect().await;
        assert_eq!(piped.concat(), b"ls\r\x1drm");
    }
}

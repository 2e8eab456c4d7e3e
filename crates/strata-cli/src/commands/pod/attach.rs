//! `strata pod attach`: what the pod's own process writes from now on, and
//! its input.

use std::future::ready;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};
use strata_api::strata::v1::attach_input::Input;
use strata_api::strata::v1::{AttachInput, AttachStart, EndOfInput, ExecEnded};
use strata_client::NodeClient;

use crate::commands::interactive::{self, ControlMessage, DetachReason, InteractiveSession};
use crate::complete;
use crate::failure::{Failure, Result, cannot};
use crate::session::Session;
use crate::terminal;
use crate::values::label_name;

/// Attach to the output and input of a pod
#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C detaches; with --signals it is sent to the pod, and a second one
detaches. Exits with the code of the pod. With -i, the end of our input closes
that of the pod permanently. If the pod has a terminal, -i connects ours to
it: every key is sent there.

Examples:
  strata pod attach web
  strata pod attach web --tail 20
  strata pod attach shell -i        for pods that were made with --stdin")]
pub struct Attach {
    /// Name of the pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    /// Forward standard input
    #[arg(short, long)]
    interactive: bool,

    /// Number of earlier lines to print first
    #[arg(long, value_name = "N", default_value_t = 0)]
    tail: u32,

    /// Forward Ctrl-C and SIGTERM to the pod
    #[arg(long)]
    signals: bool,
}

impl Attach {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let pod = super::current(&node, &self.name, "attach to").await?;
        let terminal = pod.spec.terminal && self.interactive && session.terminal;
        let start = AttachStart {
            pod: self.name.clone(),
            tail: self.tail,
            terminal: terminal.then(terminal::size),
        };
        match attach(session, &node, start, self.interactive, self.signals).await? {
            DetachReason::Ended(ended) => interactive::exit(&self.name, &ended),
            DetachReason::Left(exit) => {
                let name = &self.name;
                session.printer.note(&format!(
                    "\n{name} keeps running. Follow it with `strata pod logs {name} -f`, stop it with `strata pod stop {name}`"
                ));
                Err(Failure::silent(exit))
            }
        }
    }
}

/// Stays with a pod, our input and signals its own, until it ends.
pub(super) async fn follow(
    session: &mut Session,
    node: &NodeClient,
    start: AttachStart,
) -> Result<ExecEnded> {
    match attach(session, node, start, true, false).await? {
        DetachReason::Ended(ended) => Ok(ended),
        DetachReason::Left(exit) => Err(Failure::silent(exit)),
    }
}

async fn attach(
    session: &mut Session,
    node: &NodeClient,
    start: AttachStart,
    interactive: bool,
    pass_signals: bool,
) -> Result<DetachReason> {
    let what = format!("attach to the pod {}", start.pod);
    let (orders, ordered) = interactive::orders();
    let typed = if interactive {
        let input = std::mem::replace(&mut session.input, Box::new(std::io::empty()));
        let typed = interactive::received(terminal::keyboard(input));
        typed
            .map(|bytes| Input::Stdin(bytes.into()))
            .chain(stream::once(ready(Input::End(EndOfInput {}))))
            .boxed()
    } else {
        stream::empty().boxed()
    };
    let terminal = start.terminal.is_some();
    let ordered = ordered.map(|order| match order {
        ControlMessage::Signal(number) => Input::Signal(number),
        ControlMessage::Resize(size) => Input::Resize(size),
    });
    let input = stream::once(ready(Input::Start(start))).chain(stream::select(ordered, typed));
    let input = input.map(|input| AttachInput { input: Some(input) });
    let answer = node.pods().attach(input).await;
    let interactive = InteractiveSession {
        outputs: answer.map_err(cannot(node, &*what))?.into_inner(),
        peer: node,
        what,
        orders,
        terminal,
        raw: terminal && interactive,
        pass_signals,
    };
    interactive.run(session).await
}

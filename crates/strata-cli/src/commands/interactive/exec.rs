//! A further process in something that runs, with our terminal or our pipes.
//! Its exit code is ours.

use std::future::ready;

use clap::Args;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::{EndOfInput, ExecInput, ExecOutput, ExecStart};
use tonic::{Response, Status, Streaming};

use super::{ControlMessage, DetachReason, InteractiveSession, exit, orders, received};
use crate::failure::{Exit, Failure, Peer, Result, cannot};
use crate::session::Session;
use crate::terminal;
use crate::values::EnvironmentArg;

/// Exec flags, flattened after the name of the resource.
#[derive(Args, Debug)]
pub(crate) struct ExecArgs {
    /// Forward standard input [default: empty input]
    #[arg(short, long)]
    interactive: bool,

    /// Allocate a terminal
    #[arg(short, long)]
    tty: bool,

    /// User to run as, user[:group] [default: that of the container]
    #[arg(long, value_name = "USER")]
    user: Option<String>,

    /// Working directory [default: that of the container]
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<String>,

    /// Set an environment variable; KEY alone copies yours; repeatable
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<EnvironmentArg>,

    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ExecArgs {
    /// Refuses a terminal where there is none, before anybody is asked.
    pub(crate) fn check(&self, session: &Session) -> Result {
        if self.tty && !session.terminal {
            let what = "-t requires a terminal, and the input is not one";
            return Err(
                Failure::new(Exit::Usage, what).hint("omit -t; -i alone forwards piped input")
            );
        }
        Ok(())
    }

    /// Runs it by `call` in a `noun` that people know as `name` and the other
    /// side as `id`, and stays with it.
    pub(crate) async fn run(
        self,
        session: &mut Session,
        (noun, name, id): (&str, String, String),
        peer: &dyn Peer,
        call: impl AsyncFnOnce(
            BoxStream<'static, ExecInput>,
        ) -> std::result::Result<Response<Streaming<ExecOutput>>, Status>,
    ) -> Result {
        let program = self.command[0].clone();
        let what = format!("run {program} in the {noun} {name}");
        let (orders, ordered) = orders();
        let input = stream::once(ready(self.start(id)))
            .chain(stream::select(ordered.map(order), self.typed(session)));
        let answer = call(input.map(wrap).boxed()).await;
        let interactive = InteractiveSession {
            outputs: answer.map_err(cannot(peer, &*what))?.into_inner(),
            peer,
            what,
            orders,
            terminal: self.tty,
            // Keys that nobody reads must not be taken from the terminal.
            raw: self.tty && self.interactive,
            pass_signals: true,
        };
        match interactive.run(session).await? {
            DetachReason::Ended(ended) => exit(&program, &ended),
            DetachReason::Left(exit) => {
                let left = format!("\ndetached from {program} in {name}");
                session.printer.note(&left);
                Err(Failure::silent(exit))
            }
        }
    }

    /// What is typed or piped in, and that it ended.
    fn typed(&self, session: &mut Session) -> BoxStream<'static, Input> {
        if !self.interactive {
            return stream::empty().boxed();
        }
        let input = std::mem::replace(&mut session.input, Box::new(std::io::empty()));
        received(terminal::keyboard(input))
            .map(|bytes| Input::Stdin(bytes.into()))
            .chain(stream::once(ready(Input::End(EndOfInput {}))))
            .boxed()
    }

    fn start(&self, id: String) -> Input {
        let environment = self.env.iter().filter_map(EnvironmentArg::of_process);
        // A program on a terminal wants to know its kind: it is ours.
        let kind = std::env::var("TERM").ok().filter(|_| self.tty);
        Input::Start(ExecStart {
            pod: id,
            command: self.command.clone(),
            environment: kind
                .map(|term| format!("TERM={term}"))
                .into_iter()
                .chain(environment)
                .collect(),
            user: self.user.clone().unwrap_or_default(),
            working_directory: self.workdir.clone().unwrap_or_default(),
            terminal: self.tty.then(terminal::size),
            stdin: self.interactive,
        })
    }
}

fn order(order: ControlMessage) -> Input {
    match order {
        ControlMessage::Resize(size) => Input::Resize(size),
        ControlMessage::Signal(number) => Input::Signal(number),
    }
}

fn wrap(input: Input) -> ExecInput {
    ExecInput { input: Some(input) }
}

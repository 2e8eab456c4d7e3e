//! `strata pod exec`: a further process in a pod, with our terminal or our
//! pipes. Its exit code is ours.

use std::future::ready;

use clap::Args;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::{EndOfInput, ExecInput, ExecStart};

use super::talk::{self, Order, Parting, Talk};
use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::session::Session;
use crate::terminal;
use crate::values::{EnvironmentArg, label_name};

/// Run a further command in a pod
#[derive(Args, Debug)]
#[command(after_help = "\
Exits as the command does; by a signal with 128 and its number. Without -t,
Ctrl-C goes to the command, and a second one leaves it.

Examples:
  strata pod exec web -- nginx -s reload
  strata pod exec -it web -- sh
  strata pod exec -i db -- psql shop
  strata pod exec web --user 1000 --workdir /srv -e TZ=UTC -- ls -l")]
pub struct Exec {
    /// The pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    /// Give it our input; without this its input is empty
    #[arg(short, long)]
    interactive: bool,

    /// Give it our terminal
    #[arg(short, long)]
    tty: bool,

    /// user[:group] instead of the pod's
    #[arg(long, value_name = "USER")]
    user: Option<String>,

    /// The folder it starts in, instead of the pod's
    #[arg(long, value_name = "FOLDER")]
    workdir: Option<String>,

    /// Put into its environment; KEY alone takes your own
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<EnvironmentArg>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        if self.tty && !session.terminal {
            let what = "-t needs a terminal, and the input is none";
            return Err(Failure::new(Exit::Usage, what)
                .hint("leave -t out; -i alone gives a command what is piped in"));
        }
        let node = session.node().await?;
        let program = self.command[0].clone();
        let what = format!("run {program} in the pod {}", self.name);
        let (orders, ordered) = talk::orders();
        let input = stream::once(ready(start(&self)))
            .chain(stream::select(ordered.map(order), self.typed(session)));
        let answer = node.pods().exec(input.map(wrap)).await;
        let talk = Talk {
            outputs: answer.map_err(cannot(&node, &*what))?.into_inner(),
            node: &node,
            what,
            orders,
            terminal: self.tty,
            // Keys that nobody reads must not be taken from the terminal.
            raw: self.tty && self.interactive,
            pass_signals: true,
        };
        match talk.stay(session).await? {
            Parting::Ended(ended) => talk::exit(&program, &ended),
            Parting::Left(exit) => {
                let left = format!("\nleft {program} in {}", self.name);
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
        talk::received(terminal::keyboard(input))
            .map(|bytes| Input::Stdin(bytes.into()))
            .chain(stream::once(ready(Input::End(EndOfInput {}))))
            .boxed()
    }
}

fn start(exec: &Exec) -> Input {
    let environment = exec.env.iter().filter_map(EnvironmentArg::of_process);
    // A program on a terminal wants to know its kind: it is ours.
    let kind = std::env::var("TERM").ok().filter(|_| exec.tty);
    Input::Start(ExecStart {
        pod: exec.name.clone(),
        command: exec.command.clone(),
        environment: kind
            .map(|term| format!("TERM={term}"))
            .into_iter()
            .chain(environment)
            .collect(),
        user: exec.user.clone().unwrap_or_default(),
        working_directory: exec.workdir.clone().unwrap_or_default(),
        terminal: exec.tty.then(terminal::size),
        stdin: exec.interactive,
    })
}

fn order(order: Order) -> Input {
    match order {
        Order::Resize(size) => Input::Resize(size),
        Order::Signal(number) => Input::Signal(number),
    }
}

fn wrap(input: Input) -> ExecInput {
    ExecInput { input: Some(input) }
}

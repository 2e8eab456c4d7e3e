//! `strata pod run`: makes a pod, starts it, and stays with it if asked.

use clap::{ArgGroup, Args};
use strata_api::strata::v1::{AttachStart, DestroyPodRequest, ExecEnded, PodLogsRequest};
use strata_client::NodeClient;

use super::create::{self, How};
use super::wanted::Wanted;
use super::{attach, logs, wait};
use crate::commands::talk;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::terminal;
use crate::view::{PodView, Restart};

/// All that a node keeps of what was written before somebody attached.
const ALL_LINES: u32 = 100_000;

/// Make a pod and start it
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("stays").args(["attach", "tty"]).multiple(true))]
#[command(after_help = "\
With --attach a pod is not started again when it ends, unless --restart says
so. Ctrl-C leaves it running, or destroys it where --rm was said. With -t your
terminal is the pod's, Ctrl-C and all, and the exit code is the pod's own.

Examples:
  strata pod run web nginx:1.27 -p 8080:80
  strata pod run job alpine --attach --rm -- sh -c 'echo $HOSTNAME; exit 3'
  strata pod run web nginx -e TZ=UTC --memory 64MiB --read-only
  strata pod run -it --rm shell alpine -- sh
  strata pod run -f pods.yaml")]
pub struct Run {
    #[command(flatten)]
    wanted: Wanted,

    /// Print what it writes until it ends; exit with 7 when it fails. With -t
    /// this goes without saying
    #[arg(long, conflicts_with_all = ["file", "dry_run"])]
    attach: bool,

    /// Destroy it when it has ended
    #[arg(long, requires = "stays")]
    rm: bool,

    #[command(flatten)]
    how: How,
}

impl Run {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let tty = self.wanted.tty;
        if tty && !session.terminal && !self.how.dry_run {
            let what = "-t needs a terminal, and the input is none";
            return Err(Failure::new(Exit::Usage, what)
                .hint("leave -t out; `strata pod create -t` makes a pod to attach to later"));
        }
        let attach = self.attach || tty;
        let restart = match attach {
            true => Restart::Never,
            false => Restart::default(),
        };
        let pods = create::wanted(session, self.wanted, &self.how, restart)?;
        let node = session.node().await?;
        if self.how.dry_run {
            let format = self.how.output.format();
            return create::dry_run(session, &node, pods, format, "run").await;
        }
        let mut made = Vec::new();
        for pod in pods {
            let pod = create::create(session, &node, pod, true).await?;
            let at = match &pod.status.address {
                Some(address) => format!(" on {address}"),
                None => String::new(),
            };
            session
                .printer
                .note(&format!("started {}{at}", pod.spec.name));
            made.push(pod);
        }
        match made.as_slice() {
            [pod] if attach => stay(session, &node, pod, self.rm, self.how.output).await,
            made => create::print(session, self.how.output, made),
        }
    }
}

async fn stay(
    session: &mut Session,
    node: &NodeClient,
    pod: &PodView,
    rm: bool,
    output: OutputArgs,
) -> Result {
    let name = &pod.spec.name;
    let mut code = None;
    let ended = tokio::select! {
        ended = until_end(session, node, pod, &mut code) => ended,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err(Failure::silent(Exit::Interrupted))
        }
    };
    let left = matches!(&ended, Err(failure) if failure.exit() == Exit::Interrupted);
    if rm {
        if left {
            session.printer.note(&format!("\ndestroying {name}"));
        }
        destroy(node, name).await?;
    } else if left {
        session.printer.note(&format!(
            "\n{name} goes on. See it with `strata pod logs {name} -f`, \
             end it with `strata pod stop {name}`"
        ));
    }
    match code {
        // The terminal was its own, and so is the end.
        Some(code) => talk::exit(name, &code),
        None => wait::conclude(session, &ended?, output),
    }
}

/// Prints what it writes; answers once it has ended for good. How the process
/// on our terminal ended is told in `code`.
async fn until_end(
    session: &mut Session,
    node: &NodeClient,
    pod: &PodView,
    code: &mut Option<ExecEnded>,
) -> Result<PodView> {
    let name = pod.spec.name.clone();
    let tty = pod.spec.terminal;
    if pod.spec.stdin || tty {
        let start = AttachStart {
            pod: name.clone(),
            tail: ALL_LINES,
            terminal: tty.then(terminal::size),
        };
        let ended = attach::follow(session, node, start).await?;
        *code = tty.then_some(ended);
    } else {
        let request = PodLogsRequest {
            name: name.clone(),
            follow: true,
            ..Default::default()
        };
        logs::print(session, node, request, false).await?;
    }
    wait::until_end(node, &name).await
}

async fn destroy(node: &NodeClient, name: &str) -> Result {
    let request = DestroyPodRequest {
        name: name.to_owned(),
        grace_ms: None,
    };
    let answer = node.pods().destroy(request).await;
    answer.map_err(cannot(node, format!("destroy the pod {name}")))?;
    Ok(())
}

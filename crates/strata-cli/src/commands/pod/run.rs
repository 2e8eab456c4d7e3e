//! `strata pod run`: makes a pod, starts it, and stays with it if asked.

use clap::{ArgGroup, Args};
use strata_api::strata::v1::{AttachStart, DestroyPodRequest, ExecEnded, PodLogsRequest};
use strata_client::NodeClient;

use super::create::{self, PodCreateOptions};
use super::spec_args::PodSpecArgs;
use super::{attach, logs, wait};
use crate::commands::interactive;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::terminal;
use crate::view::{PodView, Restart};

/// All that a node keeps of what was written before somebody attached.
const ALL_LINES: u32 = 100_000;

/// Create and start a pod
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("stays").args(["attach", "tty"]).multiple(true))]
#[command(after_help = "\
With --attach, a pod is restarted only if --restart is given. Ctrl-C detaches,
or destroys the pod with --rm. With -t your terminal is connected to the pod,
including Ctrl-C, and the exit code is that of the pod.

Examples:
  strata pod run web nginx:1.27 -p 8080:80
  strata pod run job alpine --attach --rm -- sh -c 'echo $HOSTNAME; exit 3'
  strata pod run web nginx -e TZ=UTC --memory 64MiB --read-only
  strata pod run -it --rm shell alpine -- sh
  strata pod run -f pods.yaml")]
pub struct Run {
    #[command(flatten)]
    wanted: PodSpecArgs,

    /// Stream its output until it exits; exit with 7 if it fails. Implied by -t
    #[arg(long, conflicts_with_all = ["file", "dry_run"])]
    attach: bool,

    /// Delete it when it exits
    #[arg(long, requires = "stays")]
    rm: bool,

    #[command(flatten)]
    how: PodCreateOptions,
}

impl Run {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let tty = self.wanted.tty;
        if tty && !session.terminal && !self.how.dry_run {
            let what = "-t requires a terminal, and the input is not one";
            return Err(Failure::new(Exit::Usage, what)
                .hint("omit -t; `strata pod create -t` creates a pod to attach to later"));
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
            [pod] if attach => follow_output(session, &node, pod, self.rm, self.how.output).await,
            made => create::print(session, self.how.output, made),
        }
    }
}

async fn follow_output(
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
            "\n{name} keeps running. Follow it with `strata pod logs {name} -f`, stop it with `strata pod stop {name}`"
        ));
    }
    match code {
        // The terminal was its own, and so is the end.
        Some(code) => interactive::exit(name, &code),
        None => wait::conclude(session, &ended?, output),
    }
}

/// Prints what it writes; returns once it has stopped. How the process
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

//! `strata pod run`: makes a pod, starts it, and stays with it if asked.

use clap::Args;
use strata_api::strata::v1::{AttachStart, DestroyPodRequest, PodLogsRequest};
use strata_client::NodeClient;

use super::create::{self, How};
use super::wanted::Wanted;
use super::{attach, logs, wait};
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::view::{PodView, Restart};

/// All that a node keeps of what was written before somebody attached.
const ALL_LINES: u32 = 100_000;

/// Make a pod and start it
#[derive(Args, Debug)]
#[command(after_help = "\
With --attach a pod is not started again when it ends, unless --restart says
so. Ctrl-C leaves it running, or destroys it where --rm was said.

Examples:
  strata pod run web nginx:1.27 -p 8080:80
  strata pod run job alpine --attach --rm -- sh -c 'echo $HOSTNAME; exit 3'
  strata pod run web nginx -e TZ=UTC -e HOME --memory 64MiB --read-only
  strata pod run -f pods.yaml")]
pub struct Run {
    #[command(flatten)]
    wanted: Wanted,

    /// Print what it writes until it ends; exit with 7 when it fails
    #[arg(long, conflicts_with_all = ["file", "dry_run"])]
    attach: bool,

    /// Destroy it when it has ended
    #[arg(long, requires = "attach")]
    rm: bool,

    #[command(flatten)]
    how: How,
}

impl Run {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let restart = match self.attach {
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
            [pod] if self.attach => stay(session, &node, pod, self.rm, self.how.output).await,
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
    let ended = tokio::select! {
        ended = until_end(session, node, pod) => ended,
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
    wait::conclude(session, &ended?, output)
}

/// Prints what it writes; answers once it has ended for good.
async fn until_end(session: &mut Session, node: &NodeClient, pod: &PodView) -> Result<PodView> {
    let name = pod.spec.name.clone();
    if pod.spec.stdin {
        let start = AttachStart {
            pod: name.clone(),
            tail: ALL_LINES,
        };
        attach::follow(session, node, start).await?;
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

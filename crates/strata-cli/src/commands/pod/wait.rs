//! `strata pod wait`: answers once a pod has ended for good; its end becomes
//! the exit code.

use clap::Args;
use strata_api::strata::v1::WaitPodRequest;
use strata_client::NodeClient;

use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Span, label_name};
use crate::view::PodView;

/// Wait until a pod stops and is not restarted
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 0 if the pod exited with 0, else with 7. A pod that is restarted
has not stopped.

Examples:
  strata pod wait job
  strata pod wait job --timeout 10m -o json | jq .status.exit_code")]
pub struct Wait {
    /// Name of the pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    /// Timeout, after which the command exits with 7
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Wait {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let end = until_end(&node, &self.name);
        let ended = match self.timeout {
            None => end.await?,
            Some(limit) => tokio::time::timeout(limit.0, end).await.map_err(|_| {
                let what = format!("timeout: {} has not stopped after {limit}", self.name);
                Failure::new(Exit::Failed, what)
            })??,
        };
        conclude(session, &ended, self.output)
    }
}

/// Waits for the exit.
pub(super) async fn until_end(node: &NodeClient, name: &str) -> Result<PodView> {
    let request = WaitPodRequest {
        name: name.to_owned(),
    };
    let answer = node.pods().wait(request).await;
    let pod = answer.map_err(cannot(node, format!("wait for the pod {name}")))?;
    Ok(pod.into_inner().into())
}

/// Reports the exit: a message, data with `-o`, and the exit code.
pub(super) fn conclude(session: &mut Session, ended: &PodView, output: OutputArgs) -> Result {
    if let Some(format) = output.requested() {
        output::one(session, format, ended)?;
    }
    let outcome = format!("{} ended: {}", ended.spec.name, ended.outcome());
    if ended.succeeded() {
        session.printer.note(&outcome);
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, outcome))
}

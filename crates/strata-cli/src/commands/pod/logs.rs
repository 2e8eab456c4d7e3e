//! `strata pod logs`: what a pod wrote, byte for byte, each channel to its
//! own.

use clap::Args;
use strata_api::strata::v1::PodLogsRequest;
use strata_client::NodeClient;

use crate::commands::logs::{self, LogsArgs};
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::label_name;

/// Show the logs of a pod
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod logs web
  strata pod logs web -f --tail 20
  strata pod logs web --since 10m --stderr --timestamps
  strata pod logs web --previous                 the run before the latest")]
pub struct Logs {
    /// Name of the pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    #[command(flatten)]
    logs: LogsArgs,
}

impl Logs {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = self.logs.request(self.name, session.now());
        print(session, &node, request, self.logs.timestamps).await
    }
}

/// Prints what the pod wrote.
pub(super) async fn print(
    session: &mut Session,
    node: &NodeClient,
    request: PodLogsRequest,
    timestamps: bool,
) -> Result {
    let what = format!("read the logs of the pod {}", request.name);
    let answer = node.pods().logs(request).await;
    let lines = answer.map_err(cannot(node, &*what))?.into_inner();
    logs::print(session, node, &what, lines, timestamps).await
}

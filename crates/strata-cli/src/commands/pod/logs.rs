//! `strata pod logs`: what a pod wrote, byte for byte, each channel to its
//! own.

use clap::Args;
use strata_api::strata::v1::PodLogsRequest;
use strata_client::NodeClient;

use crate::commands::logs;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::{Since, label_name};

/// What a pod wrote
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod logs web
  strata pod logs web -f --tail 20
  strata pod logs web --since 10m --stderr --timestamps
  strata pod logs web --previous                 the run before the latest")]
pub struct Logs {
    /// The pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: String,

    /// Go on until the pod has ended for good
    #[arg(short, long)]
    follow: bool,

    /// Only so many last lines of what there is
    #[arg(long, value_name = "N")]
    tail: Option<u32>,

    /// Only what was written since: 10m, 2h, or a time in RFC 3339
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,

    /// The run before the latest
    #[arg(long, conflicts_with = "follow")]
    previous: bool,

    /// Only what was written to stdout
    #[arg(long)]
    stdout: bool,

    /// Only what was written to stderr
    #[arg(long)]
    stderr: bool,

    /// Put the time before each line
    #[arg(short, long)]
    timestamps: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = PodLogsRequest {
            name: self.name,
            stdout: self.stdout,
            stderr: self.stderr,
            follow: self.follow,
            tail: self.tail,
            since_ms: self.since.map(|since| since.millis(session.now())),
            previous: self.previous,
        };
        print(session, &node, request, self.timestamps).await
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

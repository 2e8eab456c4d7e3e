//! `strata pod start`: starts pods that were made or have ended.

use clap::Args;
use strata_api::strata::v1::StartPodRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Start pods
#[derive(Args, Debug)]
#[command(after_help = "\
Returns once their processes run. Starting a running pod succeeds.

Examples:
  strata pod start web
  strata pod start web db")]
pub struct Start {
    /// Names of the pods
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::pods())]
    names: Vec<String>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let pod = current(&node, name, "read").await?;
                Ok(match pod.is_up() {
                    true => format!("{name} is already {}", pod.status.state),
                    false => format!("would start {name}"),
                })
            })
            .await;
        }
        ACTION
            .each(session, &node, self.names, async |name| {
                node.pods().start(StartPodRequest { name }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "start",
    done: "started",
    noun: "pod",
};

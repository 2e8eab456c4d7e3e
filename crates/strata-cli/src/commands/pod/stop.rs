//! `strata pod stop`: the stop signal, a grace, SIGKILL.

use clap::Args;
use strata_api::strata::v1::StopPodRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::{Span, label_name};

/// Stop pods; their data is kept
#[derive(Args, Debug)]
#[command(after_help = "\
Stopping a stopped pod succeeds.

Examples:
  strata pod stop web
  strata pod stop web db --grace 30s")]
pub struct Stop {
    /// Names of the pods
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::pods())]
    names: Vec<String>,

    /// Time between the stop signal and SIGKILL [default: that of each pod]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let pod = current(&node, name, "read").await?;
                Ok(match pod.is_up() || pod.status.state == "waiting" {
                    true => format!("would stop {name}"),
                    false => format!("{name} is not running: {}", pod.outcome()),
                })
            })
            .await;
        }
        let grace_ms = self.grace.map(Span::millis_u32);
        ACTION
            .each(session, &node, self.names, async |name| {
                node.pods().stop(StopPodRequest { name, grace_ms }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "stop",
    done: "stopped",
    noun: "pod",
};

//! `strata pod destroy`: stops pods and takes everything of them away.

use clap::Args;
use strata_api::strata::v1::DestroyPodRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::{Span, label_name};

/// Stop and delete pods
#[derive(Args, Debug)]
#[command(after_help = "\
The root file system of a pod is deleted; volumes are kept.

Examples:
  strata pod destroy web
  strata pod destroy web db --grace 30s --yes")]
pub struct Destroy {
    /// Names of the pods
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::pods())]
    names: Vec<String>,

    /// Time between the stop signal and SIGKILL [default: that of each pod]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Destroy {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let pod = current(&node, name, "read").await?;
                Ok(format!("would destroy {name} ({})", pod.outcome()))
            })
            .await;
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        let grace_ms = self.grace.map(Span::millis_u32);
        ACTION
            .each(session, &node, self.names, async |name| {
                node.pods()
                    .destroy(DestroyPodRequest { name, grace_ms })
                    .await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "destroy",
    done: "destroyed",
    noun: "pod",
};

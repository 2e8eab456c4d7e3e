//! `strata pod destroy`: stops pods and takes everything of them away.

use clap::Args;
use strata_api::strata::v1::DestroyPodRequest;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::{Span, label_name};

/// Stop pods and take everything of them away
#[derive(Args, Debug)]
#[command(after_help = "\
What a pod wrote to its own root goes with it; volumes stay.

Examples:
  strata pod destroy web
  strata pod destroy web db --grace 30s --yes")]
pub struct Destroy {
    /// The pods
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::pods())]
    names: Vec<String>,

    /// Between the stop signal and SIGKILL; else each pod's own
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Destroy {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let pod = current(&node, name, "look at").await?;
                Ok(format!("would destroy {name} ({})", pod.outcome()))
            })
            .await;
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        let grace_ms = self.grace.map(Span::millis_u32);
        DEED.each(session, &node, self.names, async |name| {
            node.pods()
                .destroy(DestroyPodRequest { name, grace_ms })
                .await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "destroy",
    done: "destroyed",
    noun: "pod",
};

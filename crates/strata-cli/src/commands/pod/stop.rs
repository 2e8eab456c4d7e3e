//! `strata pod stop`: the stop signal, a grace, SIGKILL.

use clap::Args;
use strata_api::strata::v1::StopPodRequest;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::{Span, label_name};

/// End what runs in pods; what they wrote stays
#[derive(Args, Debug)]
#[command(after_help = "\
Stopping what has ended already succeeds.

Examples:
  strata pod stop web
  strata pod stop web db --grace 30s")]
pub struct Stop {
    /// The pods
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::pods())]
    names: Vec<String>,

    /// Between the stop signal and SIGKILL; else each pod's own
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let pod = current(&node, name, "look at").await?;
                Ok(match pod.is_up() || pod.status.state == "waiting" {
                    true => format!("would stop {name}"),
                    false => format!("{name} does not run: {}", pod.outcome()),
                })
            })
            .await;
        }
        let grace_ms = self.grace.map(Span::millis_u32);
        DEED.each(session, &node, self.names, async |name| {
            node.pods().stop(StopPodRequest { name, grace_ms }).await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "stop",
    done: "stopped",
    noun: "pod",
};

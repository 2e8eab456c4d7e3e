//! `strata pod destroy`: stops pods and takes everything of them away.

use clap::Args;
use strata_api::strata::v1::DestroyPodRequest;

use super::current;
use crate::commands::last;
use crate::complete;
use crate::failure::{Result, cannot};
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
            for name in self.names {
                let pod = current(&node, &name, "look at").await?;
                let line = format!("would destroy {name} ({})\n", pod.outcome());
                session.printer.data(line.as_bytes())?;
            }
            return Ok(());
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        let mut failures = Vec::new();
        for name in self.names {
            let request = DestroyPodRequest {
                name: name.clone(),
                grace_ms: self.grace.map(Span::millis_u32),
            };
            match node.pods().destroy(request).await {
                Ok(_) => session.printer.note(&format!("destroyed {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("destroy the pod {name}"))(status));
                }
            }
        }
        last(session, failures)
    }
}

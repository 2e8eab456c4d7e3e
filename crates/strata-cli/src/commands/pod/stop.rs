//! `strata pod stop`: the stop signal, a grace, SIGKILL.

use clap::Args;
use strata_api::strata::v1::StopPodRequest;

use super::current;
use crate::commands::last;
use crate::complete;
use crate::failure::{Result, cannot};
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
        let mut failures = Vec::new();
        for name in self.names {
            if self.dry_run {
                let pod = current(&node, &name, "look at").await?;
                let line = match pod.is_up() || pod.status.state == "waiting" {
                    true => format!("would stop {name}\n"),
                    false => format!("{name} does not run: {}\n", pod.outcome()),
                };
                session.printer.data(line.as_bytes())?;
                continue;
            }
            let request = StopPodRequest {
                name: name.clone(),
                grace_ms: self.grace.map(Span::millis_u32),
            };
            match node.pods().stop(request).await {
                Ok(_) => session.printer.note(&format!("stopped {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("stop the pod {name}"))(status));
                }
            }
        }
        last(session, failures)
    }
}

//! `strata vm stop`: the power button, a grace, the plug.

use clap::Args;
use strata_api::strata::v1::StopVmRequest;

use super::current;
use crate::commands::last;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::{Span, label_name};

/// Switch virtual machines off; their disks stay
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm stop build
  strata vm stop build --grace 0s               pulls the plug at once")]
pub struct Stop {
    /// The virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
    names: Vec<String>,

    /// Between the power button and the plug; else each machine's own
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
                let vm = current(&node, &name, "look at").await?;
                let line = match vm.is_up() {
                    true => format!("would stop {name}\n"),
                    false => format!("{name} is off: {}\n", vm.status.state),
                };
                session.printer.data(line.as_bytes())?;
                continue;
            }
            let request = StopVmRequest {
                name: name.clone(),
                grace_ms: self.grace.map(Span::millis_u32),
            };
            match node.vms().stop(request).await {
                Ok(_) => session.printer.note(&format!("stopped {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("stop the vm {name}"))(status));
                }
            }
        }
        last(session, failures)
    }
}

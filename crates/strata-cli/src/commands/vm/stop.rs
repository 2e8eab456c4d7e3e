//! `strata vm stop`: the power button, a grace, the plug.

use clap::Args;
use strata_api::strata::v1::StopVmRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::{Span, label_name};

/// Stop virtual machines; their disks are kept
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm stop build
  strata vm stop build --grace 0s               powers off at once")]
pub struct Stop {
    /// Names of the virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
    names: Vec<String>,

    /// Time between ACPI shutdown and power-off [default: that of each VM]
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
                let vm = current(&node, name, "read").await?;
                Ok(match vm.is_up() {
                    true => format!("would stop {name}"),
                    false => format!("{name} is stopped: {}", vm.status.state),
                })
            })
            .await;
        }
        let grace_ms = self.grace.map(Span::millis_u32);
        ACTION
            .each(session, &node, self.names, async |name| {
                node.vms().stop(StopVmRequest { name, grace_ms }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "stop",
    done: "stopped",
    noun: "vm",
};

//! `strata vm start`: switches virtual machines on.

use clap::Args;
use strata_api::strata::v1::StartVmRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Start virtual machines
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm start build
  strata vm start build db")]
pub struct Start {
    /// Names of the virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
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
                let vm = current(&node, name, "read").await?;
                Ok(match vm.is_up() {
                    true => format!("{name} is already {}", vm.status.state),
                    false => format!("would start {name}"),
                })
            })
            .await;
        }
        ACTION
            .each(session, &node, self.names, async |name| {
                node.vms().start(StartVmRequest { name }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "start",
    done: "started",
    noun: "vm",
};

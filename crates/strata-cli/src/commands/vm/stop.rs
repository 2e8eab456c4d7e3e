//! `strata vm stop`: the power button, a grace, the plug.

use clap::Args;
use strata_api::strata::v1::StopVmRequest;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::Result;
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
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let vm = current(&node, name, "look at").await?;
                Ok(match vm.is_up() {
                    true => format!("would stop {name}"),
                    false => format!("{name} is off: {}", vm.status.state),
                })
            })
            .await;
        }
        let grace_ms = self.grace.map(Span::millis_u32);
        DEED.each(session, &node, self.names, async |name| {
            node.vms().stop(StopVmRequest { name, grace_ms }).await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "stop",
    done: "stopped",
    noun: "vm",
};

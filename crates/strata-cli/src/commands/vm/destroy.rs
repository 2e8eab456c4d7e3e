//! `strata vm destroy`: stops virtual machines and takes everything of them
//! away.

use clap::Args;
use strata_api::strata::v1::DestroyVmRequest;

use super::current;
use crate::commands::last;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::label_name;

/// Stop virtual machines and take everything of them away
#[derive(Args, Debug)]
#[command(after_help = "\
Their clones of images go, and what they wrote to them; the images stay.

Examples:
  strata vm destroy build
  strata vm destroy build db --yes")]
pub struct Destroy {
    /// The virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
    names: Vec<String>,

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
                let vm = current(&node, &name, "look at").await?;
                let line = format!("would destroy {name} ({})\n", vm.status.state);
                session.printer.data(line.as_bytes())?;
            }
            return Ok(());
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        let mut failures = Vec::new();
        for name in self.names {
            let request = DestroyVmRequest { name: name.clone() };
            match node.vms().destroy(request).await {
                Ok(_) => session.printer.note(&format!("destroyed {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("destroy the vm {name}"))(status));
                }
            }
        }
        last(session, failures)
    }
}

//! `strata vm start`: switches virtual machines on.

use clap::Args;
use strata_api::strata::v1::StartVmRequest;

use super::current;
use crate::commands::last;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::label_name;

/// Switch virtual machines on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm start build
  strata vm start build db")]
pub struct Start {
    /// The virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
    names: Vec<String>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let mut failures = Vec::new();
        for name in self.names {
            if self.dry_run {
                let vm = current(&node, &name, "look at").await?;
                let line = match vm.is_up() {
                    true => format!("{name} is {} already\n", vm.status.state),
                    false => format!("would start {name}\n"),
                };
                session.printer.data(line.as_bytes())?;
                continue;
            }
            let request = StartVmRequest { name: name.clone() };
            match node.vms().start(request).await {
                Ok(_) => session.printer.note(&format!("started {name}")),
                Err(status) => {
                    failures.push(cannot(&node, format!("start the vm {name}"))(status));
                }
            }
        }
        last(session, failures)
    }
}

//! `strata vm wait`: answers once a virtual machine has ended for good; its
//! end becomes the exit code.

use clap::Args;
use strata_api::strata::v1::WaitVmRequest;

use crate::complete;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Span, label_name};
use crate::view::VmView;

/// Wait until a virtual machine stops and is not restarted
#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 0 if the VM was shut down, from inside or by `stop`, else with 7. A
VM that is restarted has not stopped.

Examples:
  strata vm wait build
  strata vm wait build --timeout 10m -o json | jq -r .status.reason")]
pub struct Wait {
    /// Name of the virtual machine
    #[arg(value_parser = label_name, add = complete::vms())]
    name: String,

    /// Timeout, after which the command exits with 7
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Wait {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let name = self.name;
        let request = WaitVmRequest { name: name.clone() };
        let end = async { node.vms().wait(request).await };
        let ended = match self.timeout {
            None => end.await,
            Some(limit) => tokio::time::timeout(limit.0, end).await.map_err(|_| {
                let what = format!("timeout: {name} has not stopped after {limit}");
                Failure::new(Exit::Failed, what)
            })?,
        };
        let ended = ended.map_err(cannot(&node, format!("wait for the vm {name}")))?;
        let ended = VmView::from(ended.into_inner());
        if let Some(format) = self.output.requested() {
            output::one(session, format, &ended)?;
        }
        let outcome = format!("{name} ended: {}", ended.outcome());
        if ended.succeeded() {
            session.printer.note(&outcome);
            return Ok(());
        }
        Err(Failure::new(Exit::Failed, outcome))
    }
}

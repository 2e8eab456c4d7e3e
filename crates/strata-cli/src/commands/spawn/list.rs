//! `strata spawn list`: the machines inside this one.

use clap::Args;
use strata_api::strata::v1::ListMachinesRequest;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::view::MachineView;

/// List nested nodes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata spawn list
  strata spawn list -o json | jq -r '.[].status.endpoint'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let answer = node.spawn().list(ListMachinesRequest {}).await;
        let machines = answer.map_err(cannot(&node, "list the machines"))?;
        let machines = machines.into_inner().machines;
        let machines: Vec<MachineView> = machines.into_iter().map(Into::into).collect();
        let empty = "no nested nodes; create one with `strata spawn create NAME`";
        output::rows(session, self.output.format(), &machines, empty)
    }
}

//! `strata hypervisor list`: every machine, by what can be done with it now.

use clap::Args;
use strata_client::rest::{Hypervisor, Query};

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List machines as hypervisors
#[derive(Args, Debug)]
#[command(after_help = "\
ACTIONS lists what is possible now: create boots it, destroy wipes it.

Examples:
  strata hypervisor list
  strata hypervisor list -o json | jq -r '.[].state'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list::<Hypervisor>(&Query::new()).await;
        let mut found = found.map_err(unable("list the hypervisors"))?;
        found.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        let empty = "no machines; register one with `strata machine add ID --provider KIND`";
        output::rows(session, self.output.format(), &found, empty)
    }
}

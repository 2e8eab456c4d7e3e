//! `strata storage device list`: devices of the pool, and spares.

use clap::Args;

use crate::commands::storage::current;
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List devices and spares of the pool
#[derive(Args, Debug)]
#[command(after_help = "\
ALLOCATED is how much of a device is allocated to data, in use or not.

Examples:
  strata storage device list
  strata storage device list -o json | jq '.[].errors'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let pool = current(&rest).await?;
        let empty = "no devices; add one with `strata storage device add`";
        output::rows(session, self.output.format(), &pool.devices, empty)
    }
}

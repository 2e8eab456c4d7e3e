//! `strata storage volume list`: the volumes on the pool.

use clap::Args;
use strata_api::rest::PoolVolume;
use strata_client::rest::Query;

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List the volumes of the pool
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata storage volume list
  strata storage volume list -o wide")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list::<PoolVolume>(&Query::new()).await;
        let mut found = found.map_err(unable("list the volumes"))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let empty = "no volumes; create one with `strata storage volume create NAME`";
        output::rows(session, self.output.format(), &found, empty)
    }
}

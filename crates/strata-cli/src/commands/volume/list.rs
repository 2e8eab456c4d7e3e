//! `strata volume list`: the volumes of the node.

use clap::Args;
use strata_api::strata::v1::ListVolumesRequest;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::view::VolumeView;

/// List the volumes of the node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata volume list
  strata volume list -o json | jq -r '.[] | select(.used_by == []).name'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let answer = node.volumes().list(ListVolumesRequest {}).await;
        let volumes = answer.map_err(cannot(&node, "list the volumes"))?;
        let volumes = volumes.into_inner().volumes;
        let volumes: Vec<VolumeView> = volumes.into_iter().map(Into::into).collect();
        let empty = "no volumes; create one with `strata volume create NAME`";
        output::rows(session, self.output.format(), &volumes, empty)
    }
}

//! `strata image list`: the images of the node.

use clap::Args;
use strata_api::strata::v1::ListImagesRequest;

use crate::failure::{Result, cannot};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::view::ImageView;

/// List the images of the node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata image list
  strata image list -o wide
  strata image list -o json | jq '.[].digest'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let answer = node
            .images()
            .list(ListImagesRequest {})
            .await
            .map_err(cannot(&node, "list the images"))?;
        let images = answer.into_inner().images;
        let images: Vec<ImageView> = images.into_iter().map(Into::into).collect();
        let empty = "no images; pull one with `strata image pull IMAGE`";
        output::rows(session, self.output.format(), &images, empty)
    }
}

//! `strata image prune`: takes away what nothing needs, as far as asked.

use clap::Args;
use serde::Serialize;
use strata_api::strata::v1::{ImagePruneGoal, PruneImagesRequest};

use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, human};
use crate::session::Session;
use crate::values::Bytes;

/// Delete unused images and layers
#[derive(Args, Debug)]
#[command(after_help = "\
By default only data that no image needs is deleted: interrupted downloads and
layers of deleted images. Images in use are never deleted.

Examples:
  strata image prune
  strata image prune --all --dry-run
  strata image prune --free 20GiB --yes")]
pub struct Prune {
    /// Also delete every unused image
    #[arg(short, long, conflicts_with_all = ["packed", "free"])]
    all: bool,

    /// Also delete packed layers that are unpacked; they are downloaded again
    /// when needed
    #[arg(long, conflicts_with = "free")]
    packed: bool,

    /// Also delete unused images, oldest first, until this much disk is free
    #[arg(long, value_name = "SIZE")]
    free: Option<Bytes>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would be deleted, without deleting anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// What was removed, or would be.
#[derive(Serialize)]
struct PrunedView {
    dry_run: bool,
    images: Vec<String>,
    freed_bytes: u64,
    blobs: u32,
    layers: u32,
}

impl Prune {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let goal = match (self.all, self.packed, self.free) {
            (true, ..) => ImagePruneGoal::Unused,
            (_, true, _) => ImagePruneGoal::Packed,
            (.., Some(_)) => ImagePruneGoal::Free,
            _ => ImagePruneGoal::Garbage,
        };
        let request = |dry_run| PruneImagesRequest {
            goal: goal.into(),
            free_bytes: self.free.map_or(0, |free| free.0),
            dry_run,
        };
        let takes_images = matches!(goal, ImagePruneGoal::Unused | ImagePruneGoal::Free);
        if takes_images && !self.dry_run && !self.yes && session.interactive {
            let answer = node.images().prune(request(true)).await;
            let would = answer.map_err(cannot(&node, "read the images"))?;
            let would = would.into_inner().references;
            if !would.is_empty() {
                session.confirm(&format!("Remove {}?", would.join(", ")), false)?;
            }
        }
        let answer = node.images().prune(request(self.dry_run)).await;
        let gone = answer.map_err(cannot(&node, "prune the images"))?;
        let gone = gone.into_inner();
        let view = PrunedView {
            dry_run: self.dry_run,
            images: gone.references,
            freed_bytes: gone.freed_bytes,
            blobs: gone.blobs,
            layers: gone.layers,
        };
        self.print(session, &view)
    }

    fn print(&self, session: &mut Session, view: &PrunedView) -> Result {
        match self.output.requested() {
            Some(format @ (Format::Json | Format::Yaml)) => {
                return output::document(session, format, view);
            }
            Some(Format::Name) => {
                let names: String = view
                    .images
                    .iter()
                    .map(|name| format!("image/{name}\n"))
                    .collect();
                return Ok(session.printer.data(names.as_bytes())?);
            }
            _ => {}
        }
        let freed = human::bytes(view.freed_bytes);
        if self.dry_run {
            let mut text: String = view
                .images
                .iter()
                .map(|name| format!("would remove {name}\n"))
                .collect();
            text += &format!("would free {freed}\n");
            return Ok(session.printer.data(text.as_bytes())?);
        }
        for name in &view.images {
            session.printer.note(&format!("removed {name}"));
        }
        session.printer.note(&format!("freed {freed}"));
        Ok(())
    }
}

//! `strata image prune`: takes away what nothing needs, as far as asked.

use clap::Args;
use serde::Serialize;
use strata_api::strata::v1::{ImagePruneGoal, PruneImagesRequest};

use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs, human};
use crate::session::Session;
use crate::values::Bytes;

/// Take away what nothing needs
#[derive(Args, Debug)]
#[command(after_help = "\
Without more, only what no image needs goes: cut downloads, layers of images
that were removed. Nothing that runs loses its image.

Examples:
  strata image prune
  strata image prune --all --dry-run
  strata image prune --free 20GiB --yes")]
pub struct Prune {
    /// Also every image that nothing runs from
    #[arg(short, long, conflicts_with_all = ["packed", "free"])]
    all: bool,

    /// Also packed layers that are unpacked; lost ones are downloaded again
    #[arg(long, conflicts_with = "free")]
    packed: bool,

    /// Also unused images, the oldest first, until this much disk is free
    #[arg(long, value_name = "SIZE")]
    free: Option<Bytes>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would go
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// What went, or would go.
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
            let would = answer.map_err(cannot(&node, "look at the images"))?;
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
        match self.output.asked() {
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

//! `strata volume show`: one volume, all that is known of it.

use clap::Args;
use jiff::Timestamp;

use super::current;
use crate::complete;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::session::Session;
use crate::view::VolumeView;

/// Show a volume
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata volume show data
  strata volume show data -o json | jq .used_bytes")]
pub struct Show {
    /// Name of the volume
    #[arg(add = complete::volumes())]
    name: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let volume = current(&node, &self.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&volume, session.now());
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &volume),
        }
    }
}

fn describe(volume: &VolumeView, now: Timestamp) -> String {
    let mut details = Details::new(9);
    details.row("Name", &volume.name);
    let size = volume
        .size_bytes
        .map_or("unlimited".to_owned(), human::bytes);
    details.row("Size", &size);
    let used = volume
        .used_bytes
        .map_or("too many files to count".to_owned(), human::bytes);
    details.row("Used", &used);
    if volume.of_image {
        details.row("Goes", "with its pod");
    }
    for pod in &volume.used_by {
        details.row("Used by", pod);
    }
    details.moment("Created", volume.created_at, now);
    details.finish()
}

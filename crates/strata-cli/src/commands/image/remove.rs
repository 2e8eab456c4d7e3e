//! `strata image remove`: forgets images and takes away what only they needed.

use clap::Args;
use strata_api::strata::v1::{GetImageRequest, RemoveImageRequest};

use super::image_name;
use crate::complete;
use crate::failure::{Failure, Result, cannot};
use crate::output::human;
use crate::session::Session;

/// Delete images from the node
#[derive(Args, Debug)]
#[command(after_help = "\
An image in use is rejected. A digest removes all names of its image; a name
removes only that name.

Examples:
  strata image remove nginx:1.27
  strata image remove 4bf3ab registry.lan:5000/app:v1 --yes")]
pub struct Remove {
    /// Names, digests or digest prefixes
    #[arg(value_name = "IMAGE", required = true, value_parser = image_name)]
    #[arg(add = complete::images())]
    images: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            for image in self.images {
                let what = format!("read the image {image}");
                let answer = node.images().get(GetImageRequest { image }).await;
                let found = answer.map_err(cannot(&node, what))?.into_inner();
                let line = match found.used_by.as_slice() {
                    [] => format!("would remove {}\n", found.reference),
                    users => format!(
                        "would not remove {}: in use by {}\n",
                        found.reference,
                        users.join(", ")
                    ),
                };
                session.printer.data(line.as_bytes())?;
            }
            return Ok(());
        }
        session.confirm(&format!("Remove {}?", self.images.join(", ")), self.yes)?;
        let mut failures = Vec::new();
        for image in self.images {
            let request = RemoveImageRequest {
                image: image.clone(),
            };
            match node.images().remove(request).await {
                Ok(answer) => {
                    let gone = answer.into_inner();
                    let names = match gone.references.as_slice() {
                        [] => format!("{image} (already removed)"),
                        names => names.join(", "),
                    };
                    let freed = human::bytes(gone.freed_bytes);
                    session
                        .printer
                        .note(&format!("removed {names}, freed {freed}"));
                }
                Err(status) => {
                    failures.push(cannot(&node, format!("remove the image {image}"))(status));
                }
            }
        }
        last(session, failures)
    }
}

/// Prints all failures but the last, which becomes the command's own.
fn last(session: &mut Session, mut failures: Vec<Failure>) -> Result {
    let Some(last) = failures.pop() else {
        return Ok(());
    };
    for failure in failures {
        session.printer.failure(&failure);
    }
    Err(last)
}

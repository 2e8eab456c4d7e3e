//! `strata node undrain`: lets a node take instances again.

use clap::Args;
use strata_api::rest::NodePatch;

use super::{Several, change, current};
use crate::commands::each::{Deed, preview};
use crate::failure::Result;
use crate::session::Session;

/// Let a node take instances again
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata node undrain rack1-7")]
pub struct Undrain {
    #[command(flatten)]
    which: Several,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Undrain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "look at").await?;
                Ok(match node.draining {
                    true => format!("would open {name}"),
                    false => format!("{name} takes instances already"),
                })
            })
            .await;
        }
        let patch = NodePatch {
            draining: Some(false),
            ..Default::default()
        };
        DEED.of_each(session, self.which.names, async |_, name| {
            change(&rest, &name, &patch, "open").await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "open",
    done: "opened",
    noun: "node",
};

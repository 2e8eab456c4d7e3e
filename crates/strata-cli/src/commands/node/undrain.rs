//! `strata node undrain`: lets a node take instances again.

use clap::Args;
use strata_api::rest::NodePatch;

use super::{NodesArg, change, current};
use crate::commands::bulk::{BulkAction, preview};
use crate::failure::Result;
use crate::session::Session;

/// Make a node schedulable again
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata node undrain rack1-7")]
pub struct Undrain {
    #[command(flatten)]
    which: NodesArg,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Undrain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "read").await?;
                Ok(match node.draining {
                    true => format!("would make {name} schedulable"),
                    false => format!("{name} is already schedulable"),
                })
            })
            .await;
        }
        let patch = NodePatch {
            draining: Some(false),
            ..Default::default()
        };
        ACTION
            .each_with(session, self.which.names, async |_, name| {
                change(&rest, &name, &patch, "open").await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "open",
    done: "opened",
    noun: "node",
};

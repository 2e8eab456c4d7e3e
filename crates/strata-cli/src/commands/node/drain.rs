//! `strata node drain`: moves the instances of a node elsewhere, and lets it
//! take no more.

use std::time::Duration;

use clap::Args;
use strata_api::rest::NodePatch;
use strata_client::rest::RestClient;

use super::{Several, change, current};
use crate::commands::each::preview;
use crate::failure::{Exit, Failure, Result};
use crate::output::human;
use crate::session::Session;

/// Between two looks at how many are left.
const PAUSE: Duration = Duration::from_millis(500);

/// Move the instances of a node elsewhere, and let it take no more
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  strata node drain rack1-7 --wait
  strata node drain rack1-7 --dry-run")]
pub struct Drain {
    #[command(flatten)]
    which: Several,

    /// Wait until nothing is left on it
    #[arg(short, long)]
    wait: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Drain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "look at").await?;
                let many = human::count(node.instances, "instance");
                Ok(format!("would drain {name}, which has {many}"))
            })
            .await;
        }
        let patch = NodePatch {
            draining: Some(true),
            ..Default::default()
        };
        for name in &self.which.names {
            change(&rest, name, &patch, "drain").await?;
            session.printer.note(&format!("draining {name}"));
        }
        if self.wait {
            for name in &self.which.names {
                empty(session, &rest, name).await?;
            }
        }
        Ok(())
    }
}

/// Waits until nothing is on the node.
async fn empty(session: &mut Session, rest: &RestClient, name: &str) -> Result {
    let mut told = None;
    loop {
        let node = current(rest, name, "look at").await?;
        if node.instances == 0 {
            session.printer.note(&format!("{name} is empty"));
            return Ok(());
        }
        if told != Some(node.instances) {
            let many = human::count(node.instances, "instance");
            session.printer.note(&format!("{name}: {many} left"));
            told = Some(node.instances);
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                session.printer.note(&format!(
                    "\nthe server goes on. See it with `strata node show {name}`, \
                     call it off with `strata node undrain {name}`"
                ));
                return Err(Failure::silent(Exit::Interrupted));
            }
        }
    }
}

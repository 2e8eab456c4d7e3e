//! `strata cluster restore`: puts the state of a cluster back.

use clap::Args;
use strata_api::rest::{Cluster, RestoreCluster};

use super::ClusterArg;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Restore a cluster from a snapshot
#[derive(Args, Debug)]
#[command(after_help = "\
Changes since the snapshot are lost, and the API is unavailable meanwhile.
SNAPSHOT may be `latest`. Ctrl-C detaches; the operation continues on the
server.

Examples:
  strata cluster restore dev latest
  strata cluster restore dev 20260131T120000 --yes")]
pub struct Restore {
    #[command(flatten)]
    one: ClusterArg,

    /// Snapshot ID, or latest
    snapshot: String,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Restore {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (name, snapshot) = (&self.one.name, self.snapshot);
        if self.dry_run {
            let line = format!("would restore {name} from {snapshot}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let question = format!("Restore {name} from {snapshot}, and lose all changes since?");
        session.confirm(&question, self.yes)?;
        let asked = RestoreCluster { snapshot };
        let begun = rest.begin::<Cluster>(name, "restore", &asked).await;
        let begun = begun.map_err(unable(format!("restore the cluster {name}")))?;
        let told = (
            &*format!("restoring the cluster {name}"),
            &*format!("restored the cluster {name}"),
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}

//! `strata cluster restore`: puts the state of a cluster back.

use clap::Args;
use strata_api::rest::{Cluster, RestoreCluster};

use super::One;
use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Put a cluster back to a snapshot of its state
#[derive(Args, Debug)]
#[command(after_help = "\
What changed in the cluster since then is lost; its API is away meanwhile.
SNAPSHOT may be `latest`. Ctrl-C leaves it to the server.

Examples:
  strata cluster restore dev latest
  strata cluster restore dev 20260131T120000 --yes")]
pub struct Restore {
    #[command(flatten)]
    one: One,

    /// The id of the snapshot, or latest
    snapshot: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Restore {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (name, snapshot) = (&self.one.name, self.snapshot);
        if self.dry_run {
            let line = format!("would put {name} back to {snapshot}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let question = format!("Put {name} back to {snapshot}, and lose what changed since?");
        session.confirm(&question, self.yes)?;
        let asked = RestoreCluster { snapshot };
        let begun = rest.begin::<Cluster>(name, "restore", &asked).await;
        let begun = begun.map_err(unable(format!("restore the cluster {name}")))?;
        let told = (
            &*format!("restoring the cluster {name}"),
            &*format!("restored the cluster {name}"),
        );
        self.staying.one(session, &rest, &begun, told).await
    }
}

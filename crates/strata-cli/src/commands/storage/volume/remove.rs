//! `strata storage volume remove`: takes volumes away with all that is in
//! them.

use clap::Args;
use strata_api::rest::PoolVolume;
use strata_client::rest::Query;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Remove volumes with all that is in them
#[derive(Args, Debug)]
#[command(after_help = "\
Snapshots go with their volume; copies of it stay.

Examples:
  strata storage volume remove data
  strata storage volume remove data trial --yes")]
pub struct Remove {
    /// The volumes
    #[arg(value_name = "NAME", required = true, add = complete::pool_volumes())]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let volume = current(&rest, name, "look at").await?;
                let freed = human::bytes(volume.exclusive_bytes);
                Ok(match volume.snapshots.len() {
                    0 => format!("would remove {name} and free {freed}"),
                    n => {
                        let many = human::count(n, "snapshot");
                        format!("would remove {name} with {many}")
                    }
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        DEED.of_each(session, self.names, async |_, name| {
            let answer = rest.delete::<PoolVolume>(&name, &Query::new()).await;
            answer.map_err(unable(format!("remove the volume {name}")))
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "remove",
    done: "removed",
    noun: "volume",
};

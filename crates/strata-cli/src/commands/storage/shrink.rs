//! `strata storage shrink`: moves data away from devices and gives them back.

use clap::Args;
use strata_api::rest::{Pool, ShrinkPlan, ShrinkRequest};

use super::{current, plan};
use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::Bytes;

/// Make the pool smaller; what leaves it becomes a spare
#[derive(Args, Debug)]
#[command(after_help = "\
Data is moved away first, and never below what is used. It stays in use, and
can be called off midway with nothing lost. Ctrl-C leaves it to the server.

Examples:
  strata storage shrink 10GB --dry-run
  strata storage shrink 10GB")]
pub struct Shrink {
    /// Give back at most so much, for users
    #[arg(value_name = "MAX")]
    max: Bytes,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Shrink {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let failed = || unable("shrink the pool");
        let Bytes(max_bytes) = self.max;
        let asked = ShrinkRequest { max_bytes };
        if self.dry_run {
            let would = rest.plan::<Pool, ShrinkPlan>("", "shrink", &asked).await;
            let would = would.map_err(failed())?;
            let pool = current(&rest).await?;
            return plan::print(session, self.staying.output().format(), &would, &pool);
        }
        let begun = rest.begin::<Pool>("", "shrink", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = ("shrinking the pool", "shrunk the pool");
        self.staying.one(session, &rest, &begun, told).await
    }
}

//! `strata storage expand`: takes spares into the pool until it has gained
//! enough.

use clap::Args;
use strata_api::rest::{ExpandPlan, ExpandRequest, Pool};

use super::{current, plan};
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::Bytes;

/// Expand the pool with spares
#[derive(Args, Debug)]
#[command(after_help = "\
The pool stays online. Add spares with `strata storage device add`. Ctrl-C
detaches; the operation continues on the server.

Examples:
  strata storage expand 10GB --dry-run
  strata storage expand 10GB")]
pub struct Expand {
    /// Minimum growth of the usable size
    #[arg(value_name = "MIN")]
    min: Bytes,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Expand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let failed = || unable("expand the pool");
        let Bytes(min_bytes) = self.min;
        let asked = ExpandRequest { min_bytes };
        if self.dry_run {
            let would = rest.plan::<Pool, ExpandPlan>("", "expand", &asked).await;
            let would = would.map_err(failed())?;
            let pool = current(&rest).await?;
            return plan::print(session, self.wait.output().format(), &would, &pool);
        }
        let begun = rest.begin::<Pool>("", "expand", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = ("expanding the pool", "expanded the pool");
        self.wait.one(session, &rest, &begun, told).await
    }
}

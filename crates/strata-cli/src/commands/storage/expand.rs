//! `strata storage expand`: takes spares into the pool until it has gained
//! enough.

use clap::Args;
use strata_api::rest::{ExpandPlan, ExpandRequest, Pool};

use super::{current, plan};
use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::Bytes;

/// Make the pool larger with its spares
#[derive(Args, Debug)]
#[command(after_help = "\
It stays in use. Spares come from `strata storage device add`.
Ctrl-C leaves it to the server.

Examples:
  strata storage expand 10GB --dry-run
  strata storage expand 10GB")]
pub struct Expand {
    /// Gain at least so much, for users
    #[arg(value_name = "MIN")]
    min: Bytes,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
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
            return plan::print(session, self.staying.output().format(), &would, &pool);
        }
        let begun = rest.begin::<Pool>("", "expand", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = ("expanding the pool", "expanded the pool");
        self.staying.one(session, &rest, &begun, told).await
    }
}

//! `strata storage shrink`: moves data away from devices and gives them back.

use clap::Args;
use strata_api::rest::{Pool, ShrinkPlan, ShrinkRequest};

use super::{current, plan};
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::Bytes;

/// Shrink the pool; removed devices become spares
#[derive(Args, Debug)]
#[command(after_help = "\
Data is moved first; the pool never shrinks below what is used. It stays
online, and the operation can be cancelled without loss. Ctrl-C detaches; the
operation continues on the server.

Examples:
  strata storage shrink 10GB --dry-run
  strata storage shrink 10GB")]
pub struct Shrink {
    /// Maximum reduction of the usable size
    #[arg(value_name = "MAX")]
    max: Bytes,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
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
            return plan::print(session, self.wait.output().format(), &would, &pool);
        }
        let begun = rest.begin::<Pool>("", "shrink", &asked).await;
        let begun = begun.map_err(failed())?;
        let told = ("shrinking the pool", "shrunk the pool");
        self.wait.one(session, &rest, &begun, told).await
    }
}

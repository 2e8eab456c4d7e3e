//! `strata storage scrub`: reads everything once, and repairs what it can.

use clap::Args;
use serde_json::json;
use strata_api::rest::Pool;

use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Scrub the pool: read all data and repair checksum errors
#[derive(Args, Debug)]
#[command(after_help = "\
Mirrored data can be repaired; `strata storage show` reports the result.
Ctrl-C detaches; the operation continues on the server.

Examples:
  strata storage scrub
  strata storage scrub --detach")]
pub struct Scrub {
    #[command(flatten)]
    wait: WaitArgs,
}

impl Scrub {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let begun = rest.begin::<Pool>("", "scrub", &json!({})).await;
        let begun = begun.map_err(unable("scrub the pool"))?;
        let told = ("scrubbing the pool", "scrubbed the pool");
        self.wait.one(session, &rest, &begun, told).await
    }
}

//! `strata storage scrub`: reads everything once, and mends what it can.

use clap::Args;
use serde_json::json;
use strata_api::rest::Pool;

use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Read everything, and mend what does not match its checksum
#[derive(Args, Debug)]
#[command(after_help = "\
What is kept twice can be mended; `strata storage show` tells what was found.
Ctrl-C leaves it to the server.

Examples:
  strata storage scrub
  strata storage scrub --detach")]
pub struct Scrub {
    #[command(flatten)]
    staying: Staying,
}

impl Scrub {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let begun = rest.begin::<Pool>("", "scrub", &json!({})).await;
        let begun = begun.map_err(unable("scrub the pool"))?;
        let told = ("scrubbing the pool", "scrubbed the pool");
        self.staying.one(session, &rest, &begun, told).await
    }
}

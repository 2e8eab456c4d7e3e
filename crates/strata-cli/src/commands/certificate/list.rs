//! `strata certificate list`: the certificates that were issued and have not
//! expired, those included that are revoked.

use clap::Args;
use strata_api::rest::Certificate;
use strata_client::rest::Query;

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List issued certificates
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata certificate list
  strata certificate list -o wide
  strata certificate list -o json | jq '.[] | select(.name == \"ann\")'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list(&Query::new()).await;
        let found: Vec<Certificate> = found.map_err(unable("list the certificates"))?;
        let empty = "no certificates; issue one with `strata certificate issue`";
        output::rows(session, self.output.format(), &found, empty)
    }
}

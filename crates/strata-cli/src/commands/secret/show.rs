//! `strata secret show`: what is known of a secret, but for its value.

use clap::Args;
use strata_api::rest::Secret;

use crate::commands::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::object_name;

/// Show a secret, without its value
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata secret show db-password
  strata secret show shop/db-password -o json")]
pub struct Show {
    /// Secret: NAME or PROJECT/NAME
    #[arg(value_parser = object_name, add = complete::secrets())]
    name: String,

    #[command(flatten)]
    scope: Scope,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.get::<Secret>(&self.name, &self.scope.query()).await;
        let found = found.map_err(unable(format!("show the secret {}", self.name)))?;
        output::rows(session, self.output.format(), &[found.object], "")
    }
}

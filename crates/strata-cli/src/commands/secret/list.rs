//! `strata secret list`: which secrets there are.

use clap::Args;
use strata_api::rest::Secret;

use crate::commands::scope::ListScope;
use crate::failure::{Result, unable};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;

/// List secrets, without their values
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata secret list
  strata secret list -A -o json")]
pub struct List {
    #[command(flatten)]
    scope: ListScope,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list(&self.scope.query()).await;
        let mut found: Vec<Secret> = found.map_err(unable("list the secrets"))?;
        let format = self.output.format();
        if !matches!(format, Format::Json | Format::Yaml) {
            for one in &mut found {
                one.name = self.scope.name(&one.project, &one.name);
            }
        }
        let empty = "no secrets; create one with `strata secret create NAME --from-file FILE`";
        output::rows(session, format, &found, empty)
    }
}

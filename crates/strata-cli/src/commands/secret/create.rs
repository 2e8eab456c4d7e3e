//! `strata secret create`: a new secret.

use clap::Args;
use strata_api::rest::{NewSecret, Secret};

use super::value::ValueArgs;
use crate::commands::scope::Scope;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::label_name;

/// Create a secret from a file or stdin
#[derive(Args, Debug)]
#[command(after_help = "\
Pass it to instances of the project with --secret NAME (a file in memory,
/run/secrets/NAME), --secret NAME:/PATH or --secret VARIABLE=NAME.

Examples:
  strata secret create db-password --from-file ./password
  pwgen 32 1 | strata secret create db-password --project shop")]
pub struct Create {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    #[command(flatten)]
    value: ValueArgs,

    #[command(flatten)]
    scope: Scope,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let new = NewSecret {
            value_base64: Some(self.value.read(session)?),
            project: Some(self.scope.project().to_owned()),
            name: self.name.clone(),
            value: None,
        };
        let rest = session.rest().await?;
        let made = rest.create::<Secret>(&new).await;
        made.map_err(unable(format!("create the secret {}", self.name)))?;
        session
            .printer
            .note(&format!("created secret {}", self.scope.full(&self.name)));
        Ok(())
    }
}

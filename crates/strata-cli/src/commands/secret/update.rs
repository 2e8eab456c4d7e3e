//! `strata secret update`: another value for a secret.

use clap::Args;
use strata_api::rest::{Secret, SecretPatch};

use super::value::ValueArgs;
use crate::commands::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::object_name;

/// Replace the value of a secret
#[derive(Args, Debug)]
#[command(after_help = "\
Instances that use it receive the new value when they are restarted or
rescheduled.

Examples:
  strata secret update db-password --from-file ./password
  pwgen 32 1 | strata secret update shop/db-password")]
pub struct Update {
    /// Secret: NAME or PROJECT/NAME
    #[arg(value_parser = object_name, add = complete::secrets())]
    name: String,

    #[command(flatten)]
    value: ValueArgs,

    #[command(flatten)]
    scope: Scope,
}

impl Update {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let patch = SecretPatch {
            value_base64: Some(self.value.read(session)?),
            value: None,
        };
        let rest = session.rest().await?;
        let done = rest
            .update::<Secret>(&self.name, &self.scope.query(), &patch, None)
            .await;
        let done = done.map_err(unable(format!("update the secret {}", self.name)))?;
        let version = done.version;
        session.printer.note(&format!(
            "updated secret {} to version {version}",
            self.name
        ));
        Ok(())
    }
}

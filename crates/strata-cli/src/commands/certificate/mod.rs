//! `strata certificate`: certificates of this installation's own CA.

mod issue;
mod list;
mod renew;
mod revoke;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Generate a key and issue a certificate for it
    Issue(issue::Issue),
    /// List issued certificates
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Renew a certificate with a new key
    Renew(renew::Renew),
    /// Revoke certificates
    Revoke(revoke::Revoke),
}

impl CertificateCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Issue(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Renew(command) => command.run(session).await,
            Self::Revoke(command) => command.run(session).await,
        }
    }
}

//! `strata certificate`: certificates of this installation's own CA.

mod issue;
mod list;
mod renew;
mod revoke;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

/// The verbs of a certificate.
#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Make a key here and have the server sign a certificate for it
    Issue(issue::Issue),
    /// The certificates that were issued
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Have the server sign a certificate anew, for a new key
    Renew(renew::Renew),
    /// Refuse certificates from now on
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

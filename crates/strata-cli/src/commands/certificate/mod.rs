//! `strata certificate`: certificates of this installation's own CA.

mod issue;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

/// The verbs of a certificate.
#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Make a key here and have the server sign a certificate for it
    Issue(issue::Issue),
}

impl CertificateCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Issue(command) => command.run(session).await,
        }
    }
}

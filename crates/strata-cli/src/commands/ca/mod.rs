//! `strata ca`: the roots of the installation's own CA, and their rotation in
//! three steps, each of which can be repeated.

mod activate;
mod retire;
mod rotate;
mod show;

use clap::Subcommand;
use strata_api::rest::CertificateAuthority;

use crate::failure::Result;
use crate::output::human;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Show the CA roots and what depends on the old one
    #[command(visible_aliases = ["get", "describe"])]
    Show(show::Show),
    /// Create a second root, trusted immediately
    Rotate(rotate::Rotate),
    /// Issue certificates from the new root
    Activate(activate::Activate),
    /// Stop trusting the old root and destroy its key
    Retire(retire::Retire),
}

impl CaCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Show(command) => command.run(session).await,
            Self::Rotate(command) => command.run(session).await,
            Self::Activate(command) => command.run(session).await,
            Self::Retire(command) => command.run(session).await,
        }
    }
}

/// Summary of what still depends on the old root.
fn remaining(ca: &CertificateAuthority) -> String {
    let nodes = human::count(ca.nodes.len(), "node");
    let others = human::count(ca.remaining.saturating_sub(ca.nodes.len()), "certificate");
    format!("{nodes} and {others}")
}

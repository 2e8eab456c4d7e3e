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

/// The verbs of the CA.
#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Its roots, and what depends on the old one
    #[command(visible_aliases = ["get", "describe"])]
    Show(show::Show),
    /// Make a second root, which is trusted from now on
    Rotate(rotate::Rotate),
    /// Have the second root sign from now on
    Activate(activate::Activate),
    /// Trust the first root no more, and destroy its key
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

/// What still depends on the old root, in words.
fn remaining(ca: &CertificateAuthority) -> String {
    let nodes = human::count(ca.nodes.len(), "node");
    let others = human::count(ca.remaining.saturating_sub(ca.nodes.len()), "certificate");
    format!("{nodes} and {others}")
}

//! `strata store`: the records of a control plane that does not run, as lines
//! of JSON: to keep them, to look at them, to move them to another engine.

mod check;
mod export;
mod import;
mod location;
mod rotate_key;
mod unreadable;

use clap::Subcommand;

use crate::failure::{Exit, Failure, Result};
use crate::session::Session;
use strata_store::DumpError;

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Check every page and record of the store
    Check(check::Check),
    /// Export all records to a file
    Export(export::Export),
    /// Import records into an empty store
    Import(import::Import),
    /// Replace the encryption key of the records
    RotateKey(rotate_key::RotateKey),
    /// Manage records that the server cannot read
    #[command(subcommand)]
    Unreadable(unreadable::UnreadableCommand),
}

impl StoreCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Check(command) => command.run(session).await,
            Self::Export(command) => command.run(session).await,
            Self::Import(command) => command.run(session).await,
            Self::RotateKey(command) => command.run(session).await,
            Self::Unreadable(command) => command.run(session).await,
        }
    }
}

/// Result of an export or import.
fn failed(verb: &str, error: &DumpError) -> Failure {
    let exit = match error {
        DumpError::Store(_) => Exit::Server,
        DumpError::Io(_) => Exit::Unexpected,
        _ => Exit::Refused,
    };
    Failure::new(exit, format!("cannot {verb} the records")).because(error.to_string())
}

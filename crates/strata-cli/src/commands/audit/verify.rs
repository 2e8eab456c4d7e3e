//! `strata audit verify`: whether the chain of hashes is whole.

use clap::Args;
use strata_audit::Defect;

use super::directory;
use crate::failure::{Exit, Failure, Result};
use crate::session::Session;

/// Whether the chain of hashes is whole
#[derive(Args, Debug)]
#[command(after_help = "\
Prints the number and the hash of the last line. Whoever can write the files
can write the whole chain anew: note the hash elsewhere, and ask for it later.

Exits with 6 when lines were changed, removed or put in between, or when the
hash that was noted is not there.

Examples:
  strata audit verify
  strata audit verify --noted 3f5a…")]
pub struct Verify {
    /// A hash that was noted earlier and has to be in the chain
    #[arg(long, value_name = "HASH")]
    noted: Option<String>,
}

impl Verify {
    pub(crate) fn run(self, session: &mut Session) -> Result {
        let directory = directory(session);
        let chain = strata_audit::verify(&directory, self.noted.as_deref());
        let chain = chain.map_err(|defect| match defect {
            Defect::Io { path, source } => Failure::file("read", &path, &source),
            defect => {
                Failure::new(Exit::Refused, "the audit log is broken").because(defect.to_string())
            }
        })?;
        if let Some(noted) = self.noted.filter(|_| !chain.has_anchor) {
            let what = format!("{noted} is not in the audit log");
            let why = "lines were cut off or the chain was written anew, or the line is older \
                than what is kept";
            return Err(Failure::new(Exit::Refused, what).because(why.to_owned()));
        }
        let text = format!("{} {}\n", chain.last, chain.last_hash);
        session.printer.data(text.as_bytes())?;
        let note = format!(
            "{} lines hold, from {} to {}",
            chain.entries, chain.first, chain.last
        );
        session.printer.note(&note);
        Ok(())
    }
}

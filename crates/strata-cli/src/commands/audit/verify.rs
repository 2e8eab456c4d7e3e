//! `strata audit verify`: whether the chain of hashes is whole.

use clap::Args;
use strata_audit::Defect;

use super::{AUDIT_HEAD, data_dir, directory};
use crate::failure::{Exit, Failure, Result};
use crate::session::Session;

/// Verify the hash chain of the log
#[derive(Args, Debug)]
#[command(after_help = "\
Prints the number and the hash of the last entry. The end of the log is held
against DIR/audit.head, and by a daemon against what it has written: a server
notes the end in its store too, and logs an error if it is not there. A process
that can rewrite all of these can make another chain: record the hash elsewhere, and
ask for it later.

Exits with 6 if entries were changed, removed, put in between or cut off, or if
the hash that was noted is not there.

Examples:
  strata audit verify
  strata audit verify --noted 3f5a…")]
pub struct Verify {
    /// Hash recorded earlier that the chain must contain
    #[arg(long, value_name = "HASH")]
    noted: Option<String>,
}

impl Verify {
    pub(crate) fn run(self, session: &mut Session) -> Result {
        let directory = directory(session);
        let head = data_dir(session).join(AUDIT_HEAD);
        let noted = self.noted.as_deref();
        let chain = strata_audit::verify_with_head(&directory, &head, noted);
        let chain = chain.map_err(|defect| match defect {
            Defect::Io { path, source } => Failure::file("read", &path, &source),
            defect => {
                Failure::new(Exit::Refused, "the audit log is broken").because(defect.to_string())
            }
        })?;
        if let Some(noted) = self.noted.filter(|_| !chain.has_anchor) {
            let what = format!("{noted} is not in the audit log");
            let why = "entries were removed, the chain was rewritten, or the entry is older than the retention";
            return Err(Failure::new(Exit::Refused, what).because(why.to_owned()));
        }
        let text = format!("{} {}\n", chain.last, chain.last_hash);
        session.printer.data(text.as_bytes())?;
        let note = format!(
            "{} entries verified, from {} to {}",
            chain.entries, chain.first, chain.last
        );
        session.printer.note(&note);
        Ok(())
    }
}

//! The end of a server's audit log, noted in the sealed store. The log and its
//! head are files: a process that writes both can make a shorter log that is
//! whole. Up to the last note the store disagrees, and it cannot be written
//! without its key or the server.

use std::sync::Arc;
use std::time::Duration;

use strata_audit::{Anchor, AuditLog};
use strata_store::Transaction;
use strata_types::{Error, Result};
use tokio_util::sync::CancellationToken;

use super::{Core, decode, encode, keys, public};

/// How often the end is noted, if it changed.
const INTERVAL: Duration = Duration::from_secs(60);

impl Core {
    /// Holds the log of the server at `address` against what was noted of it;
    /// whether it is whole up to there. A log that is not says so from now on.
    pub async fn check_audit_log(&self, log: &AuditLog, address: &str) -> Result<bool> {
        let key = self.audit_anchor_key(address);
        let Some(entry) = self.store().get(&key).await.map_err(public)? else {
            return Ok(true);
        };
        let noted: Anchor = decode(&key, &entry.value)?;
        let whole = log.expect(&noted);
        whole.map_err(|error| Error::internal(format!("the audit log cannot be read: {error}")))
    }

    /// Notes the end of the log now, each minute, and when the server ends.
    pub async fn note_audit_log(
        self,
        log: Arc<AuditLog>,
        address: String,
        shutdown: CancellationToken,
    ) {
        let key = self.audit_anchor_key(&address);
        let mut noted = Anchor::default();
        loop {
            let anchor = log.anchor();
            if anchor != noted {
                match self.note_audit_anchor(&key, &anchor).await {
                    Ok(()) => noted = anchor,
                    Err(error) => tracing::warn!(key, %error, "end of the audit log not recorded"),
                }
            }
            if shutdown.is_cancelled() {
                return;
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    async fn note_audit_anchor(&self, key: &str, anchor: &Anchor) -> Result<()> {
        let put = Transaction::new().put(key, encode(anchor)?);
        self.store().commit(put).await.map_err(public)?;
        Ok(())
    }

    /// A store that is a file has one server, wherever that listens.
    fn audit_anchor_key(&self, address: &str) -> String {
        match self.settings().alone {
            true => keys::audit_anchor("alone"),
            false => keys::audit_anchor(address),
        }
    }
}

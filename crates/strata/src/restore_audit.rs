//! The audit log after `strata restore`: the newest that is known, never an older
//! one. A log that is in the data directory already is evidence: it stays where
//! it goes on from that of the backup, and is put aside otherwise.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use strata_cli::{AUDIT, AUDIT_HEAD, Result};

use crate::daemon::unexpected;
use crate::restore::{remove, say};

/// Puts the log of a backup in its place.
pub(crate) fn put_back(from: &Path, data_dir: &Path) -> Result {
    let (log, head) = (data_dir.join(AUDIT), data_dir.join(AUDIT_HEAD));
    if !from.exists() || goes_on(&log, from) {
        return Ok(());
    }
    if log.exists() {
        let now = UNIX_EPOCH.elapsed().map_err(unexpected)?.as_secs();
        let aside = data_dir.join(format!("{AUDIT}-before-restore-{now}"));
        fs::rename(&log, &aside).map_err(unexpected)?;
        say(&format!(
            "the audit log that was in the data directory is not that of the backup: it is in {}",
            aside.display()
        ));
    }
    // It says where another log ended.
    remove(&head)?;
    fs::rename(from, log).map_err(unexpected)
}

/// Whether a log has all that another one has.
fn goes_on(log: &Path, other: &Path) -> bool {
    let verify = |log: &Path, hash: Option<&str>| strata_audit::verify(log, hash).ok();
    let Some(other) = verify(other, None) else {
        return false;
    };
    log.exists() && verify(log, Some(&other.last_hash)).is_some_and(|chain| chain.has_anchor)
}

#[cfg(test)]
mod tests {
    use strata_audit::{AuditLog, Decision, Limits, Outcome};

    use super::*;

    fn append(directory: &Path, many: usize) {
        let log = AuditLog::open(directory, Limits::default()).unwrap();
        for _ in 0..many {
            let decision = Decision {
                principal: None,
                role: None,
                credential: None,
                projects: Vec::new(),
                source: None,
                call: "POST /instance".into(),
                object: None,
                project: None,
                outcome: Outcome::Allowed,
                reason: None,
                session: None,
            };
            log.append(decision, 0);
        }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    fn entries(directory: &Path) -> u64 {
        strata_audit::verify(directory, None).unwrap().entries
    }

    #[test]
    fn newer_log_of_the_same_chain_stays_and_another_is_put_aside() {
        let scratch = tempfile::tempdir().unwrap();
        let (data_dir, backup) = (scratch.path().join("data"), scratch.path().join("backup"));
        let log = data_dir.join(AUDIT);
        append(&log, 3);
        copy(&log, &backup);
        append(&log, 2);
        fs::write(data_dir.join(AUDIT_HEAD), "kept").unwrap();
        put_back(&backup, &data_dir).unwrap();
        assert_eq!(entries(&log), 5);
        assert!(data_dir.join(AUDIT_HEAD).exists());

        let other = scratch.path().join("other");
        append(&other, 7);
        put_back(&other, &data_dir).unwrap();
        assert_eq!(entries(&log), 7);
        assert!(!data_dir.join(AUDIT_HEAD).exists());
        let names = fs::read_dir(&data_dir).unwrap();
        let mut names = names.map(|entry| entry.unwrap().path());
        let aside = names.find(|path| path.to_string_lossy().contains("before-restore"));
        assert_eq!(entries(&aside.unwrap()), 5);
        // Into a directory that has none.
        let empty = scratch.path().join("empty");
        fs::create_dir(&empty).unwrap();
        put_back(&backup, &empty).unwrap();
        assert_eq!(entries(&empty.join(AUDIT)), 3);
    }
}

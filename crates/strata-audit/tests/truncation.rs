//! A log whose end or beginning is taken away shows it, while it is written to
//! and afterwards.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_audit::{
    Anchor, AuditLog, Decision, Defect, Limits, Outcome, read_after, verify, verify_with_head,
};

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("audit")
    }

    fn head(&self) -> PathBuf {
        self.0.path().join("audit.head")
    }

    fn open(&self) -> Arc<AuditLog> {
        let limits = Limits {
            file_bytes: 2000,
            files: 1000,
        };
        AuditLog::open_with_head(&self.directory(), limits, &self.head()).unwrap()
    }

    fn verify(&self) -> Result<u64, Defect> {
        let chain = verify_with_head(&self.directory(), &self.head(), None)?;
        Ok(chain.entries)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// The entries that the log wrote about itself.
    fn findings(&self) -> Vec<String> {
        let entries = read_after(&self.directory(), 0, 1000).unwrap();
        let own = entries.into_iter().map(|entry| entry.decision);
        let own = own.filter(|decision| decision.call == "audit log tampered with");
        own.map(|decision| decision.reason.unwrap()).collect()
    }
}

fn append(log: &AuditLog, many: usize) {
    for i in 0..many {
        let decision = Decision {
            principal: Some("ann".into()),
            role: None,
            credential: None,
            projects: Vec::new(),
            source: None,
            call: format!("DELETE /instance/{i}"),
            object: None,
            project: None,
            outcome: Outcome::Allowed,
            reason: None,
            session: None,
        };
        log.append(decision, 0);
    }
}

/// Takes lines off the end of a file.
fn cut(file: &Path, lines: usize) {
    let text = fs::read_to_string(file).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let kept = all[..all.len() - lines].iter();
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    fs::write(file, kept).unwrap();
}

#[test]
fn cut_under_the_writer_shows_at_once_and_for_good() {
    for many in [1, 4] {
        let world = World::new();
        let log = world.open();
        append(&log, 5);
        assert_eq!(world.verify().unwrap(), 5);
        let file = world.files().pop().unwrap();
        cut(&file, many);
        let defect = world.verify().unwrap_err();
        assert!(
            matches!(defect, Defect::Cut { written: 5, last, .. } if last == 5 - many as u64),
            "{defect}"
        );
        // The writer finds it before its next line, and what is missing stays
        // missing.
        append(&log, 1);
        assert_eq!(world.findings().len(), 1);
        let defect = world.verify().unwrap_err();
        assert!(matches!(defect, Defect::Gap { number: 6, .. }), "{defect}");
        drop(log);
        append(&world.open(), 1);
        assert_eq!(world.findings().len(), 1, "once");
        assert!(verify(&world.directory(), None).is_err());
    }
}

#[test]
fn all_lines_gone_show_in_every_way_they_can_go() {
    let empty = |file: &Path| fs::write(file, "").unwrap();
    let remove = |file: &Path| fs::remove_file(file).unwrap();
    let replace = |file: &Path| {
        let other = file.with_extension("other");
        fs::write(&other, fs::read(file).unwrap()).unwrap();
        fs::rename(other, file).unwrap();
        cut(file, 3);
    };
    let ways: [&dyn Fn(&Path); 3] = [&empty, &remove, &replace];
    for (number, go) in ways.into_iter().enumerate() {
        let world = World::new();
        let log = world.open();
        append(&log, 3);
        go(&world.files()[0]);
        assert!(world.verify().is_err(), "way {number}");
        append(&log, 2);
        assert_eq!(world.findings().len(), 1, "way {number}");
        let defect = world.verify().unwrap_err();
        let defect = defect.to_string();
        assert!(defect.contains("entry 4"), "way {number}: {defect}");
        drop(log);
        drop(world.open());
        assert!(world.verify().is_err(), "way {number}, opened again");
    }
}

#[test]
fn cut_while_nothing_was_written_shows_when_the_log_is_opened() {
    let world = World::new();
    append(&world.open(), 5);
    cut(&world.files().pop().unwrap(), 2);
    assert!(world.verify().is_err());
    append(&world.open(), 1);
    assert_eq!(
        world.findings(),
        ["the log ended with entry 3, and entry 5 had been written"]
    );
    assert!(world.verify().is_err());
}

/// The head went with it: what was noted elsewhere is left.
#[test]
fn cut_with_its_head_shows_by_what_was_noted_elsewhere() {
    let world = World::new();
    let log = world.open();
    append(&log, 5);
    let noted = log.anchor();
    assert!(log.expect(&noted).unwrap());
    assert!(log.expect(&Anchor::default()).unwrap());
    append(&log, 1);
    assert!(log.expect(&noted).unwrap(), "an older line");
    drop(log);
    cut(&world.files().pop().unwrap(), 2);
    fs::remove_file(world.head()).unwrap();
    let log = world.open();
    assert!(!log.expect(&noted).unwrap());
    assert_eq!(world.findings().len(), 1);
    assert!(world.verify().is_err());
    // Another chain of the same length.
    let other = World::new();
    let log = other.open();
    append(&log, 7);
    assert!(!log.expect(&noted).unwrap());
    assert!(other.findings()[0].contains("not the one that was written"));
}

#[test]
fn oldest_files_that_were_removed_show_and_those_that_aged_do_not() {
    let world = World::new();
    let log = world.open();
    append(&log, 40);
    let files = world.files();
    assert!(files.len() > 3);
    fs::remove_file(&files[0]).unwrap();
    let defect = world.verify().unwrap_err();
    assert!(
        matches!(defect, Defect::Beginning { first: 1, .. }),
        "{defect}"
    );
    drop(log);
    drop(world.open());
    assert!(world.verify().is_err(), "opened again");

    let world = World::new();
    let limits = Limits {
        file_bytes: 1000,
        files: 3,
    };
    let log = AuditLog::open_with_head(&world.directory(), limits, &world.head()).unwrap();
    append(&log, 100);
    world.verify().unwrap();
    drop(log);
    append(&world.open(), 1);
    assert!(world.verify().unwrap() < 50);
    assert!(world.findings().is_empty());
}

#[test]
fn log_of_an_earlier_release_is_taken_as_it_is() {
    let world = World::new();
    append(
        &AuditLog::open(&world.directory(), Limits::default()).unwrap(),
        3,
    );
    append(&world.open(), 1);
    // That release went on with it for a while.
    append(
        &AuditLog::open(&world.directory(), Limits::default()).unwrap(),
        2,
    );
    append(&world.open(), 1);
    assert_eq!(world.verify().unwrap(), 7);
    assert!(world.findings().is_empty());
}

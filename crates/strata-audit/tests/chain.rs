//! A chain holds over restarts, rotation and half a line, and shows what was
//! done to it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use strata_audit::{AuditLog, Decision, Defect, Limits, Outcome, read_after, verify};

fn decision(call: &str) -> Decision {
    Decision {
        principal: Some("ann".into()),
        role: Some("admin".into()),
        credential: None,
        projects: Vec::new(),
        source: None,
        call: call.into(),
        object: None,
        project: None,
        outcome: Outcome::Allowed,
        reason: None,
        session: None,
    }
}

fn write(directory: &Path, limits: Limits, many: usize) {
    let log = AuditLog::open(directory, limits).unwrap();
    for i in 0..many {
        log.append(decision(&format!("DELETE /instance/{i}")), 0);
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

const SMALL: Limits = Limits {
    file_bytes: 2000,
    files: 1000,
};

#[test]
fn chain_goes_on_over_restarts_and_files() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        write(directory.path(), SMALL, 20);
    }
    let chain = verify(directory.path(), None).unwrap();
    assert_eq!((chain.entries, chain.first, chain.last), (100, 1, 100));
    assert!(files(directory.path()).len() > 5);
    let some = read_after(directory.path(), 42, 3).unwrap();
    let numbers: Vec<u64> = some.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [43, 44, 45]);
    let none = read_after(directory.path(), u64::MAX, 3).unwrap();
    assert!(none.is_empty());
    let noted = verify(directory.path(), Some(&some[1].hash)).unwrap();
    assert!(noted.has_anchor);
    assert!(
        !verify(directory.path(), Some(&"0".repeat(64)))
            .unwrap()
            .has_anchor
    );
}

#[test]
fn oldest_files_go_and_the_rest_still_holds() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits {
        file_bytes: 1000,
        files: 3,
    };
    write(directory.path(), limits, 200);
    assert_eq!(files(directory.path()).len(), 3);
    let chain = verify(directory.path(), None).unwrap();
    assert_eq!(chain.last, 200);
    assert!(chain.first > 100, "{chain:?}");
}

#[test]
fn half_a_line_is_cut_off_and_no_number_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Limits::default(), 3);
    let file = files(directory.path()).pop().unwrap();
    let whole = fs::read(&file).unwrap();
    // Without its end alone the line is whole.
    for (cut, entries) in [(1, 4), (2, 3), (10, 3), (100, 3)] {
        fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        write(directory.path(), Limits::default(), 1);
        let chain = verify(directory.path(), None).unwrap();
        assert_eq!((chain.entries, chain.last), (entries, entries), "{cut}");
    }
}

#[test]
fn changed_audit_entry_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Limits::default(), 9);
    let file = files(directory.path()).pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let put = |lines: &[&str]| fs::write(&file, format!("{}\n", lines.join("\n"))).unwrap();

    let changed = lines[4].replace("ann", "bob");
    let mut tampered = lines.clone();
    tampered[4] = &changed;
    put(&tampered);
    let defect = verify(directory.path(), None).unwrap_err();
    assert!(
        matches!(defect, Defect::Changed { line: 5, .. }),
        "{defect}"
    );

    let mut removed = lines.clone();
    removed.remove(4);
    put(&removed);
    let defect = verify(directory.path(), None).unwrap_err();
    assert!(matches!(defect, Defect::Gap { line: 5, .. }), "{defect}");

    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    put(&swapped);
    assert!(verify(directory.path(), None).is_err());

    let mut doubled = lines.clone();
    doubled.insert(4, lines[3]);
    put(&doubled);
    assert!(verify(directory.path(), None).is_err());

    // Cut off at its end it is whole; a reader that noted a hash detects it.
    let last = verify_lines(&put, &lines, directory.path());
    put(&lines[..7]);
    let chain = verify(directory.path(), Some(&last)).unwrap();
    assert!(!chain.has_anchor);
}

fn verify_lines(put: &impl Fn(&[&str]), lines: &[&str], directory: &Path) -> String {
    put(lines);
    verify(directory, None).unwrap().last_hash
}

#[test]
fn damage_in_the_middle_is_kept_as_evidence() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Limits::default(), 9);
    let file = files(directory.path()).pop().unwrap();
    let damaged = fs::read_to_string(&file).unwrap().replacen("ann", "bob", 1);
    fs::write(&file, &damaged).unwrap();
    write(directory.path(), Limits::default(), 2);
    assert_eq!(fs::read_to_string(&file).unwrap(), damaged);
    assert_eq!(files(directory.path()).len(), 2);
    assert!(verify(directory.path(), None).is_err());
}

#[test]
fn files_are_for_root_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("audit");
    write(&directory, Limits::default(), 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&files(&directory)[0]), 0o600);
}

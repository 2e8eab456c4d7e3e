//! Files of an audit log that others could write to: fuzzed by `fuzz/`.

use std::fs;

use crate::files::name_of;
use crate::{Entry, read_after, verify};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("audit_log", audit_log)];

/// Lines of JSON are sealed first: a fuzzer finds no hash, an attacker does.
fn audit_log(data: &[u8]) {
    let directory = std::env::temp_dir().join(format!("strata-fuzz-audit-{}", std::process::id()));
    let mut file = String::new();
    for line in String::from_utf8_lossy(data).lines() {
        let entry = serde_json::from_str::<Entry>(line);
        match entry.and_then(|entry| entry.seal()) {
            Ok((sealed, _)) => {
                assert!(Entry::unseal(&sealed).is_some(), "{sealed}");
                file.push_str(&sealed);
            }
            Err(_) => file.push_str(line),
        }
        file.push('\n');
    }
    let written =
        fs::create_dir_all(&directory).and_then(|()| fs::write(directory.join(name_of(1)), file));
    if written.is_ok() {
        let _ = verify(&directory, None);
        for number in [0, 1, u64::MAX] {
            let _ = read_after(&directory, number, 10);
        }
    }
    let _ = fs::remove_dir_all(&directory);
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}

//! What an init sends and leaves on disk, and logs, whose bytes are those of
//! the processes in a cell: fuzzed by `fuzz/`.

use std::fs;
use std::path::PathBuf;

use crate::RunRecord;
use crate::link::decode;
use crate::log::{Channel, LogReader, Read};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("init_reply", init_reply),
    ("run_record", run_record),
    ("log_segment", log_segment),
];

fn init_reply(data: &[u8]) {
    if let Some(reply) = data.first_chunk() {
        let _ = decode(reply);
    }
}

fn run_record(data: &[u8]) {
    let _ = RunRecord::parse(data);
}

/// A segment and its index, parted by the first byte's share of the rest.
fn log_segment(data: &[u8]) {
    let Some((share, data)) = data.split_first() else {
        return;
    };
    let (log, index) = data.split_at(data.len() * usize::from(*share) / 256);
    let dir = dir();
    let segment = dir.join("stdout.00000000000000000000");
    let written = fs::create_dir_all(&dir)
        .and_then(|()| fs::write(&segment, log))
        .and_then(|()| fs::write(dir.join("stdout.00000000000000000000.t"), index));
    if written.is_err() {
        return;
    }
    let readers = [
        LogReader::from_start(&dir, Channel::Stdout),
        LogReader::from_tail(&dir, Channel::Stdout, 3),
    ];
    for (reader, whole) in readers.into_iter().zip([true, false]) {
        let Ok(mut reader) = reader.and_then(LogReader::until_now) else {
            continue;
        };
        let mut lines = Vec::new();
        while matches!(reader.read(&mut lines), Ok(Read::Some)) {}
        reader.finish(&mut lines);
        let bytes: usize = lines.iter().map(|line| line.line.len()).sum();
        let ends = log.iter().filter(|byte| **byte == b'\n').count();
        assert!(!whole || bytes + ends == log.len());
    }
    let _ = fs::remove_dir_all(&dir);
}

/// Of this process alone: targets run beside each other.
fn dir() -> PathBuf {
    std::env::temp_dir().join(format!("strata-fuzz-log-{}", std::process::id()))
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

//! Which segments a log has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Channel;

/// The beginnings of all segments of a channel, oldest first.
pub(super) fn starts(dir: &Path, channel: Channel) -> io::Result<Vec<u64>> {
    let mut starts: Vec<u64> = fs::read_dir(dir)?
        .flatten()
        .filter_map(|entry| start(entry.file_name().to_str()?, channel))
        .collect();
    starts.sort_unstable();
    Ok(starts)
}

/// Reads `stdout.00000000000000000042`; indexes and others are none.
fn start(name: &str, channel: Channel) -> Option<u64> {
    let digits = name.strip_prefix(channel.as_str())?.strip_prefix('.')?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The file of the segment that begins at `start`.
pub(super) fn path(dir: &Path, channel: Channel, start: u64) -> PathBuf {
    dir.join(format!("{}.{start:020}", channel.as_str()))
}

/// The file of its times.
pub(super) fn times_path(dir: &Path, channel: Channel, start: u64) -> PathBuf {
    dir.join(format!("{}.{start:020}.t", channel.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_of_the_channel_count() {
        let name = "stdout.00000000000000000042";
        assert_eq!(start(name, Channel::Stdout), Some(42));
        assert_eq!(start(name, Channel::Stderr), None);
        for other in [
            "stdout.00000000000000000042.t",
            "stdout.1",
            "status",
            "stdout.",
        ] {
            assert_eq!(start(other, Channel::Stdout), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn names_come_back_and_others_are_none(start_at: u64, other in ".{0,40}") {
            let path = path(Path::new(""), Channel::Stderr, start_at);
            let name = path.to_str().unwrap();
            proptest::prop_assert_eq!(start(name, Channel::Stderr), Some(start_at));
            let _ = start(&other, Channel::Stderr);
        }
    }
}

//! What a cell uses, read from its groups. A file that is not there counts
//! as nothing: kernels differ in what they were built with.

use std::fs;
use std::path::{Path, PathBuf};

/// Figures of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Cpu time since the cell was made.
    pub cpu_usec: u64,
    pub memory_bytes: u64,
    /// The most memory at any time.
    pub memory_peak_bytes: u64,
    /// Processes and threads now.
    pub pids: u64,
    /// Bytes read from block devices.
    pub io_read_bytes: u64,
    /// Bytes written to block devices.
    pub io_write_bytes: u64,
}

fn text(dir: Option<&Path>, file: &str) -> String {
    dir.and_then(|dir| fs::read_to_string(dir.join(file)).ok())
        .unwrap_or_default()
}

fn number(dir: Option<&Path>, file: &str) -> u64 {
    text(dir, file).trim().parse().unwrap_or(0)
}

impl Usage {
    pub(super) fn read_v1(dir: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let [cpuacct, memory, pids, blkio] = ["cpuacct", "memory", "pids", "blkio"].map(dir);
        let memory = memory.as_deref();
        let io = text(
            blkio.as_deref(),
            "blkio.throttle.io_service_bytes_recursive",
        );
        Self {
            cpu_usec: number(cpuacct.as_deref(), "cpuacct.usage") / 1000,
            memory_bytes: number(memory, "memory.usage_in_bytes"),
            memory_peak_bytes: number(memory, "memory.max_usage_in_bytes"),
            pids: number(pids.as_deref(), "pids.current"),
            io_read_bytes: sum_v1(&io, "Read"),
            io_write_bytes: sum_v1(&io, "Write"),
        }
    }

    pub(super) fn read_v2(dir: &Path) -> Self {
        let dir = Some(dir);
        let io = text(dir, "io.stat");
        let cpu = text(dir, "cpu.stat");
        let usage = |line: &str| line.strip_prefix("usage_usec ")?.parse().ok();
        Self {
            cpu_usec: cpu.lines().find_map(usage).unwrap_or(0),
            memory_bytes: number(dir, "memory.current"),
            memory_peak_bytes: number(dir, "memory.peak"),
            pids: number(dir, "pids.current"),
            io_read_bytes: sum_v2(&io, "rbytes="),
            io_write_bytes: sum_v2(&io, "wbytes="),
        }
    }
}

/// Lines such as `8:0 Read 4096`.
fn sum_v1(text: &str, kind: &str) -> u64 {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            (words.next()? == kind).then(|| words.next()?.parse::<u64>().ok())?
        })
        .fold(0, u64::saturating_add)
}

/// Lines such as `8:0 rbytes=4096 wbytes=0 rios=1`.
fn sum_v2(text: &str, key: &str) -> u64 {
    text.split_whitespace()
        .filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_summed_over_devices() {
        let v1 = "8:0 Read 100\n8:0 Write 7\n8:16 Read 20\nTotal 127\n";
        assert_eq!((sum_v1(v1, "Read"), sum_v1(v1, "Write")), (120, 7));
        let v2 = "8:0 rbytes=100 wbytes=7 rios=1\n8:16 rbytes=20 wbytes=0\n";
        assert_eq!((sum_v2(v2, "rbytes="), sum_v2(v2, "wbytes=")), (120, 7));
    }

    #[test]
    fn v2_figures_are_read_from_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("cpu.stat", "usage_usec 42\nuser_usec 40\n"),
            ("memory.current", "1000\n"),
            ("memory.peak", "2000\n"),
            ("pids.current", "3\n"),
        ] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        let usage = Usage::read_v2(dir.path());
        assert_eq!(
            (usage.cpu_usec, usage.memory_bytes, usage.pids),
            (42, 1000, 3)
        );
        assert_eq!(usage.memory_peak_bytes, 2000);
    }

    proptest::proptest! {
        #[test]
        fn no_text_of_the_kernel_panics(text in "[0-9a-zA-Z:= \n]{0,200}") {
            let _ = (sum_v1(&text, "Read"), sum_v2(&text, "rbytes="));
        }
    }
}

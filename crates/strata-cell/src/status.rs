//! A run on disk: one file that holds what was requested, which pid it got, and
//! how it went.
//!
//! ```text
//! 0    what the init writes: state, times, wait status, use (`RunStatus`)
//! 56   what the daemon writes: the pid as the daemon sees it, 4 bytes
//! 60   and, once it is over, its judgement of the end, 2 bytes
//! 62   and whether its permanent end was requested, 2 bytes
//! 64   what was requested, as JSON
//! ...  what the init writes: the bytes of output that could not be stored
//!      (`LostBytes`); not in files of earlier versions
//! ```
//!
//! It has its full size before the run begins, so that a full disk cannot
//! keep an end from being written down.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_types::{Ending, IdMap};

use crate::log::Channel;
use crate::wire::{self, LostBytes, RunStatus};

const FILE: &str = "status";
const PID: usize = size_of::<RunStatus>();
const VERDICT: usize = PID + 4;
const TOLD: usize = PID + 6;
const ASKED: usize = PID + 8;
const LOST: usize = size_of::<LostBytes>();
const LOST_COUNTS: usize = LOST - wire::LOST_MAGIC.len();

/// Where a run is, as its init last wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Never started.
    New,
    /// Alive when its init last wrote.
    Started,
    Ended(Ending),
}

/// What the daemon made of an end. Written down once: the figures it was
/// drawn from are gone later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitVerdict {
    /// As the init wrote it.
    AsWritten,
    /// The kernel ended it for want of memory.
    OutOfMemory,
}

/// What is known of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// Where it is.
    pub state: RunState,
    /// The pid as the daemon saw it; 0 when it was not received in time.
    pub pid: i32,
    /// What the daemon made of the end, if it has looked at it.
    pub verdict: Option<ExitVerdict>,
    /// Whether its end was requested: it is not restarted.
    pub told_to_end: bool,
    /// Unix nanoseconds.
    pub started_ns: u64,
    /// Unix nanoseconds; 0 while it is not over.
    pub ended_ns: u64,
    /// Cpu time in user space.
    pub cpu_user: Duration,
    /// Cpu time in the kernel.
    pub cpu_system: Duration,
    /// The most memory it had at once.
    pub memory_peak_bytes: u64,
}

impl RunRecord {
    /// Makes the file of a run that is about to begin.
    pub fn create(run_dir: &Path, asked: &impl Serialize) -> io::Result<()> {
        let mut bytes = vec![0; ASKED];
        serde_json::to_writer(&mut bytes, asked)?;
        bytes.extend_from_slice(&wire::LOST_MAGIC);
        bytes.resize(bytes.len() + LOST_COUNTS, 0);
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(run_dir.join(FILE))?
            .write_all(&bytes)
    }

    /// Lets the init of a cell with users of its own write here.
    pub fn hand_over(run_dir: &Path, map: IdMap) -> io::Result<()> {
        for path in [run_dir, &run_dir.join(FILE)] {
            std::os::unix::fs::lchown(path, Some(map.first), Some(map.first))?;
        }
        Ok(())
    }

    /// Writes down the pid, beside what the init writes.
    pub fn write_pid(run_dir: &Path, pid: i32) -> io::Result<()> {
        write_at(run_dir, PID, &pid.to_ne_bytes())
    }

    /// Writes down what the daemon made of the end.
    pub fn write_verdict(run_dir: &Path, verdict: ExitVerdict) -> io::Result<()> {
        let number: u16 = match verdict {
            ExitVerdict::AsWritten => 1,
            ExitVerdict::OutOfMemory => 2,
        };
        write_at(run_dir, VERDICT, &number.to_ne_bytes())
    }

    /// Records that it is to end permanently.
    pub fn write_told_to_end(run_dir: &Path) -> io::Result<()> {
        write_at(run_dir, TOLD, &1u16.to_ne_bytes())
    }

    /// Waits until what is written down is on the disk.
    pub fn sync(run_dir: &Path) -> io::Result<()> {
        fs::File::open(run_dir.join(FILE))?.sync_all()
    }

    /// Reads how it went.
    pub fn read(run_dir: &Path) -> io::Result<Self> {
        Self::parse(&fs::read(run_dir.join(FILE))?).ok_or_else(damaged)
    }

    /// Reads what was requested, and how it went.
    pub fn read_whole<T: DeserializeOwned>(run_dir: &Path) -> io::Result<(T, Self)> {
        let bytes = fs::read(run_dir.join(FILE))?;
        let record = Self::parse(&bytes).ok_or_else(damaged)?;
        let (bytes, _) = split_lost(&bytes);
        let asked = serde_json::from_slice(bytes.get(ASKED..).unwrap_or_default())?;
        Ok((asked, record))
    }

    /// How many bytes of the output of a run could not be stored so far.
    pub fn lost_bytes(run_dir: &Path, channel: Channel) -> io::Result<u64> {
        let bytes = fs::read(run_dir.join(FILE))?;
        let (_, [stdout, stderr]) = split_lost(&bytes);
        Ok(match channel {
            Channel::Stdout => stdout,
            Channel::Stderr => stderr,
            Channel::Daemon => 0,
        })
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |offset: usize| -> Option<u64> {
            let field = bytes.get(offset..offset + 8)?;
            Some(u64::from_ne_bytes(field.try_into().ok()?))
        };
        let quarter = |offset: usize| -> Option<u16> {
            let field = bytes.get(offset..offset + 2)?;
            Some(u16::from_ne_bytes(field.try_into().ok()?))
        };
        let half = |offset: usize| -> Option<u32> {
            let field = bytes.get(offset..offset + 4)?;
            Some(u32::from_ne_bytes(field.try_into().ok()?))
        };
        macro_rules! at {
            ($field:ident) => {
                std::mem::offset_of!(RunStatus, $field)
            };
        }
        let state = half(at!(state))?;
        if state != wire::RUN_NEW && half(at!(magic))? != wire::MAGIC {
            return None;
        }
        Some(Self {
            state: match state {
                wire::RUN_NEW => RunState::New,
                wire::RUN_STARTED => RunState::Started,
                wire::RUN_ENDED => RunState::Ended(ending(half(at!(wait_status))?.cast_signed())),
                _ => return None,
            },
            pid: half(PID)?.cast_signed(),
            verdict: match quarter(VERDICT)? {
                1 => Some(ExitVerdict::AsWritten),
                2 => Some(ExitVerdict::OutOfMemory),
                _ => None,
            },
            told_to_end: quarter(TOLD)? != 0,
            started_ns: number(at!(started_ns))?,
            ended_ns: number(at!(ended_ns))?,
            cpu_user: Duration::from_micros(number(at!(user_us))?),
            cpu_system: Duration::from_micros(number(at!(system_us))?),
            memory_peak_bytes: number(at!(max_rss_kb))?.saturating_mul(1024),
        })
    }
}

fn write_at(run_dir: &Path, offset: usize, bytes: &[u8]) -> io::Result<()> {
    let file = fs::OpenOptions::new()
        .write(true)
        .open(run_dir.join(FILE))?;
    file.write_all_at(bytes, offset as u64)
}

/// Parts a file from the lost bytes at its end, if it has them.
fn split_lost(bytes: &[u8]) -> (&[u8], [u64; 2]) {
    let split = bytes
        .split_last_chunk::<LOST>()
        .and_then(|(rest, lost)| Some((rest, lost.strip_prefix(&wire::LOST_MAGIC)?)));
    let Some((rest, counts)) = split else {
        return (bytes, [0; 2]);
    };
    let (stdout, stderr) = counts.split_at(8);
    let count = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    (rest, [count(stdout), count(stderr)])
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not the status of a run")
}

/// Reads a wait status as the C macros do.
fn ending(status: i32) -> Ending {
    match status & 0x7f {
        0 => Ending::Code((status >> 8) & 0xff),
        signal => Ending::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wait_statuses_are_read_as_the_kernel_writes_them() {
        assert_eq!(ending(0), Ending::Code(0));
        assert_eq!(ending(3 << 8), Ending::Code(3));
        assert_eq!(ending(9), Ending::Signal(9));
        assert_eq!(ending(11 | 0x80), Ending::Signal(11));
    }

    #[test]
    fn a_new_file_is_a_run_that_never_started() {
        let dir = tempfile::tempdir().unwrap();
        RunRecord::create(dir.path(), &["sleep", "1"]).unwrap();
        assert_eq!(RunRecord::read(dir.path()).unwrap().state, RunState::New);
        assert!(RunRecord::create(dir.path(), &()).is_err());
        RunRecord::write_pid(dir.path(), 77).unwrap();
        let (asked, record): (Vec<String>, _) = RunRecord::read_whole(dir.path()).unwrap();
        assert_eq!(
            (asked, record.pid),
            (vec!["sleep".to_owned(), "1".to_owned()], 77)
        );
    }

    #[test]
    fn lost_bytes_are_counted_by_channel() {
        let dir = tempfile::tempdir().unwrap();
        RunRecord::create(dir.path(), &["sleep"]).unwrap();
        let lost = |channel| RunRecord::lost_bytes(dir.path(), channel).unwrap();
        assert_eq!((lost(Channel::Stdout), lost(Channel::Stderr)), (0, 0));
        let size = fs::metadata(dir.path().join(FILE)).unwrap().len() as usize;
        write_at(dir.path(), size - 16, &7u64.to_ne_bytes()).unwrap();
        write_at(dir.path(), size - 8, &9u64.to_ne_bytes()).unwrap();
        assert_eq!((lost(Channel::Stdout), lost(Channel::Stderr)), (7, 9));
        let (asked, _): (Vec<String>, _) = RunRecord::read_whole(dir.path()).unwrap();
        assert_eq!(asked, ["sleep"]);
    }

    #[test]
    fn record_of_an_earlier_version_has_lost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; ASKED];
        bytes.extend_from_slice(br#"["sleep","1"]"#);
        fs::write(dir.path().join(FILE), bytes).unwrap();
        let (asked, _): (Vec<String>, _) = RunRecord::read_whole(dir.path()).unwrap();
        assert_eq!(asked, ["sleep", "1"]);
        assert_eq!(
            RunRecord::lost_bytes(dir.path(), Channel::Stdout).unwrap(),
            0
        );
    }

    #[test]
    fn a_judgement_and_an_order_to_end_do_not_touch_each_other() {
        let dir = tempfile::tempdir().unwrap();
        RunRecord::create(dir.path(), &()).unwrap();
        RunRecord::write_told_to_end(dir.path()).unwrap();
        RunRecord::write_verdict(dir.path(), ExitVerdict::OutOfMemory).unwrap();
        let record = RunRecord::read(dir.path()).unwrap();
        assert!(record.told_to_end);
        assert_eq!(record.verdict, Some(ExitVerdict::OutOfMemory));
        RunRecord::sync(dir.path()).unwrap();
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = RunRecord::parse(&bytes);
        }
    }
}

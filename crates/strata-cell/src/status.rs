//! How a run went, read from the file its init keeps.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use strata_types::Ending;

use crate::wire::{self, RunStatus};

const FILE: &str = "status";

/// Where a run is, as its init last wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Never started.
    New,
    /// Alive when its init last wrote.
    Started,
    /// Over.
    Ended(Ending),
}

/// What is known of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// Where it is.
    pub state: RunState,
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
    /// Makes the file at its full size, so that a full disk cannot keep a
    /// run's end from being written down.
    pub fn prepare(run_folder: &Path) -> io::Result<()> {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(run_folder.join(FILE))?
            .write_all(&[0; size_of::<RunStatus>()])
    }

    /// Reads what the init wrote.
    pub fn read(run_folder: &Path) -> io::Result<Self> {
        Self::parse(&fs::read(run_folder.join(FILE))?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a status record"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |offset: usize| -> Option<u64> {
            let field = bytes.get(offset..offset + 8)?;
            Some(u64::from_ne_bytes(field.try_into().ok()?))
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
            started_ns: number(at!(started_ns))?,
            ended_ns: number(at!(ended_ns))?,
            cpu_user: Duration::from_micros(number(at!(user_us))?),
            cpu_system: Duration::from_micros(number(at!(system_us))?),
            memory_peak_bytes: number(at!(max_rss_kb))?.saturating_mul(1024),
        })
    }
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
    fn a_prepared_file_is_a_run_that_never_started() {
        let folder = tempfile::tempdir().unwrap();
        RunRecord::prepare(folder.path()).unwrap();
        assert_eq!(RunRecord::read(folder.path()).unwrap().state, RunState::New);
        assert!(RunRecord::prepare(folder.path()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = RunRecord::parse(&bytes);
        }
    }
}

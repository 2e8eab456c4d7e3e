//! What takes long: to replace a device, to read everything over, to change how
//! often things are kept. Each call runs in the kernel until it is done;
//! another thread queries its progress and cancels it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use strata_types::storage::Profile;

use super::Fs;
use super::devices::Refused;
use super::space::{DUP, RAID1};
use crate::sys::{self, Bytes};

/// Where a replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplaceState {
    /// None runs, and the last one, if there was one, was not cancelled.
    Idle,
    /// So many thousandths are copied.
    Running(u64),
    Cancelled,
}

/// What a scrub of one device found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScrubFigures {
    pub(crate) bytes: u64,
    pub(crate) corrected: u64,
    pub(crate) uncorrectable: u64,
}

impl Fs {
    /// Copies what a device should hold to another and puts that in its place.
    /// `avoid` reads from the old one only what is nowhere else.
    pub(crate) fn replace(&self, old: u64, with: &Path, avoid: bool) -> Result<(), Refused> {
        const START: u64 = 0;
        const NAME: usize = 1025;
        let mut argument = Bytes::new()
            .with(0, START)
            .with(16, old)
            .with(24, u64::from(avoid))
            .with_text(32 + NAME, NAME, with.as_os_str().as_bytes())?;
        let answer = sys::ioctl(&self.root, &sys::DEV_REPLACE, &mut argument)?;
        // 2 and 3: another replacement or a scrub runs.
        match (answer, argument.get(8)) {
            (8, _) | (_, 2 | 3) => Err(Refused::Busy),
            (0, 0) => Ok(()),
            _ => Err(Refused::Failed(Errno::INVAL)),
        }
    }

    pub(crate) fn replace_state(&self) -> Result<ReplaceState, Errno> {
        const STATUS: u64 = 1;
        let mut answer = Bytes::new().with(0, STATUS);
        sys::ioctl(&self.root, &sys::DEV_REPLACE, &mut answer)?;
        Ok(match answer.get(16) {
            // Suspended ones go on with the next mount.
            1 | 4 => ReplaceState::Running(answer.get(24)),
            3 => ReplaceState::Cancelled,
            _ => ReplaceState::Idle,
        })
    }

    pub(crate) fn cancel_replace(&self) -> Result<(), Errno> {
        const CANCEL: u64 = 2;
        const NOT_STARTED: u64 = 1;
        let mut argument = Bytes::new().with(0, CANCEL);
        sys::ioctl(&self.root, &sys::DEV_REPLACE, &mut argument)?;
        match argument.get(8) {
            NOT_STARTED => Err(Errno::NOTCONN),
            _ => Ok(()),
        }
    }

    /// Reads all of a device over, and mends what can be.
    pub(crate) fn scrub(&self, id: u64) -> Result<ScrubFigures, Errno> {
        let mut argument = Bytes::new().with(0, id).with(16, u64::MAX);
        sys::ioctl(&self.root, &sys::SCRUB, &mut argument)?;
        Ok(figures(&argument))
    }

    /// How far the scrub of a device is; nothing when none runs.
    pub(crate) fn scrub_progress(&self, id: u64) -> Option<ScrubFigures> {
        let mut answer = Bytes::new().with(0, id);
        sys::ioctl(&self.root, &sys::SCRUB_PROGRESS, &mut answer).ok()?;
        Some(figures(&answer))
    }

    /// Stops the scrubs of all devices.
    pub(crate) fn cancel_scrub(&self) -> Result<(), Errno> {
        sys::ioctl(&self.root, &sys::SCRUB_CANCEL, &mut Bytes::new()).map(drop)
    }

    /// Writes again what is not kept as the profile requires, and only that.
    pub(crate) fn convert(&self, profile: Profile) -> Result<(), Errno> {
        const EVERYTHING: u64 = 1 | 2 | 4;
        /// Also when it means to keep metadata less often than now.
        const FORCE: u64 = 8;
        const CONVERT_SOFTLY: u64 = 1 << 8 | 1 << 9;
        /// How the kernel names "once" here.
        const SINGLE: u64 = 1 << 48;
        let (data, metadata) = match profile {
            Profile::Single => (SINGLE, DUP),
            Profile::Mirrored => (RAID1, RAID1),
        };
        let mut argument = Bytes::new().with(0, EVERYTHING | FORCE);
        for (at, target) in [(16, data), (152, metadata), (288, metadata)] {
            argument = argument.with(at + 56, target).with(at + 64, CONVERT_SOFTLY);
        }
        sys::ioctl(&self.root, &sys::BALANCE_V2, &mut argument).map(drop)
    }

    /// Stops a conversion after the block group it is at.
    pub(crate) fn cancel_convert(&self) -> Result<(), Errno> {
        sys::cancel_balance(&self.root)
    }
}

fn figures(answer: &Bytes<1024>) -> ScrubFigures {
    let number = |index: usize| answer.get(32 + 8 * index);
    ScrubFigures {
        bytes: number(2) + number(3),
        corrected: number(12),
        uncorrectable: number(11),
    }
}

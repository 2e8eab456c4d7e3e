//! Why something with the pool did not work.

use std::io;
use std::path::{Path, PathBuf};

use strata_types::storage::DeviceState;
use strata_types::{Error, ErrorKind};

/// Why something with the pool did not work.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The machine refused, and we do not know better why.
    #[error("cannot {what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
    /// The pool's record cannot be read.
    #[error("{} is not a record of a pool", path.display())]
    Record {
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A volume's record cannot be read.
    #[error("volume {volume} has no record that can be read")]
    VolumeRecord { volume: String },
    /// The program that formats failed or is not there.
    #[error("cannot format the pool: {said}")]
    Format { said: String },
    /// A setting is wrong.
    #[error("{field}: {why}")]
    Invalid {
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Another process has the pool.
    #[error("another process has the pool in {}", dir.display())]
    InUse {
        /// The directory of the pool.
        dir: PathBuf,
    },
    /// The file system of the pool is not mounted.
    #[error("the pool is not mounted at {}", mount.display())]
    NotMounted {
        /// Where it should be.
        mount: PathBuf,
    },
    /// Devices are not there, and the pool cannot do without.
    #[error("the pool needs {}, and cannot find it", names.join(", "))]
    DevicesGone {
        /// Name and path of each.
        names: Vec<String>,
    },
    /// There is no such device.
    #[error("there is no device {name} in the pool")]
    NoDevice { name: String },
    /// The device is not what it must be for this.
    #[error("device {name} is {}, and must be {must_be}", state.as_str())]
    DeviceState {
        name: String,
        state: DeviceState,
        /// What it must be.
        must_be: &'static str,
    },
    /// The device is used by something else, or has data on it.
    #[error("{} {why}", path.display())]
    DeviceTaken { path: PathBuf, why: &'static str },
    /// The other device is too small.
    #[error("{name} has {bytes} bytes, and {needed} must fit on it")]
    DeviceTooSmall {
        name: String,
        bytes: u64,
        needed: u64,
    },
    /// A device would have to leave and cannot.
    #[error("{least} devices must stay, and there are {present}")]
    TooFewDevices {
        /// How many must stay.
        least: usize,
        /// How many there are.
        present: usize,
    },
    /// The pool would be smaller than what is on it.
    #[error(
        "{used} bytes are used, {held} are held for metadata and {reserve} are kept free, and only {after} would be left"
    )]
    BelowUsed {
        used: u64,
        /// What metadata holds beyond what it uses.
        held: u64,
        /// What is always kept free.
        reserve: u64,
        /// What could be stored afterwards.
        after: u64,
    },
    /// No device is small enough to be given back.
    #[error("at most {asked} bytes were to be released, and the smallest device holds {smallest}")]
    DevicesTooLarge {
        /// The most that may be given back.
        asked: u64,
        /// What the smallest step gives.
        smallest: u64,
    },
    /// The spares are not enough.
    #[error("{asked} bytes are wanted, and all spares together give {possible}")]
    TooFewSpares {
        /// What is required at least.
        asked: u64,
        /// What all spares would give.
        possible: u64,
    },
    /// A device is missing; it must be replaced first.
    #[error("device {name} is missing")]
    Degraded { name: String },
    /// Something else is done to the devices at the moment.
    #[error("the devices of the pool are being changed already ({doing})")]
    Busy { doing: String },
    /// It was cancelled; nothing was lost.
    #[error("{what} was cancelled")]
    Cancelled { what: &'static str },
    /// There is no room for it.
    #[error("there is no room in the pool to {what}")]
    Full { what: &'static str },
    /// There is no such volume.
    #[error("there is no volume {name}")]
    NoVolume { name: String },
    /// There is no such snapshot.
    #[error("volume {volume} has no snapshot {snapshot}")]
    NoSnapshot { volume: String, snapshot: String },
    /// Nothing was staged or frozen under this tag.
    #[error("nothing is staged for volume {name} under {tag}")]
    NotStaged { tag: String, name: String },
    /// There is one already, and it is different.
    #[error("there is a volume {name} already, and it is different: {how}")]
    VolumeExists { name: String, how: String },
    /// More is in the volume than it may have.
    #[error("volume {name} holds {used} bytes, more than {quota}")]
    QuotaBelowUsed { name: String, used: u64, quota: u64 },
}

impl StorageError {
    /// To be used with `map_err`: what was tried with what.
    pub(crate) fn at<E: Into<io::Error>>(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().to_owned();
        move |error| {
            let source: io::Error = error.into();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { what },
                _ => Self::Io { what, path, source },
            }
        }
    }

    pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            why: why.into(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Record { .. } | Self::VolumeRecord { .. } => {
                ErrorKind::Internal
            }
            Self::Format { .. }
            | Self::InUse { .. }
            | Self::NotMounted { .. }
            | Self::DevicesGone { .. }
            | Self::Busy { .. } => ErrorKind::Unavailable,
            Self::Invalid { .. } => ErrorKind::Invalid,
            Self::NoDevice { .. }
            | Self::NoVolume { .. }
            | Self::NoSnapshot { .. }
            | Self::NotStaged { .. } => ErrorKind::NotFound,
            Self::VolumeExists { .. } => ErrorKind::AlreadyExists,
            Self::DeviceState { .. }
            | Self::DeviceTaken { .. }
            | Self::DeviceTooSmall { .. }
            | Self::TooFewDevices { .. }
            | Self::BelowUsed { .. }
            | Self::DevicesTooLarge { .. }
            | Self::Degraded { .. }
            | Self::QuotaBelowUsed { .. } => ErrorKind::WrongState,
            Self::TooFewSpares { .. } | Self::Full { .. } => ErrorKind::Exhausted,
            Self::Cancelled { .. } => ErrorKind::Aborted,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::TooFewSpares { .. } => "add a spare with `strata storage device add`",
            Self::Full { .. } => {
                "remove a snapshot or a volume, give the volume more, or expand the pool"
            }
            Self::DevicesGone { .. } => {
                "bring the device back and start again; what was on it alone is not elsewhere"
            }
            Self::Degraded { .. } => "replace it with `strata storage device replace`",
            Self::BelowUsed { .. } => "remove volumes or snapshots first, or release less",
            Self::DeviceTaken { .. } => "ask for overwrite if nothing on it is needed",
            Self::Format { .. } => "install btrfs-progs",
            Self::Busy { .. } => "wait for it to end, or cancel it",
            Self::DevicesTooLarge { .. } => "ask for more, or for a multiple of 4096 bytes",
            _ => return None,
        })
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        let public = match &error {
            StorageError::Invalid { field, why } => Self::invalid(*field, why.clone()),
            _ => Self::new(error.kind(), strata_types::chain(&error)),
        };
        match error.hint() {
            Some(hint) => public.with_hint(hint),
            None => public,
        }
    }
}

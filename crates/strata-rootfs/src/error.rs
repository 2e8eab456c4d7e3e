//! What can go wrong with a root, by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why something with a root or a mount did not work.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The name of a root becomes the name of a directory.
    #[error("{id:?} cannot name a root: 1 to 128 of a-z A-Z 0-9 . _ - and no dot at the start")]
    BadId { id: String },
    /// Another process has the directory of all roots open.
    #[error("the roots in {} are in use by another process", path.display())]
    InUse { path: PathBuf },
    /// There is no such root.
    #[error("there is no root {id}")]
    NotFound { id: String },
    /// A root with this name is there, with another limit.
    #[error(
        "root {id} is there already with {}, not {}",
        limit_text(*has),
        limit_text(*wanted)
    )]
    OtherLimit {
        id: String,
        wanted: Option<u64>,
        /// The limit it has.
        has: Option<u64>,
    },
    /// The root is mounted already, and can be only once.
    #[error("root {id} is still mounted by another process")]
    Busy { id: String },
    /// This node cannot hold a pod to a disk limit.
    #[error("a disk limit cannot be enforced here: {reason}")]
    LimitUnsupported {
        /// Why, and what would help.
        reason: String,
    },
    /// The limit is too small to hold anything.
    #[error("a disk limit of {wanted} bytes is too small: the least is {least}")]
    LimitTooSmall {
        wanted: u64,
        /// The least that works.
        least: u64,
    },
    /// All project ids that we hand out are taken.
    #[error("no project id is free for another disk limit")]
    NoProjectId,
    /// The node's disk is full.
    #[error("the disk is full: cannot {what} {}", path.display())]
    DiskFull {
        what: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// More layers than an overlay takes.
    #[error("{count} layers are more than the {most} an overlay takes")]
    TooManyLayers {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A mount point that is not a plain absolute path.
    #[error("{} cannot be a mount point: it must be absolute, without `..`", path.display())]
    BadMountPoint { path: PathBuf },
    /// The kernel did not make a mount.
    #[error("cannot mount {kind}: {what}{}", kernel_text(kernel))]
    Mount {
        kind: &'static str,
        what: String,
        /// The kernel's message about it, if there was one.
        kernel: String,
        source: io::Error,
    },
    /// A program that we need did not do its work.
    #[error("{program} failed: {output}")]
    Program {
        program: &'static str,
        /// The end of its output.
        output: String,
    },
    /// The recorded limit in a root's directory makes no sense.
    #[error("{} says {text:?}, which is not a valid limit", path.display())]
    BadRecord { path: PathBuf, text: String },
    /// The file system refused something.
    #[error("cannot {what} {}", path.display())]
    Io {
        what: &'static str,
        /// Where.
        path: PathBuf,
        source: io::Error,
    },
}

impl RootError {
    /// Something failed at a path. A full disk is distinguished here, once.
    pub(crate) fn io(
        what: &'static str,
        path: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> Self {
        let (path, source) = (path.as_ref().to_owned(), source.into());
        if is_full(&source) {
            Self::DiskFull { what, path }
        } else {
            Self::Io { what, path, source }
        }
    }

    /// For `map_err`.
    pub(crate) fn at<E: Into<io::Error>>(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::io(what, path, source)
    }
}

fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT];
    full.iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn limit_text(limit: Option<u64>) -> String {
    limit.map_or("no limit".into(), |bytes| {
        format!("a limit of {bytes} bytes")
    })
}

fn kernel_text(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!(" (the kernel says: {said})")
    }
}

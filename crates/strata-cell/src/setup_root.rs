//! The root of a cell that is handed one, as the daemon describes it: detached
//! mounts as open files, and what is done with them inside.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::init::{CellInit, InitError};
use crate::wire::{self, MAGIC, Request};

/// One thing to do in a new root, in the order in which they are given.
#[derive(Debug)]
pub enum MountOp {
    /// A mount goes onto a directory, which is made if missing.
    Directory(String, OwnedFd),
    /// A mount goes onto a file, which is made if missing.
    File(String, OwnedFd),
    /// A file with this content. Where the root cannot take it, because it is
    /// read-only or full, the mount goes there instead.
    Content(String, String, OwnedFd),
    /// A new file system of a type, without programs or devices.
    New {
        /// `proc`, `sysfs`, `mqueue`.
        kind: &'static str,
        /// Where it goes.
        path: &'static str,
        /// Nothing can be changed in it.
        read_only: bool,
    },
    /// Nothing is to be seen here; what is missing needs no hiding.
    Mask(String),
    /// Nothing is to be changed here.
    ReadOnly(String),
    /// Device files in this mount mean nothing; those in mounts on it do.
    NoDevices(String),
    /// A kernel setting of the cell's namespaces: `net.ipv4.ip_forward`.
    Sysctl(String, String),
    /// Another host name than the cell's own.
    HostName(String),
}

impl MountOp {
    fn text(&self) -> String {
        let with = |op: u8, text: &str| format!("{}{text}", char::from(op));
        match self {
            Self::Directory(path, _) => with(wire::OP_DIR, path),
            Self::File(path, _) => with(wire::OP_FILE, path),
            Self::Content(path, text, _) => with(wire::OP_CONTENT, &format!("{path}={text}")),
            Self::New {
                kind,
                path,
                read_only,
            } => {
                let op = match read_only {
                    true => wire::OP_NEW_READ_ONLY,
                    false => wire::OP_NEW,
                };
                with(op, &format!("{kind}:{path}"))
            }
            Self::Mask(path) => with(wire::OP_MASK, path),
            Self::ReadOnly(path) => with(wire::OP_READ_ONLY, path),
            Self::NoDevices(path) => with(wire::OP_NO_DEVICES, path),
            Self::Sysctl(name, value) => with(
                wire::OP_SYSCTL,
                &format!("{}={value}", name.replace('.', "/")),
            ),
            Self::HostName(name) => with(wire::OP_HOST_NAME, name),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Directory(_, fd) | Self::File(_, fd) | Self::Content(_, _, fd) => {
                Some(fd.as_fd())
            }
            _ => None,
        }
    }
}

impl fmt::Display for MountOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path, _) | Self::File(path, _) => write!(f, "mount {path}"),
            Self::Content(path, ..) => write!(f, "write {path}"),
            Self::New { kind, path, .. } => write!(f, "mount {kind} on {path}"),
            Self::Mask(path) => write!(f, "hide {path}"),
            Self::ReadOnly(path) => write!(f, "make {path} unchangeable"),
            Self::NoDevices(path) => write!(f, "take devices out of {path}"),
            Self::Sysctl(name, value) => write!(f, "set the sysctl {name} to {value:?}"),
            Self::HostName(name) => write!(f, "set the host name to {name:?}"),
        }
    }
}

impl CellInit {
    /// Gives the cell its root. Once only; the cell is of no use if it fails.
    pub fn setup_root(&self, root: &OwnedFd, mount_ops: &[MountOp]) -> Result<(), InitError> {
        self.setup_root_with(root, mount_ops, 0)
    }

    /// The same for a cell whose main run is to be PID 1 of what it sees, and
    /// in which this init is not seen at all.
    pub fn setup_root_for_init(
        &self,
        root: &OwnedFd,
        mount_ops: &[MountOp],
    ) -> Result<(), InitError> {
        self.setup_root_with(root, mount_ops, wire::PROGRAM_IS_INIT)
    }

    fn setup_root_with(
        &self,
        root: &OwnedFd,
        mount_ops: &[MountOp],
        flags: u32,
    ) -> Result<(), InitError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::SETUP_ROOT,
            flags,
            argc: mount_ops.len() as u32,
            ..Request::default()
        };
        let mut payload = Vec::new();
        for mount_op in mount_ops {
            payload.extend_from_slice(mount_op.text().as_bytes());
            payload.push(0);
        }
        let fds: Vec<_> = std::iter::once(root.as_fd())
            .chain(mount_ops.iter().filter_map(MountOp::fd))
            .collect();
        let reply = self.ask(&request, &payload, &fds)?;
        if reply.error == 0 {
            return Ok(());
        }
        let failed = mount_ops.get(reply.detail as usize);
        Err(InitError::SetupRoot {
            what: failed.map_or_else(|| "enter the root".into(), MountOp::to_string),
            errno: reply.error,
        })
    }
}

//! A Unix socket at a path: never open to more users than requested, not even
//! for an instant; never taken from a daemon that is alive.
//!
//! The mode goes onto the socket before it is bound: Linux gives the file that
//! mode, so there is no moment with another, and no umask of the whole process
//! to change and change back. A lock file beside it makes checking, removing
//! and binding one step among daemons.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use tokio::net::UnixListener;

const BACKLOG: i32 = 1024;

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens on the socket.
    #[error("another daemon listens on {0}")]
    InUse(PathBuf),
    /// Something is there that is no socket, and not ours to remove.
    #[error("{0} exists and is not a socket")]
    NotASocket(PathBuf),
    /// The kernel takes 107 bytes.
    #[error("{0} is too long for a socket: the maximum is 107 bytes")]
    TooLong(PathBuf),
    /// Any other I/O error.
    #[error("cannot listen on {path}")]
    Io {
        /// The socket, or what is needed beside it.
        path: PathBuf,
        source: io::Error,
    },
}

/// Listens on `path` with exactly `mode`. The directory is made for the owner
/// alone if it is missing. A socket that no DHCP server answers on is replaced.
pub fn bind_unix(path: &Path, mode: u32) -> Result<UnixListener, BindError> {
    let failed = |source: io::Error| BindError::Io {
        path: path.into(),
        source,
    };
    let address = SocketAddrUnix::new(path).map_err(|_| BindError::TooLong(path.into()))?;
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed)?;
    }
    let _lock = lock(path)?;
    remove_stale_socket(path, &address)?;

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || -> io::Result<UnixListener> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        fchmod(&socket, Mode::from_raw_mode(mode))?;
        bind(&socket, &address)?;
        // The umask may have taken bits away; it cannot have added any.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        listen(&socket, BACKLOG)?;
        UnixListener::from_std(socket.into())
    };
    open().map_err(failed)
}

/// One daemon at a time. The file stays: removing a lock file is a race.
fn lock(path: &Path) -> Result<File, BindError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let path = path.with_file_name(name);
    let take = || -> io::Result<File> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    };
    take().map_err(|source| BindError::Io {
        path: path.clone(),
        source,
    })
}

/// Removes what a daemon left that is gone.
fn remove_stale_socket(path: &Path, address: &SocketAddrUnix) -> Result<(), BindError> {
    let failed = |source: io::Error| BindError::Io {
        path: path.into(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(BindError::NotASocket(path.into()));
        }
        Ok(_) => {}
    }
    // Not blocking: a daemon that is alive and busy is detected without
    // waiting.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| failed(error.into()))?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed),
        Err(Errno::NOENT) => Ok(()),
        Ok(()) | Err(Errno::AGAIN) => Err(BindError::InUse(path.into())),
        Err(error) => Err(failed(error.into())),
    }
}

//! A terminal of a pod, of which one end is here: bytes as they come, and its
//! size.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid, openat2};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use strata_types::{Error, Result};
use tokio::io::unix::AsyncFd;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalSize {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
}

impl Default for TerminalSize {
    /// The usual size before a client reports its own.
    fn default() -> Self {
        Self {
            rows: 24,
            columns: 80,
        }
    }
}

/// Our end of a terminal.
pub(crate) struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    /// Makes a terminal of a pod, whose root is given; answers our end and
    /// that of the process, which belongs to `owner`.
    pub(super) fn open(root: &OwnedFd, size: TerminalSize, owner: u32) -> Result<(Self, OwnedFd)> {
        let failed = |error: io::Error| Error::internal(format!("cannot make a terminal: {error}"));
        let make = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            // Whatever links the pod made, the path stays inside.
            let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            let ours = openat2(root.as_fd(), "dev/pts/ptmx", flags, Mode::empty(), within)?;
            unlockpt(&ours)?;
            let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
            let theirs = ioctl_tiocgptpeer(&ours, flags)?;
            rustix::fs::fchown(&theirs, Some(Uid::from_raw(owner)), None::<Gid>)?;
            set_size(&ours, size)?;
            Ok((Self(strata_cell::both_ways(ours)?), theirs))
        };
        make().map_err(failed)
    }

    /// Our end of a terminal that another process created.
    pub(super) fn of(ours: OwnedFd) -> Result<Self> {
        let ours = strata_cell::both_ways(ours)
            .map_err(|error| Error::internal(format!("cannot use a terminal: {error}")))?;
        Ok(Self(ours))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }

    /// Changes its size; the kernel signals its processes.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        set_size(self.0.get_ref(), size)
    }

    /// What was written to it; nothing once no process has it open any more.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut *buffer)?));
            match read {
                Ok(Err(error))
                    if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) =>
                {
                    return Ok(0);
                }
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            match ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(written) => bytes = &bytes[written?..],
                Err(_would_block) => {}
            }
        }
        Ok(())
    }
}

fn set_size(terminal: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}

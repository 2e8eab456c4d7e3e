//! The daemon's side of the connection to an init.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

use crate::wire::{self, MAGIC, MAX_FDS, Reply, Request};

/// How long an init may take to answer: it waits for disks and for exec.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The name of an init's socket in its directory.
pub(crate) const SOCKET: &str = "init.sock";

/// Why an init could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No process listens, or the connection broke.
    #[error("the cell's init does not answer")]
    Unreachable(#[source] io::Error),
    /// It answered with something else than expected.
    #[error("the cell's init gave an answer that makes no sense")]
    Nonsense,
    /// It has another version.
    #[error(
        "the cell's init speaks version {theirs} of the protocol, this daemon {}",
        wire::VERSION
    )]
    Version {
        /// The version of the init.
        theirs: u32,
    },
}

impl LinkError {
    /// Whether it means that there is no init: no process listens. Anything
    /// else may be a slow one, or a machine that is short of something.
    pub fn is_nobody(&self) -> bool {
        let Self::Unreachable(error) = self else {
            return false;
        };
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
        )
    }
}

impl From<rustix::io::Errno> for LinkError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Unreachable(errno.into())
    }
}

/// A connection for requests, one at a time.
#[derive(Debug)]
pub(crate) struct InitLink {
    socket: OwnedFd,
}

pub(crate) struct InitAnswer {
    pub(crate) reply: Reply,
    /// The process it is about, as this process sees it.
    pub(crate) pid: i32,
    pub(crate) fd: Option<OwnedFd>,
}

impl InitLink {
    /// Connects to the init whose socket is in `dir`.
    pub(crate) fn connect(dir: &Path) -> Result<Self, LinkError> {
        Self::connect_within(dir, REPLY_TIMEOUT)
    }

    /// The same for callers that do not wait long for an answer.
    pub(crate) fn connect_within(dir: &Path, timeout: Duration) -> Result<Self, LinkError> {
        let socket = socket()?;
        let (address, _dir) = address(dir).map_err(LinkError::Unreachable)?;
        for direction in [Timeout::Recv, Timeout::Send] {
            sockopt::set_socket_timeout(&socket, direction, Some(timeout))?;
        }
        sockopt::set_socket_passcred(&socket, true)?;
        rustix::net::connect(&socket, &address)?;
        Ok(Self { socket })
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(
        &self,
        request: &Request,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<InitAnswer, LinkError> {
        self.send(request, payload, fds)?;
        let answer = receive(&self.socket)?.ok_or_else(closed)?;
        if answer.reply.kind != request.kind || answer.reply.run != request.run {
            return Err(LinkError::Nonsense);
        }
        Ok(answer)
    }

    fn send(
        &self,
        request: &Request,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), LinkError> {
        let mut space =
            [const { std::mem::MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(LinkError::Nonsense);
        }
        let parts = [IoSlice::new(encode(request)), IoSlice::new(payload)];
        sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The runs the init has, each with its pid.
    pub(crate) fn list(&self) -> Result<Vec<(u64, i32)>, LinkError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::LIST,
            ..Request::default()
        };
        self.send(&request, &[], &[])?;
        let mut runs = Vec::new();
        loop {
            let InitAnswer { reply, pid, .. } = receive(&self.socket)?.ok_or_else(closed)?;
            if reply.run == 0 {
                return Ok(runs);
            }
            runs.push((reply.run, pid));
        }
    }

    /// Sends a signal to the process group of a run, or to its process alone.
    /// One that is over is no error: there is nothing left to signal.
    pub(crate) fn signal(&self, run: u64, signal: i32, alone: bool) -> Result<(), LinkError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::SIGNAL,
            run,
            signal,
            flags: if alone { wire::ALONE } else { 0 },
            ..Request::default()
        };
        self.ask(&request, &[], &[]).map(drop)
    }

    pub(crate) fn end_input(&self, run: u64) -> Result<(), LinkError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::END_INPUT,
            run,
            ..Request::default()
        };
        self.ask(&request, &[], &[]).map(drop)
    }

    /// The end of the lease that the shim holds, as it is on the wire.
    pub(crate) fn lease(&self) -> Result<u64, LinkError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::GET_LEASE,
            ..Request::default()
        };
        self.send(&request, &[], &[])?;
        let InitAnswer { reply, .. } = receive(&self.socket)?.ok_or_else(closed)?;
        match reply.kind {
            wire::GET_LEASE => Ok(reply.run),
            _ => Err(LinkError::Nonsense),
        }
    }

    /// Checks whether the init is there and well; from then on the connection
    /// is a stream of events.
    pub(crate) fn hello(self) -> Result<(InitAnswer, InitEvents), LinkError> {
        let request = Request {
            magic: MAGIC,
            kind: wire::HELLO,
            ..Request::default()
        };
        let answer = self.ask(&request, &[], &[])?;
        rustix::io::ioctl_fionbio(&self.socket, true)?;
        Ok((
            answer,
            InitEvents {
                socket: self.socket,
            },
        ))
    }
}

/// What an init sends unrequested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitEvent {
    /// The run has ended and its status is written.
    Exited(u64),
    /// The init itself is gone.
    Gone,
}

/// A stream of events from an init. Its descriptor can be polled for reading.
#[derive(Debug)]
pub struct InitEvents {
    socket: OwnedFd,
}

impl InitEvents {
    /// The next event; `WouldBlock` when there is none now.
    pub fn next(&self) -> io::Result<InitEvent> {
        match receive(&self.socket) {
            Ok(Some(InitAnswer { reply, .. })) if reply.kind == wire::EXITED => {
                Ok(InitEvent::Exited(reply.run))
            }
            Err(LinkError::Unreachable(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(error)
            }
            _ => Ok(InitEvent::Gone),
        }
    }
}

impl AsFd for InitEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::os::fd::AsRawFd for InitEvents {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

/// A socket that listens in `dir`, for an init to inherit.
pub(crate) fn listen(dir: &Path) -> Result<OwnedFd, LinkError> {
    let socket = socket()?;
    let path = dir.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(LinkError::Unreachable(error));
        }
        _ => {}
    }
    let (address, _dir) = address(dir).map_err(LinkError::Unreachable)?;
    rustix::net::bind(&socket, &address)?;
    // The directory is 0700 already; this is for a check of the socket alone.
    rustix::fs::chmod(&path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::listen(&socket, 8)?;
    Ok(socket)
}

fn socket() -> Result<OwnedFd, LinkError> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Socket addresses hold 108 bytes, directories nest deeper: go through an open
/// directory, whose path under `/proc` is short. It must live as long as the
/// address is used.
fn address(dir: &Path) -> io::Result<(SocketAddrUnix, OwnedFd)> {
    use std::os::fd::AsRawFd as _;
    let flags =
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let open = rustix::fs::open(dir, flags, rustix::fs::Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd());
    Ok((SocketAddrUnix::new(path)?, open))
}

fn receive(socket: &OwnedFd) -> Result<Option<InitAnswer>, LinkError> {
    let mut reply = [0u8; size_of::<Reply>()];
    let mut space = [const { std::mem::MaybeUninit::uninit() };
        rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut parts = [IoSliceMut::new(&mut reply)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            message => break message?,
        }
    };
    let (mut pid, mut fd) = (0, None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fd = fds.next(),
            RecvAncillaryMessage::ScmCredentials(sender) => pid = sender.pid.as_raw_pid(),
            _ => {}
        }
    }
    match message.bytes {
        0 => Ok(None),
        n if n == reply.len() => decode(&reply).map(|reply| Some(InitAnswer { reply, pid, fd })),
        _ => Err(LinkError::Nonsense),
    }
}

fn closed() -> LinkError {
    LinkError::Unreachable(io::ErrorKind::ConnectionReset.into())
}

#[allow(unsafe_code)]
fn encode(request: &Request) -> &[u8] {
    // SAFETY: a plain record without padding; every byte is set.
    unsafe { std::slice::from_raw_parts((&raw const *request).cast(), size_of::<Request>()) }
}

#[allow(unsafe_code)]
pub(crate) fn decode(bytes: &[u8; size_of::<Reply>()]) -> Result<Reply, LinkError> {
    // SAFETY: as long as a Reply, and any bytes are a valid one.
    let reply: Reply = unsafe { bytes.as_ptr().cast::<Reply>().read_unaligned() };
    match reply {
        Reply { magic, .. } if magic != MAGIC => Err(LinkError::Nonsense),
        Reply { version, .. } if version != wire::VERSION => {
            Err(LinkError::Version { theirs: version })
        }
        reply => Ok(reply),
    }
}

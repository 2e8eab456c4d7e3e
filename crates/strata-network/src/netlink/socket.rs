//! A netlink socket: a batch out, the answers in. It blocks, and never for
//! longer than [`REPLY_TIMEOUT`]: the kernel works while the call that sends is
//! under way, so an answer that is not there then will not come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
};

use super::batch::Batch;
use super::kinds::control;
use super::reply::{Reply, replies};

/// How long an answer may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The kernel sends dumps in pieces of at most 32 KiB.
const PIECE: usize = 64 * 1024;

/// Which part of the kernel a socket connects to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    /// Links, addresses, routes, neighbours.
    Route,
    Netfilter,
    /// Families that are found by name, WireGuard among them.
    Generic,
}

/// Groups of notifications, as bits.
pub(crate) mod groups {
    /// Links that come, change and go.
    pub(crate) const LINK: u32 = 1;
    pub(crate) const NFTABLES: u32 = 1 << 6;
}

/// Why the kernel did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error("netlink: {0}")]
    Socket(#[source] io::Error),
    /// The kernel refused one message of a batch.
    #[error("the kernel refused: {source} (message {message})")]
    Refused {
        /// Which message of the batch, from 0.
        message: usize,
        source: io::Error,
    },
}

impl NetlinkError {
    /// Whether the kernel refused with this.
    pub(crate) fn is(&self, errno: Errno) -> bool {
        matches!(self, Self::Refused { source, .. } if source.raw_os_error() == Some(errno.raw_os_error()))
    }
}

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
    port: u32,
}

impl Socket {
    /// Opens a socket in the network namespace of this thread.
    pub(crate) fn open(family: Family) -> Result<Self, NetlinkError> {
        Self::listen(family, 0)
    }

    /// Opens a socket that receives the notifications of these groups.
    pub(crate) fn listen(family: Family, groups: u32) -> Result<Self, NetlinkError> {
        let fail = |errno: Errno| NetlinkError::Socket(errno.into());
        let protocol = match family {
            // NETLINK_ROUTE is number 0, which is "none" here.
            Family::Route => None,
            Family::Netfilter => Some(NETFILTER),
            Family::Generic => Some(GENERIC),
        };
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )
        .map_err(fail)?;
        bind(&fd, &SocketAddrNetlink::new(0, groups)).map_err(fail)?;
        if groups == 0 {
            set_socket_timeout(&fd, Timeout::Recv, Some(REPLY_TIMEOUT)).map_err(fail)?;
        } else {
            // A burst of changes by others should not overflow at once.
            let _ = set_socket_recv_buffer_size(&fd, 1 << 20);
        }
        let port = rustix::net::getsockname(&fd)
            .and_then(SocketAddrNetlink::try_from)
            .map_err(fail)?
            .pid();
        Ok(Self {
            fd,
            sequence: 1,
            buffer: vec![0; PIECE],
            port,
        })
    }

    /// The number by which the kernel knows this socket.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// Sends a batch of independent messages and waits until all are done. The
    /// kernel goes on after one it refused; the first refusal is the error.
    /// Returns what the kernel sent besides.
    pub(crate) fn talk(&mut self, batch: &mut Batch) -> Result<Vec<Reply>, NetlinkError> {
        let last = batch.len().saturating_sub(1);
        self.exchange(batch, last)
    }

    /// Sends a transaction: begin, messages, end. All or nothing.
    pub(crate) fn transact(&mut self, batch: &mut Batch) -> Result<(), NetlinkError> {
        let last = batch.len().saturating_sub(2);
        self.exchange(batch, last).map(drop)
    }

    fn exchange(&mut self, batch: &mut Batch, answered: usize) -> Result<Vec<Reply>, NetlinkError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.sequence;
        self.sequence = self.sequence.wrapping_add(batch.len() as u32);
        let count = batch.len() as u32;
        let kernel = SocketAddrNetlink::new(0, 0);
        retry(|| {
            sendto(
                &self.fd,
                batch.seal(first, answered),
                SendFlags::empty(),
                &kernel,
            )
        })?;
        let mut told = Vec::new();
        loop {
            for reply in self.receive()? {
                let message = reply.sequence.wrapping_sub(first);
                if message >= count {
                    continue; // Left over from a batch that failed.
                }
                match reply.kind {
                    control::DONE => return Ok(told),
                    control::ERROR => match reply.header_u32(0) as i32 {
                        0 if message as usize == answered => return Ok(told),
                        0 => {}
                        errno => {
                            return Err(NetlinkError::Refused {
                                message: message as usize,
                                source: io::Error::from_raw_os_error(-errno),
                            });
                        }
                    },
                    _ => told.push(reply),
                }
            }
        }
    }

    /// Waits for the next messages.
    pub(crate) fn receive(&mut self) -> Result<Vec<Reply>, NetlinkError> {
        let (fd, buffer) = (&self.fd, &mut self.buffer);
        let length = retry(|| recv(fd, buffer.as_mut_slice(), RecvFlags::empty()).map(|r| r.0))?;
        Ok(replies(&self.buffer[..length]).collect())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, NetlinkError> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done.map_err(|errno| NetlinkError::Socket(errno.into())),
        }
    }
}

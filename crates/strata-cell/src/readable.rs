//! Waiting on the kernel's descriptors from an async runtime.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::InitEvents;

/// Lets an async task wait until `fd` can be read.
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    register(fd, Interest::READABLE)
}

/// Lets async tasks wait until `fd` can be read, or written to.
pub fn both_ways(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    register(fd, Interest::READABLE | Interest::WRITABLE)
}

impl InitEvents {
    /// Lets an async task wait for events.
    pub fn readable(self) -> io::Result<AsyncFd<Self>> {
        register(self, Interest::READABLE)
    }
}

#[allow(unsafe_code)]
fn register<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: both types this is called with own one descriptor, hold it
    // until they are dropped, and never exchange it for another.
    let registered = unsafe { AsyncFd::register_with_interest(owner, interest) };
    registered.map_err(io::Error::from)
}

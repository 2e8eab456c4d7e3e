//! Work inside another network namespace. A socket belongs permanently to the
//! namespace of the thread that opened it, so a thread goes there, opens one
//! and ends: no thread that does other work is ever in the wrong namespace.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{NetworkError, Result};
use crate::netlink::{Family, Socket};

/// A socket on its way.
pub(crate) struct SocketRequest<'scope>(ScopedJoinHandle<'scope, Result<Socket>>);

/// Begins to open a netlink socket in a namespace.
pub(crate) fn open<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    netns: BorrowedFd<'env>,
) -> Result<SocketRequest<'scope>> {
    let work = move || {
        move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
            .map_err(|errno| NetworkError::Namespace(errno.into()))?;
        Socket::open(Family::Route).map_err(crate::error::kernel("open a netlink socket"))
    };
    Builder::new()
        .name("netns".into())
        .stack_size(64 * 1024)
        .spawn_scoped(scope, work)
        .map(SocketRequest)
        .map_err(NetworkError::Namespace)
}

impl SocketRequest<'_> {
    pub(crate) fn finish(self) -> Result<Socket> {
        match self.0.join() {
            Ok(opened) => opened,
            Err(_) => Err(NetworkError::Namespace(io::Error::other(
                "the thread that went there panicked",
            ))),
        }
    }
}

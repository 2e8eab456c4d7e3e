//! Netlink, used directly: messages are written into one buffer, sent in one
//! call, and the kernel has done all of them when that call returns. The same
//! writer serves links, addresses and routes as well as nftables.

mod batch;
mod kinds;
mod reply;
mod socket;

pub(crate) use batch::Batch;
pub(crate) use kinds::{flag, generic, nft, route, wireguard};
pub(crate) use reply::{Attributes, Reply};
pub use socket::NetlinkError;
pub(crate) use socket::{Family, Socket, groups};

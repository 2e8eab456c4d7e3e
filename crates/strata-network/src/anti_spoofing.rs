//! One hardware address for each port of the bridge. Frames with another one
//! are dropped, so no endpoint on the bridge can pass for another: the host
//! knows which endpoint has an address without resolution (`neighbour.rs`), and
//! the bridge knows which port that is without learning.
//!
//! Kernels before 5.18 do not lock ports; there the bridge only does not learn.

use std::net::Ipv4Addr;

use crate::error::{Result, kernel};
use crate::link::{self, Link};
use crate::netlink::{Batch, Socket, flag, route};
use crate::network::Inner;
use crate::{Mac, neighbour};

impl Inner {
    /// Pins the port of an endpoint.
    pub(crate) fn pin(&self, address: Ipv4Addr) -> Result<()> {
        let mut links = self.links();
        for name in self.port_names(address) {
            if let Some(port) = link::find(&mut links, &name)?
                && !port.is_pending_removal()
            {
                return pin_port(&mut links, &port, Mac::of(address));
            }
        }
        Ok(())
    }
}

/// Pins a port to a hardware address.
pub(crate) fn pin_port(links: &mut Socket, port: &Link, mac: Mac) -> Result<()> {
    let mut batch = Batch::default();
    let mut header = neighbour::header(route::AF_BRIDGE, port.index, route::NTF_MASTER);
    header[8..10].copy_from_slice(&route::NUD_NOARP.to_ne_bytes());
    batch
        .message(route::NEWNEIGH, flag::CREATE | flag::REPLACE, &header)
        .put(route::NDA_LLADDR, &mac.0);
    link::lock(&mut batch, port.index);
    let what = || format!("pin {} to {mac}", port.name);
    links.talk(&mut batch).map(drop).map_err(kernel(what()))
}

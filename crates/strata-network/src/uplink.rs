//! The way of a whole machine to its network, for its PID 1: switches a NIC on,
//! and gives it what a DHCP server has sent.

use std::net::IpAddr;

use crate::dhcp::client::Lease;
use crate::error::{Result, kernel};
use crate::link::{self, Route};
use crate::netlink::{Batch, Family, Socket};

/// Switches on an interface.
pub fn switch_on(interface: u32) -> Result<()> {
    let mut batch = Batch::default();
    link::set_up(&mut batch, interface);
    talk(&mut batch, "switch on the interface")
}

/// Gives an interface its address, and the machine its way out by it. The same
/// again is fine.
pub fn give(interface: u32, lease: &Lease) -> Result<()> {
    let mut batch = Batch::default();
    if let Some(mtu) = lease.mtu {
        link::set_mtu(&mut batch, interface, mtu);
    }
    link::add_address(&mut batch, interface, lease.address.into(), lease.prefix);
    if let Some(gateway) = lease.gateway {
        Route::default(IpAddr::V4(gateway), interface).add(&mut batch);
    }
    talk(&mut batch, "give the interface its address")
}

fn talk(batch: &mut Batch, what: &str) -> Result<()> {
    let mut socket = Socket::open(Family::Route).map_err(kernel(what.to_owned()))?;
    socket
        .talk(batch)
        .map(drop)
        .map_err(kernel(what.to_owned()))
}

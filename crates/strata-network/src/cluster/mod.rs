//! The pod network of a cluster's machine: a VXLAN device by which the pods
//! of all machines of the cluster reach each other.
//!
//! It is a sibling of the overlay between nodes (`overlay`) for machines whose
//! pods are attached by another program. Nothing is learned here either: each
//! peer is a route, a neighbour and an entry that holds its address. What the
//! kernel has is read, compared with what it should have, and only the
//! difference is changed, so that it can be applied again at any time. All of
//! it stays when the process that made it ends.

mod device;
mod entry;

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;

use crate::error::{NetworkError, Result, file, kernel};
use crate::netlink::{Family, Socket};
use crate::rules::{ClusterRules, Table, rules_of};
use crate::{Peer, Subnet, link};

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// What the pod network of one machine should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOverlayConfig {
    /// The name of the device.
    pub device: String,
    /// The name of the nftables table.
    pub table: String,
    /// The address of this machine, as the others reach it.
    pub underlay: Ipv4Addr,
    /// The subnet of this machine's pods.
    pub subnet: Subnet,
    /// That of all pods of the cluster.
    pub range: Subnet,
    /// The number of the overlay.
    pub id: u32,
    /// Its UDP port.
    pub port: u16,
    /// The size of its packets.
    pub mtu: u32,
    /// The other machines.
    pub peers: BTreeSet<Peer>,
}

impl ClusterOverlayConfig {
    fn rules(&self) -> ClusterRules<'_> {
        ClusterRules {
            device: &self.device,
            subnet: self.subnet,
            range: self.range,
            overlay: (self.id, self.port),
            peers: self.peers.iter().map(|peer| peer.underlay).collect(),
        }
    }

    fn check(&self) -> Result<()> {
        let mut subnets = BTreeSet::from([self.subnet]);
        match self.peers.iter().find(|peer| !subnets.insert(peer.subnet)) {
            Some(twice) => Err(NetworkError::PeerSubnet(twice.subnet)),
            None => Ok(()),
        }
    }
}

/// Makes the pod network and keeps it so, in the network namespace of the
/// thread that opened it.
#[derive(Debug)]
pub struct ClusterOverlay {
    links: Socket,
    rules: Socket,
    /// What the table was made of, and the numbers of its rules then.
    table: Option<(ClusterOverlayConfig, Vec<u64>)>,
}

impl ClusterOverlay {
    /// Opens the ways to the kernel; changes nothing.
    pub fn open() -> Result<Self> {
        let open = |family| Socket::open(family).map_err(kernel("open a netlink socket"));
        Ok(Self {
            links: open(Family::Route)?,
            rules: open(Family::Netfilter)?,
            table: None,
        })
    }

    /// Makes everything as it should be, and returns whether anything was not.
    /// Forwarding is switched on for the namespace as a whole.
    pub fn apply(&mut self, wanted: &ClusterOverlayConfig) -> Result<bool> {
        wanted.check()?;
        let forwarding = forward()?;
        let (index, made) = device::ensure(&mut self.links, wanted)?;
        let there = entry::read(&mut self.links, index)?;
        let should = entry::wanted(wanted);
        let changed = entry::change(&mut self.links, index, &there, &should)?;
        let rebuilt = self.ensure_table(wanted)?;
        Ok(forwarding || made || changed || rebuilt)
    }

    /// Takes the device and the table away; what is gone is no error.
    pub fn remove(&mut self, device: &str, table: &str) -> Result<()> {
        self.table = None;
        let rules = &mut self.rules;
        if !rules_of(rules, table)?.is_empty() {
            Table {
                socket: rules,
                name: table,
            }
            .remove()?;
        }
        link::delete(&mut self.links, device)
    }

    fn ensure_table(&mut self, wanted: &ClusterOverlayConfig) -> Result<bool> {
        let now = rules_of(&mut self.rules, &wanted.table)?;
        let as_left = |(config, rules): &(ClusterOverlayConfig, Vec<u64>)| {
            *rules == now && config.table == wanted.table && config.rules() == wanted.rules()
        };
        if self.table.as_ref().is_some_and(as_left) {
            return Ok(false);
        }
        let (socket, name) = (&mut self.rules, wanted.table.as_str());
        Table { socket, name }.rebuild_for_cluster(&wanted.rules())?;
        let rules = rules_of(&mut self.rules, name)?;
        self.table = Some((wanted.clone(), rules));
        Ok(true)
    }
}

/// Switches forwarding on; whether it was off.
fn forward() -> Result<bool> {
    let value = fs::read_to_string(FORWARD).map_err(file("read", FORWARD))?;
    if value.trim() != "0" {
        return Ok(false);
    }
    fs::write(FORWARD, "1").map_err(file("write", FORWARD))?;
    Ok(true)
}

//! The table of a cluster's machine. Pods reach each other under their own
//! addresses; whatever they send elsewhere goes under the machine's, since no
//! other host has a route back to a pod.
//!
//! ```text
//! arriving   prerouting, first   packets of the overlay: from peers alone
//! leaving    postrouting, nat    from pods to the world, and into the overlay
//!                                what has no address of the cluster
//! ```

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use rustix::io::Errno;

use crate::Subnet;
use crate::error::{Result, kernel};
use crate::netlink::{Batch, Socket, flag, nft, route};

use super::chains::chain;
use super::expression::{Match, PacketSide, PacketVerdict, rule};
use super::table::Table;

const MULTICAST: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4);

/// What the rules depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterRules<'a> {
    /// The device of the overlay.
    pub(crate) device: &'a str,
    /// The subnet of this machine's pods.
    pub(crate) subnet: Subnet,
    /// That of all pods.
    pub(crate) range: Subnet,
    /// The overlay's number and UDP port.
    pub(crate) overlay: (u32, u16),
    /// The addresses of the other machines.
    pub(crate) peers: BTreeSet<Ipv4Addr>,
}

impl Table<'_> {
    /// Makes it for a machine of a cluster, in the place of what is there.
    pub(crate) fn rebuild_for_cluster(&mut self, rules: &ClusterRules<'_>) -> Result<()> {
        let name = self.name;
        self.replace(|batch| write(batch, name, rules))
    }
}

fn write(batch: &mut Batch, table: &str, rules: &ClusterRules<'_>) {
    chain(batch, table, "peers", None);
    chain(batch, table, "arriving", Some(("filter", 0, -300)));
    chain(batch, table, "leaving", Some(("nat", 4, 100)));
    let (id, port) = rules.overlay;
    rule(batch, table, "arriving", |r| {
        r.version(route::AF_INET)
            .overlay(port, id)
            .verdict(&PacketVerdict::Jump("peers"));
    });
    for peer in &rules.peers {
        rule(batch, table, "peers", |r| {
            r.address(PacketSide::Source, Match::In, (IpAddr::V4(*peer), 32))
                .verdict(&PacketVerdict::Accept);
        });
    }
    rule(batch, table, "peers", |r| r.verdict(&PacketVerdict::Drop));
    rule(batch, table, "leaving", |r| {
        r.version(route::AF_INET)
            .subnet(PacketSide::Source, Match::In, rules.subnet)
            .subnet(PacketSide::Destination, Match::NotIn, rules.range)
            .address(PacketSide::Destination, Match::NotIn, MULTICAST)
            .masquerade();
    });
    rule(batch, table, "leaving", |r| {
        // Its answer would take another way than it came.
        r.version(route::AF_INET)
            .leaves_by(Match::In, rules.device)
            .subnet(PacketSide::Source, Match::NotIn, rules.range)
            .masquerade();
    });
}

/// The numbers that the kernel gave to the rules of a table. A changed rule has
/// another number, so the numbers show whether the table is as it was left.
/// Empty when there is no table.
pub(crate) fn rules_of(socket: &mut Socket, table: &str) -> Result<Vec<u64>> {
    let mut batch = Batch::default();
    batch
        .message(nft::GETRULE, flag::DUMP, &[nft::NFPROTO_INET, 0, 0, 0])
        .put_text(nft::RULE_TABLE, table);
    let replies = match socket.talk(&mut batch) {
        Err(error) if error.is(Errno::NOENT) => return Ok(Vec::new()),
        replies => replies.map_err(kernel(format!("read the table {table}")))?,
    };
    let handle = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
    Ok(replies
        .iter()
        .map(|reply| reply.attributes(nft::HEADER))
        .filter(|rule| rule.text(nft::RULE_TABLE) == Some(table))
        .filter_map(|rule| rule.get(nft::RULE_HANDLE).and_then(handle))
        .collect())
}

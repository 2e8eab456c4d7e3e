//! What one pod may take of what the host has once for all: entries of the
//! kernel's connection tracking, the queue of the resolver, and the handshakes
//! that other hosts allow this one. Pods reach those under its address, so what
//! they begin there is what its own daemon cannot begin.
//!
//! Both are counted by source, which the rules for spoofed addresses make sure
//! of. The kernel keeps the counts in sets that packets fill.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::link::family_of;
use crate::netlink::{Batch, Socket, flag, nft};

use super::chains::chain;
use super::expression::{Match, PacketSide, PacketVerdict, Rule, rule};
use super::table::{self, TableFacts, add_table, begin, commit, delete_table};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const CONNECTIONS: [(IpAddr, &str); 2] = [(V4, "connections"), (V6, "connections6")];
/// The set of the connections of all pods, in groups by a hash of their ports:
/// the kernel goes through a whole group for a new connection, and a group of
/// all would take it milliseconds.
const ALL_CONNECTIONS: &str = "all-connections";
const GROUPS: u32 = 64;
const QUESTIONS: &str = "questions";
/// Queries that a pod may send in a second, and at once.
const QUESTION_RATE: (u64, u32) = (2000, 4000);
/// The set of Strata's ports.
const API_PORTS: &str = "api-ports";
const API: [(IpAddr, &str); 2] = [(V4, "api"), (V6, "api6")];
/// Connections to Strata's ports on other hosts that a pod may begin in a
/// second, and at once; and all pods together. A host allows another 512
/// handshakes at a time, each for some seconds.
const API_RATE: (u64, u32) = (5, 20);
const API_RATE_OF_ALL: (u64, u32) = (25, 100);
/// Addresses that are counted at once.
const MAX_SOURCES: u32 = 65_536;
/// How long a source is remembered that sends no more queries.
const FORGET_MS: u64 = 60_000;
const NEW: u32 = 1 << 3;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What the kernel can count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meters {
    /// How many connections a pod may have; none where they are not counted.
    pub(crate) connections: Option<u32>,
    /// How many all pods together may have, as far as the kernel can count
    /// them in groups.
    pub(crate) all_connections: Option<u32>,
    /// Whether queries for names, and connections to Strata's ports, are
    /// counted.
    pub(crate) rates: bool,
}

impl Meters {
    /// What this kernel can do, with the configured bounds on connections: of
    /// one pod, and of all.
    pub(crate) fn of(
        socket: &mut Socket,
        table: &str,
        (own, all): (Option<u32>, Option<u32>),
    ) -> Self {
        let mut can = |meters: Self| {
            let probe = format!("{table}-meters");
            let mut batch = begin();
            add_table(&mut batch, nft::NFPROTO_INET, &probe);
            table::write_sets(&mut batch, &probe, nft::NFPROTO_INET);
            write_sets(&mut batch, &probe, meters);
            chain(&mut batch, &probe, "probe", Some(("filter", 1, 0)));
            write_connections(&mut batch, &probe, "probe", meters, "probe");
            write_api(&mut batch, &probe, "probe", meters, "probe");
            write_question_meter(
                &mut batch,
                &probe,
                "probe",
                meters,
                (Ipv4Addr::LOCALHOST, 53),
            );
            delete_table(&mut batch, nft::NFPROTO_INET, &probe);
            commit(socket, batch).is_ok()
        };
        let connections = Self {
            connections: Some(1),
            ..Self::default()
        };
        let all_connections = Self {
            all_connections: Some(GROUPS),
            ..connections
        };
        let rates = Self {
            rates: true,
            ..Self::default()
        };
        // The first loads the module that has the number of entries.
        let counts = can(connections);
        let own = || own.unwrap_or_else(usual_connections);
        let all = || all.or_else(most_connections);
        Self {
            connections: counts.then(own),
            all_connections: can(all_connections).then(all).flatten(),
            rates: can(rates),
        }
    }
}

/// How many connections the host tracks.
fn tracked_connections() -> Option<u32> {
    let most = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max");
    most.ok().and_then(|text| text.trim().parse().ok())
}

/// An eighth of what the host tracks, up to a number that no honest pod has.
fn usual_connections() -> u32 {
    tracked_connections().map_or(16_384, |most| (most / 8).clamp(1024, 16_384))
}

/// Three quarters of what the host tracks: the rest is for the host itself.
fn most_connections() -> Option<u32> {
    tracked_connections().map(|most| most / 4 * 3)
}

pub(super) fn write_sets(batch: &mut Batch, table: &str, meters: Meters) {
    const INTEGER: u32 = 4;
    const IPV4: u32 = 7;
    const IPV6: u32 = 8;
    let mut id = 1000;
    let mut set = |name: &str, (kind, length): (u32, u32), forget: Option<u64>| {
        id += 1;
        let timeout = if forget.is_some() {
            nft::SET_TIMEOUT
        } else {
            0
        };
        batch
            .message(nft::NEWSET, flag::CREATE, &[nft::NFPROTO_INET, 0, 0, 0])
            .put_text(nft::SET_TABLE, table)
            .put_text(nft::SET_NAME, name)
            .put_be32(nft::SET_FLAGS, nft::SET_EVAL | timeout)
            .put_be32(nft::SET_KEY_TYPE, kind)
            .put_be32(nft::SET_KEY_LEN, length)
            .put_be32(nft::SET_ID, id)
            .nest(nft::SET_DESC, |desc| {
                desc.put_be32(nft::SET_DESC_SIZE, MAX_SOURCES);
            });
        if let Some(forget) = forget {
            batch.put(nft::SET_TIMEOUT_MS, &forget.to_be_bytes());
        }
    };
    if meters.connections.is_some() {
        for ((_, name), key) in CONNECTIONS.into_iter().zip([(IPV4, 4), (IPV6, 16)]) {
            set(name, key, None);
        }
    }
    if meters.all_connections.is_some() {
        set(ALL_CONNECTIONS, (INTEGER, 4), None);
    }
    if meters.rates {
        for ((_, name), key) in API.into_iter().zip([(IPV4, 4), (IPV6, 16)]) {
            set(name, key, Some(FORGET_MS));
        }
        set(QUESTIONS, (IPV4, 4), Some(FORGET_MS));
    }
}

/// Drops what begins a connection of a pod that has too many, or where all pods
/// together have too many.
pub(super) fn write_connections(
    batch: &mut Batch,
    table: &str,
    bridge: &str,
    meters: Meters,
    in_chain: &str,
) {
    let Some(most) = meters.connections else {
        return;
    };
    for (like, set) in CONNECTIONS {
        rule(batch, table, in_chain, |r| {
            r.came_by(Match::In, bridge)
                .version(family_of(like))
                .state(NEW)
                .connections_over(like, set, most)
                .verdict(&PacketVerdict::Drop);
        });
    }
    if let Some(all) = meters.all_connections {
        rule(batch, table, in_chain, |r| {
            r.came_by(Match::In, bridge)
                .state(NEW)
                .group_over(GROUPS, ALL_CONNECTIONS, all / GROUPS)
                .verdict(&PacketVerdict::Drop);
        });
    }
}

/// Drops what begins a connection to Strata on another host, beyond the rates.
pub(super) fn write_api(
    batch: &mut Batch,
    table: &str,
    bridge: &str,
    meters: Meters,
    in_chain: &str,
) {
    if !meters.rates {
        return;
    }
    let begins = |r: &mut Rule<'_>, like| {
        r.came_by(Match::In, bridge)
            .version(family_of(like))
            .state(NEW)
            .protocol(TCP)
            .wants_port_of(API_PORTS);
    };
    for (like, set) in API {
        rule(batch, table, in_chain, |r| {
            begins(r, like);
            r.rate_over(like, set, API_RATE)
                .verdict(&PacketVerdict::Drop);
        });
    }
    rule(batch, table, in_chain, |r| {
        r.came_by(Match::In, bridge)
            .state(NEW)
            .protocol(TCP)
            .wants_port_of(API_PORTS)
            .all_over(API_RATE_OF_ALL)
            .verdict(&PacketVerdict::Drop);
    });
}

/// Drops queries for names beyond the rate, before they are in the queue that
/// all pods share.
pub(super) fn write_questions(batch: &mut Batch, facts: &TableFacts, in_chain: &str) {
    let resolver = (facts.subnet.gateway(), facts.names_port);
    let table = facts.tag.table();
    write_question_meter(batch, &table, in_chain, facts.meters, resolver);
}

fn write_question_meter(
    batch: &mut Batch,
    table: &str,
    in_chain: &str,
    meters: Meters,
    (gateway, port): (Ipv4Addr, u16),
) {
    if !meters.rates {
        return;
    }
    rule(batch, table, in_chain, |r| {
        r.version(family_of(V4))
            .address(PacketSide::Destination, Match::In, (gateway.into(), 32))
            .protocol(UDP)
            .wants_port(port)
            .rate_over(V4, QUESTIONS, QUESTION_RATE)
            .verdict(&PacketVerdict::Drop);
    });
}

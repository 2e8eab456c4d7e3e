//! The table of the bridge's frames. What goes from one pod to another of the
//! same node is switched, not routed: no rule for packets sees it. So the same
//! check, which project may reach which, is made here for the port that a frame
//! comes in by and the one that it goes out by. Nothing in the frame is
//! trusted, and every protocol is covered, broadcasts included: those go out by
//! each port on their own.
//!
//! ```text
//! arriving     bridge, prerouting  of a port of an endpoint: what has its own
//!                                  addresses, and neither routes nor leases
//! forward      bridge              what was published passes; else who sends
//!                                  decides on the chain
//! from-N       from forward        project N: what it may reach, and answer
//! answers      from from-N         anything but what begins a TCP connection,
//!                                  or could: the bridge puts no fragments
//!                                  together
//! ```
//!
//! A guest sends any frame it likes. What it claims of itself, by ARP, neighbour
//! discovery or the source of a packet, is compared with what its port was
//! given, so that it cannot pass for a pod of a project that it may reach. What
//! is neither IP nor ARP passes no port: tags of VLANs would hide the rest.
//!
//! Frames have no connection state here, so that between two projects of one
//! node of which one allows the other, datagrams pass both ways.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{Batch, nft};

use super::chains::{LINK_LOCAL, PASSED_ON, chain_of};
use super::elements::{SetName, chain_of_project};
use super::expression::{Match, PacketSide, PacketVerdict, Rule, rule_of};

const FAMILY: u8 = nft::NFPROTO_BRIDGE;
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// To where servers of leases send: DHCP, and DHCPv6.
const LEASE_CLIENTS: [(u16, u16); 2] = [(IPV4, 68), (IPV6, 546)];
const LEASES: u16 = 67;
const UDP: u8 = 17;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Writes all chains and their rules but for those of projects.
pub(super) fn write(batch: &mut Batch, table: &str) {
    chain_of(batch, FAMILY, table, "answers", None);
    write_arriving(batch, table);
    // After br_netfilter, which has the rules for packets run first.
    let forward = Some(("filter", 2, 100));
    chain_of(batch, FAMILY, table, "forward", forward);
    rule_of(batch, FAMILY, (table, "forward"), |r| {
        r.marked(PASSED_ON)
            .mark(PASSED_ON, false)
            .verdict(&PacketVerdict::Accept);
    });
    rule_of(batch, FAMILY, (table, "forward"), |r| {
        r.decided_by_port(SetName::BridgeFrom.text());
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.opens_connection().verdict(&PacketVerdict::Drop);
    });
    // The receiver puts fragments together, of which the first may end before
    // the flags of TCP, or before TCP. No TCP reply is sent in such.
    let accept = &PacketVerdict::Accept;
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.carries(Match::In, IPV4)
            .is_part_of_tcp()
            .verdict(&PacketVerdict::Drop);
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.carries(Match::In, IPV4).shows_flags().verdict(accept);
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.carries(Match::In, IPV6)
            .is_tcp_at_once()
            .shows_flags()
            .verdict(accept);
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.is_not_tcp().verdict(accept);
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.carries(Match::In, ARP).verdict(accept);
    });
    rule_of(batch, FAMILY, (table, "answers"), |r| {
        r.verdict(&PacketVerdict::Drop);
    });
}

/// Writes the chain that compares what a frame says of its sender.
fn write_arriving(batch: &mut Batch, table: &str) {
    const CHAIN: &str = "arriving";
    let [pins4, pins6] = [SetName::BridgePins4.text(), SetName::BridgePins6.text()];
    // Before br_netfilter, which takes packets out of the bridge.
    chain_of(batch, FAMILY, table, CHAIN, Some(("filter", 0, -300)));
    let mut rule = |fill: &dyn Fn(&mut Rule<'_>)| rule_of(batch, FAMILY, (table, CHAIN), fill);
    rule(&|r| {
        r.came_by_one_of(Match::NotIn, SetName::BridgePorts.text())
            .verdict(&PacketVerdict::Accept);
    });
    rule(&|r| {
        r.carries(Match::In, ARP)
            .arp_of_ipv4(Match::NotIn)
            .verdict(&PacketVerdict::Drop);
    });
    rule(&|r| {
        r.carries(Match::In, ARP)
            .arp_probe()
            .verdict(&PacketVerdict::Accept);
    });
    rule(&|r| {
        r.carries(Match::In, ARP)
            .arp_sender_pinned(Match::In, pins4)
            .verdict(&PacketVerdict::Accept);
    });
    for (kind, port) in LEASE_CLIENTS {
        rule(&|r| {
            r.carries(Match::In, kind)
                .protocol(UDP)
                .wants_port(port)
                .verdict(&PacketVerdict::Drop);
        });
    }
    rule(&|r| {
        r.carries(Match::In, IPV4)
            .sender_pinned(Match::In, pins4, V4)
            .verdict(&PacketVerdict::Accept);
    });
    rule(&|r| {
        // A VM that requests its address has none yet.
        r.carries(Match::In, IPV4)
            .address(PacketSide::Source, Match::In, (V4, 32))
            .protocol(UDP)
            .wants_port(LEASES)
            .verdict(&PacketVerdict::Accept);
    });
    for kind in [ROUTER_ADVERTISEMENT, REDIRECT] {
        rule(&|r| {
            r.carries(Match::In, IPV6)
                .icmp6(kind)
                .verdict(&PacketVerdict::Drop);
        });
    }
    rule(&|r| {
        r.carries(Match::In, IPV6)
            .icmp6(NEIGHBOUR_ADVERTISEMENT)
            .advertised_pinned(Match::In, pins6)
            .verdict(&PacketVerdict::Accept);
    });
    rule(&|r| {
        r.carries(Match::In, IPV6)
            .icmp6(NEIGHBOUR_ADVERTISEMENT)
            .advertises_link_local()
            .verdict(&PacketVerdict::Accept);
    });
    rule(&|r| {
        r.carries(Match::In, IPV6)
            .icmp6(NEIGHBOUR_ADVERTISEMENT)
            .verdict(&PacketVerdict::Drop);
    });
    rule(&|r| {
        r.carries(Match::In, IPV6)
            .sender_pinned(Match::In, pins6, V6)
            .verdict(&PacketVerdict::Accept);
    });
    for block in [LINK_LOCAL, (V6, 128)] {
        rule(&|r| {
            r.carries(Match::In, IPV6)
                .address(PacketSide::Source, Match::In, block)
                .verdict(&PacketVerdict::Accept);
        });
    }
    rule(&|r| r.verdict(&PacketVerdict::Drop));
}

/// Writes the chain that filters what a project sends.
pub(super) fn write_project(batch: &mut Batch, table: &str, project: u32) {
    let name = chain_of_project(project);
    chain_of(batch, FAMILY, table, &name, None);
    rule_of(batch, FAMILY, (table, &name), |r| {
        r.reaches_port(project, SetName::BridgeReach.text())
            .verdict(&PacketVerdict::Accept);
    });
    rule_of(batch, FAMILY, (table, &name), |r| {
        r.reaches_port(project, SetName::BridgeAnswers.text())
            .verdict(&PacketVerdict::Jump("answers"));
    });
    rule_of(batch, FAMILY, (table, &name), |r| {
        r.leaves_by_one_of(SetName::BridgePorts.text())
            .verdict(&PacketVerdict::Drop);
    });
}

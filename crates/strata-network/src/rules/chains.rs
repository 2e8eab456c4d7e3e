//! The rules. They are the same for every run but for names and subnets:
//!
//! ```text
//! arriving     prerouting, first   VXLAN from peers without a key only, and none from pods;
//!                                  no spoofed sources from pods, nothing from
//!                                  pods to 127.0.0.0/8 or to metadata services
//! in           prerouting, nat     names to our server, published ports
//! out          output, nat         the same for what the host itself sends
//! publish                          the lookup in the maps
//! leaving      postrouting, nat    masquerade: to the world, and what would
//!                                  otherwise find a short cut back
//! host         input               what pods may reach of the host itself
//! through      forward             from outside only what is published
//! api          from through        to Strata on other hosts only so fast
//! projects     from through        between projects only what is allowed
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::endpoint::{IPV6_RANGE, ipv6_of};
use crate::link::family_of;
use crate::netlink::{Batch, flag, nft, route};

use super::elements::{SetName, chain_of_project};
use super::expression::{Match, PacketSide, PacketVerdict, Rule, rule};
use super::meters;
use super::table::{DEFAULT_PROJECT_NUMBER, TableFacts};

const ESTABLISHED_OR_RELATED: u32 = 1 << 1 | 1 << 2;
const LOOPBACK: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8);
pub(super) const LINK_LOCAL: (IpAddr, u8) =
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10);
const NOBODY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const MACHINES: [(IpAddr, SetName); 2] = [(V4, SetName::Machines4), (NOBODY, SetName::Machines6)];
/// Where clouds answer for the metadata of their machines, and for credentials:
/// all link-local addresses, and those of single clouds.
const METADATA: [(IpAddr, u8); 6] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    // Azure, Alibaba Cloud, Oracle Cloud.
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 32),
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), 32),
    (IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)), 32),
    // AWS, Google Cloud.
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
        128,
    ),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
        128,
    ),
];
/// The usual ports of VXLAN: of nodes, and of clusters.
const OVERLAY: u16 = crate::NetworkConfig::OVERLAY_PORT;
const CLUSTER_OVERLAY: u16 = 8472;
/// The bit of a packet's mark that marks for the table of frames: it was sent
/// to a port that the host passes on. With br_netfilter such a packet is turned
/// around within the bridge, and looks there like one between two pods. Pods
/// cannot set it: marks do not leave a network namespace.
pub(super) const PASSED_ON: u32 = 1 << 28;
/// What the names of all our interfaces begin with.
const INTERFACES: &str = "st-";
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const NAMES: u16 = 53;
const LEASES: u16 = 67;

/// Where a chain hangs: kind, hook, priority.
pub(super) type Hook = (&'static str, u32, i32);

const HOOKS: [(&str, Option<Hook>); 11] = [
    ("api", None),
    ("publish", None),
    ("from-pods", None),
    ("projects", None),
    ("projects6", None),
    ("host", Some(("filter", 1, 0))),
    ("arriving", Some(("filter", 0, -300))),
    ("in", Some(("nat", 0, -100))),
    ("out", Some(("nat", 3, -100))),
    ("leaving", Some(("nat", 4, 100))),
    ("through", Some(("filter", 2, 0))),
];

/// Writes all chains and their rules.
pub(super) fn write(batch: &mut Batch, facts: &TableFacts) {
    let table = facts.tag.table();
    for (name, hook) in HOOKS {
        chain(batch, &table, name, hook);
    }
    let mut writer = Writer {
        batch,
        table: &table,
        bridge: facts.tag.bridge(),
        overlays: [facts.tag.overlay(), facts.tag.wireguard()],
        facts,
    };
    writer.publish();
    writer.arriving();
    writer.host();
    writer.in_and_out();
    writer.leaving();
    writer.through();
    writer.projects();
}

pub(super) fn chain(batch: &mut Batch, table: &str, name: &str, hook: Option<Hook>) {
    chain_of(batch, nft::NFPROTO_INET, table, name, hook);
}

/// The same in a table of another family.
pub(super) fn chain_of(batch: &mut Batch, family: u8, table: &str, name: &str, hook: Option<Hook>) {
    batch
        .message(nft::NEWCHAIN, flag::CREATE, &[family, 0, 0, 0])
        .put_text(nft::CHAIN_TABLE, table)
        .put_text(nft::CHAIN_NAME, name);
    if let Some((kind, number, priority)) = hook {
        batch
            .nest(nft::CHAIN_HOOK, |hook| {
                hook.put_be32(nft::HOOK_HOOKNUM, number)
                    .put(nft::HOOK_PRIORITY, &priority.to_be_bytes());
            })
            .put_text(nft::CHAIN_TYPE, kind);
    }
}

/// Writes the chain that filters what a project sends.
pub(super) fn write_project(batch: &mut Batch, table: &str, project: u32) {
    let name = chain_of_project(project);
    chain(batch, table, &name, None);
    for (like, reach, owned) in [
        (V4, SetName::Reach4, SetName::Owned4),
        (NOBODY, SetName::Reach6, SetName::Owned6),
    ] {
        rule(batch, table, &name, |r| {
            r.version(family_of(like))
                .reaches_address(project, like, reach.text())
                .verdict(&PacketVerdict::Return);
        });
        // Of what is not known, and so the default project's, that one alone
        // may reach.
        rule(batch, table, &name, |r| {
            r.version(family_of(like));
            if project == DEFAULT_PROJECT_NUMBER {
                r.address_like(PacketSide::Destination, Match::In, owned.text(), like);
            }
            r.verdict(&PacketVerdict::Drop);
        });
    }
}

struct Writer<'a> {
    batch: &'a mut Batch,
    table: &'a str,
    bridge: String,
    /// The devices by which other nodes are reached.
    overlays: [String; 2],
    facts: &'a TableFacts,
}

impl Writer<'_> {
    fn rule(&mut self, chain: &str, fill: impl FnOnce(&mut Rule<'_>)) {
        rule(self.batch, self.table, chain, fill);
    }

    fn publish(&mut self) {
        let v4 = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        for (set, like, by_address) in [
            (SetName::At4, v4, true),
            (SetName::Any4, v4, false),
            (SetName::At6, NOBODY, true),
            (SetName::Any6, NOBODY, false),
        ] {
            self.rule("publish", |r| {
                r.publish(set.text(), like, by_address);
            });
        }
    }

    fn arriving(&mut self) {
        let (bridge, overlays) = (self.bridge.clone(), self.overlays.clone());
        let facts = self.facts;
        let ours6 = (
            IpAddr::V6(ipv6_of(facts.subnet, facts.subnet.network())),
            64,
        );
        let v4 = |r: &mut Rule<'_>| {
            r.came_by(Match::In, &bridge).version(route::AF_INET);
        };
        let v6 = |r: &mut Rule<'_>| {
            r.came_by(Match::In, &bridge).version(route::AF_INET6);
        };
        self.overlays();
        self.metadata();
        self.rule("arriving", |r| {
            v4(r);
            r.address(PacketSide::Destination, Match::In, LOOPBACK)
                .verdict(&PacketVerdict::Drop);
        });
        // An endpoint that passes for another would pass for one of its
        // project.
        self.rule("arriving", |r| {
            v4(r);
            r.subnet(PacketSide::Source, Match::In, facts.subnet)
                .pinned(Match::In, SetName::Pins4.text(), V4)
                .verdict(&PacketVerdict::Accept);
        });
        self.rule("arriving", |r| {
            // A VM that requests its address has none yet.
            v4(r);
            r.address(
                PacketSide::Source,
                Match::In,
                (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
            )
            .protocol(17)
            .wants_port(LEASES)
            .verdict(&PacketVerdict::Accept);
        });
        self.rule("arriving", |r| {
            v4(r);
            r.verdict(&PacketVerdict::Drop);
        });
        self.rule("arriving", |r| {
            v6(r);
            r.address(PacketSide::Source, Match::In, ours6)
                .pinned(Match::In, SetName::Pins6.text(), NOBODY)
                .verdict(&PacketVerdict::Accept);
        });
        for allowed in [LINK_LOCAL, (NOBODY, 128)] {
            self.rule("arriving", |r| {
                v6(r);
                r.address(PacketSide::Source, Match::In, allowed)
                    .verdict(&PacketVerdict::Accept);
            });
        }
        self.rule("arriving", |r| {
            v6(r);
            r.verdict(&PacketVerdict::Drop);
        });
        for overlay in &overlays {
            self.rule("arriving", |r| {
                r.came_by(Match::In, overlay)
                    .version(route::AF_INET)
                    .subnet(PacketSide::Source, Match::NotIn, facts.range)
                    .verdict(&PacketVerdict::Drop);
            });
        }
    }

    /// Packets of an overlay carry any address inside, so the sender is what
    /// counts: ours come from its peers alone, and from those alone with which
    /// nothing is encrypted. WireGuard drops by itself what is not of a peer's
    /// key. Pods send none, to any destination: what they sent to another node
    /// would arrive there under the address of this one, which is a peer.
    /// Machines may be nodes, and send.
    ///
    /// This comes before the addresses of pods are let through.
    fn overlays(&mut self) {
        let facts = self.facts;
        let bridge = self.bridge.clone();
        self.rule("arriving", |r| {
            r.version(route::AF_INET)
                .overlay(facts.overlay_port, facts.overlay_id())
                .address_in(PacketSide::Source, Match::NotIn, SetName::Peers.text())
                .verdict(&PacketVerdict::Drop);
        });
        let mut ports = vec![facts.overlay_port, OVERLAY, CLUSTER_OVERLAY];
        ports.sort_unstable();
        ports.dedup();
        for (like, machines) in MACHINES {
            for port in &ports {
                self.rule("arriving", |r| {
                    r.came_by(Match::In, &bridge)
                        .version(family_of(like))
                        .protocol(17)
                        .wants_port(*port)
                        .address_like(PacketSide::Source, Match::NotIn, machines.text(), like)
                        .verdict(&PacketVerdict::Drop);
                });
            }
        }
    }

    /// The metadata service of a cloud, which has credentials, is not for pods.
    fn metadata(&mut self) {
        if self.facts.metadata {
            return;
        }
        let bridge = self.bridge.clone();
        for (address, prefix) in METADATA {
            self.rule("arriving", |r| {
                r.came_by(Match::In, &bridge)
                    .version(family_of(address))
                    .address(PacketSide::Destination, Match::In, (address, prefix))
                    .verdict(&PacketVerdict::Drop);
            });
        }
    }

    /// Of the host itself pods reach names and leases, and what the
    /// configuration allows. Machines reach all: they follow its server.
    fn host(&mut self) {
        let (bridge, [vxlan, wireguard]) = (self.bridge.clone(), self.overlays.clone());
        for inside in [&bridge, &vxlan, &wireguard] {
            self.rule("host", |r| {
                r.came_by(Match::In, inside)
                    .verdict(&PacketVerdict::Jump("from-pods"));
            });
        }
        let chain = "from-pods";
        // Before what is established: a question after an answer is.
        meters::write_questions(self.batch, self.facts, chain);
        let meters = self.facts.meters;
        meters::write_connections(self.batch, self.table, &bridge, meters, chain);
        self.rule(chain, |r| {
            r.state(ESTABLISHED_OR_RELATED)
                .verdict(&PacketVerdict::Accept);
        });
        for protocol in [ICMP, ICMP6] {
            self.rule(chain, |r| {
                r.protocol(protocol).verdict(&PacketVerdict::Accept);
            });
        }
        let gateway = IpAddr::V4(self.facts.subnet.gateway());
        let names = self.facts.names_port;
        for protocol in [6, 17] {
            self.rule(chain, |r| {
                r.version(route::AF_INET)
                    .address(PacketSide::Destination, Match::In, (gateway, 32))
                    .protocol(protocol)
                    .wants_port(names)
                    .verdict(&PacketVerdict::Accept);
            });
            self.rule(chain, |r| {
                r.protocol(protocol)
                    .wants_port_of(SetName::HostPorts.text())
                    .verdict(&PacketVerdict::Accept);
            });
        }
        self.rule(chain, |r| {
            r.version(route::AF_INET)
                .protocol(17)
                .wants_port(LEASES)
                .verdict(&PacketVerdict::Accept);
        });
        for (like, machines) in MACHINES {
            self.rule(chain, |r| {
                r.version(family_of(like))
                    .address_like(PacketSide::Source, Match::In, machines.text(), like)
                    .verdict(&PacketVerdict::Accept);
            });
        }
        self.rule(chain, |r| r.verdict(&PacketVerdict::Drop));
    }

    /// Between projects passes what is allowed, what answers it, and what was
    /// published on the host. The sender decides on the chain. An address of
    /// which nothing is known is one of the default project: what is another
    /// project's is closed to it.
    fn projects(&mut self) {
        for (like, from, owned) in [
            (V4, SetName::From4, SetName::Owned4),
            (NOBODY, SetName::From6, SetName::Owned6),
        ] {
            let chain = if like == V4 { "projects" } else { "projects6" };
            self.rule(chain, |r| {
                r.state(ESTABLISHED_OR_RELATED)
                    .verdict(&PacketVerdict::Return);
            });
            self.rule(chain, |r| {
                r.passed_on().verdict(&PacketVerdict::Return);
            });
            self.rule(chain, |r| {
                r.decided_by_address(PacketSide::Source, like, from.text());
            });
            self.rule(chain, |r| {
                r.address_like(PacketSide::Destination, Match::In, owned.text(), like)
                    .verdict(&PacketVerdict::Drop);
            });
        }
    }

    fn in_and_out(&mut self) {
        let gateway = IpAddr::V4(self.facts.subnet.gateway());
        let names = self.facts.names_port;
        for chain in ["in", "out"] {
            for protocol in [6, 17] {
                self.rule(chain, |r| {
                    r.version(route::AF_INET)
                        .address(PacketSide::Destination, Match::In, (gateway, 32))
                        .protocol(protocol)
                        .wants_port(NAMES)
                        .send_to(gateway, names);
                });
            }
            self.rule(chain, |r| {
                r.is_for_this_host()
                    .verdict(&PacketVerdict::Jump("publish"));
            });
        }
    }

    fn leaving(&mut self) {
        let facts = self.facts;
        let bridge = self.bridge.clone();
        let ours6 = (
            IpAddr::V6(ipv6_of(facts.subnet, facts.subnet.network())),
            64,
        );
        self.rule("leaving", |r| {
            r.version(route::AF_INET)
                .subnet(PacketSide::Source, Match::In, facts.subnet)
                .subnet(PacketSide::Destination, Match::NotIn, facts.range)
                .masquerade();
        });
        self.rule("leaving", |r| {
            // The other pod would answer directly, under a wrong address.
            r.leaves_by(Match::In, &bridge)
                .version(route::AF_INET)
                .subnet(PacketSide::Source, Match::In, facts.subnet)
                .passed_on()
                .masquerade();
        });
        self.rule("leaving", |r| {
            r.leaves_by(Match::In, &bridge)
                .version(route::AF_INET)
                .address(PacketSide::Source, Match::In, LOOPBACK)
                .masquerade();
        });
        self.rule("leaving", |r| {
            let (range, prefix) = IPV6_RANGE;
            r.version(route::AF_INET6)
                .address(PacketSide::Source, Match::In, ours6)
                .address(
                    PacketSide::Destination,
                    Match::NotIn,
                    (IpAddr::V6(range), prefix),
                )
                .masquerade();
        });
        self.rule("leaving", |r| {
            r.leaves_by(Match::In, &bridge)
                .version(route::AF_INET6)
                .address(PacketSide::Source, Match::In, ours6)
                .passed_on()
                .masquerade();
        });
    }

    /// What is for another node leaves by an overlay or not at all: without a
    /// route to that node it would take the way out of the host, in the clear.
    /// Runs side by side have one range, so any device of a run is fine.
    fn outside_overlay(&mut self) {
        let (bridge, range) = (self.bridge.clone(), self.facts.range);
        let all6 = (IpAddr::V6(IPV6_RANGE.0), IPV6_RANGE.1);
        for block in [(IpAddr::V4(range.network()), range.prefix()), all6] {
            self.rule("through", |r| {
                r.came_by(Match::In, &bridge)
                    .version(family_of(block.0))
                    .address(PacketSide::Destination, Match::In, block)
                    .leaves_by_prefix(Match::NotIn, INTERFACES)
                    .verdict(&PacketVerdict::Drop);
            });
        }
    }

    fn through(&mut self) {
        let (bridge, [vxlan, wireguard]) = (self.bridge.clone(), self.overlays.clone());
        let meters = self.facts.meters;
        meters::write_connections(self.batch, self.table, &bridge, meters, "through");
        self.rule("through", |r| {
            // They forward because of us; to each other they did not before.
            r.between_interfaces(SetName::Uplinks.text())
                .verdict(&PacketVerdict::Drop);
        });
        self.rule("through", |r| {
            r.came_by(Match::In, &bridge)
                .leaves_by(Match::In, &bridge)
                .passed_on()
                .mark(PASSED_ON, true);
        });
        let range = self.facts.range;
        self.outside_overlay();
        // Between pods these ports are theirs.
        let inside6 = (IpAddr::V6(IPV6_RANGE.0), IPV6_RANGE.1);
        for inside in [(IpAddr::V4(range.network()), range.prefix()), inside6] {
            self.rule("through", |r| {
                r.came_by(Match::In, &bridge)
                    .version(family_of(inside.0))
                    .address(PacketSide::Destination, Match::NotIn, inside)
                    .verdict(&PacketVerdict::Jump("api"));
            });
        }
        meters::write_api(self.batch, self.table, &bridge, meters, "api");
        self.rule("through", |r| {
            r.version(route::AF_INET)
                .subnet(PacketSide::Source, Match::In, range)
                .subnet(PacketSide::Destination, Match::In, range)
                .verdict(&PacketVerdict::Jump("projects"));
        });
        self.rule("through", |r| {
            let all = (IpAddr::V6(IPV6_RANGE.0), IPV6_RANGE.1);
            r.version(route::AF_INET6)
                .address(PacketSide::Source, Match::In, all)
                .address(PacketSide::Destination, Match::In, all)
                .verdict(&PacketVerdict::Jump("projects6"));
        });
        for inside in [&bridge, &vxlan, &wireguard] {
            self.rule("through", |r| {
                r.came_by(Match::In, inside).verdict(&PacketVerdict::Accept);
            });
        }
        self.rule("through", |r| {
            r.leaves_by(Match::NotIn, &bridge)
                .verdict(&PacketVerdict::Accept);
        });
        self.rule("through", |r| {
            r.state(ESTABLISHED_OR_RELATED)
                .verdict(&PacketVerdict::Accept);
        });
        self.rule("through", |r| {
            r.passed_on().verdict(&PacketVerdict::Accept);
        });
        self.rule("through", |r| {
            r.verdict(&PacketVerdict::Drop);
        });
    }
}

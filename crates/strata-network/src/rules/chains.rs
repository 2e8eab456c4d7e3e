//! The rules. They are the same for every run but for names and subnets:
//!
//! ```text
//! arriving     prerouting, first   no spoofed sources from pods, nothing from
//!                                  pods to 127.0.0.0/8, overlay from peers only
//! in           prerouting, nat     names to our server, published ports
//! out          output, nat         the same for what the host itself sends
//! publish                          the lookup in the maps
//! leaving      postrouting, nat    masquerade: to the world, and what would
//!                                  otherwise find a short cut back
//! through      forward             from outside only what is published
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::endpoint::{IPV6_RANGE, ipv6_of};
use crate::netlink::{Batch, flag, nft, route};

use super::elements::SetName;
use super::expression::{Is, Rule, Side, Verdict, rule};
use super::table::TableFacts;

const ESTABLISHED_OR_RELATED: u32 = 1 << 1 | 1 << 2;
const LOOPBACK: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8);
const LINK_LOCAL: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10);
const NOBODY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const NAMES: u16 = 53;
const LEASES: u16 = 67;

/// Where a chain hangs: kind, hook, priority.
pub(super) type Hook = (&'static str, u32, i32);

const HOOKS: [(&str, Option<Hook>); 6] = [
    ("publish", None),
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
        overlay: facts.tag.overlay(),
        facts,
    };
    writer.publish();
    writer.arriving();
    writer.in_and_out();
    writer.leaving();
    writer.through();
}

/// Makes one chain.
pub(super) fn chain(batch: &mut Batch, table: &str, name: &str, hook: Option<Hook>) {
    batch
        .message(nft::NEWCHAIN, flag::CREATE, &[nft::NFPROTO_INET, 0, 0, 0])
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

struct Writer<'a> {
    batch: &'a mut Batch,
    table: &'a str,
    bridge: String,
    overlay: String,
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
        let (bridge, overlay) = (self.bridge.clone(), self.overlay.clone());
        let facts = self.facts;
        let ours6 = (
            IpAddr::V6(ipv6_of(facts.subnet, facts.subnet.network())),
            64,
        );
        let v4 = |r: &mut Rule<'_>| {
            r.came_by(Is::In, &bridge).version(route::AF_INET);
        };
        let v6 = |r: &mut Rule<'_>| {
            r.came_by(Is::In, &bridge).version(route::AF_INET6);
        };
        self.rule("arriving", |r| {
            v4(r);
            r.address(Side::Destination, Is::In, LOOPBACK)
                .verdict(&Verdict::Drop);
        });
        self.rule("arriving", |r| {
            v4(r);
            r.subnet(Side::Source, Is::In, facts.subnet)
                .verdict(&Verdict::Accept);
        });
        self.rule("arriving", |r| {
            // A VM that asks for its address has none yet.
            v4(r);
            r.address(
                Side::Source,
                Is::In,
                (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
            )
            .protocol(17)
            .wants_port(LEASES)
            .verdict(&Verdict::Accept);
        });
        self.rule("arriving", |r| {
            v4(r);
            r.verdict(&Verdict::Drop);
        });
        for allowed in [ours6, LINK_LOCAL, (NOBODY, 128)] {
            self.rule("arriving", |r| {
                v6(r);
                r.address(Side::Source, Is::In, allowed)
                    .verdict(&Verdict::Accept);
            });
        }
        self.rule("arriving", |r| {
            v6(r);
            r.verdict(&Verdict::Drop);
        });
        self.rule("arriving", |r| {
            r.came_by(Is::In, &overlay)
                .version(route::AF_INET)
                .subnet(Side::Source, Is::NotIn, facts.range)
                .verdict(&Verdict::Drop);
        });
        self.rule("arriving", |r| {
            r.version(route::AF_INET)
                .overlay(facts.overlay_port, facts.overlay_id())
                .address_in(Side::Source, Is::NotIn, SetName::Peers.text())
                .verdict(&Verdict::Drop);
        });
    }

    fn in_and_out(&mut self) {
        let gateway = IpAddr::V4(self.facts.subnet.gateway());
        let names = self.facts.names_port;
        for chain in ["in", "out"] {
            for protocol in [6, 17] {
                self.rule(chain, |r| {
                    r.version(route::AF_INET)
                        .address(Side::Destination, Is::In, (gateway, 32))
                        .protocol(protocol)
                        .wants_port(NAMES)
                        .send_to(gateway, names);
                });
            }
            self.rule(chain, |r| {
                r.is_for_this_host().verdict(&Verdict::Jump("publish"));
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
                .subnet(Side::Source, Is::In, facts.subnet)
                .subnet(Side::Destination, Is::NotIn, facts.range)
                .masquerade();
        });
        self.rule("leaving", |r| {
            // The other pod would answer directly, under a wrong address.
            r.leaves_by(Is::In, &bridge)
                .version(route::AF_INET)
                .subnet(Side::Source, Is::In, facts.subnet)
                .passed_on()
                .masquerade();
        });
        self.rule("leaving", |r| {
            r.leaves_by(Is::In, &bridge)
                .version(route::AF_INET)
                .address(Side::Source, Is::In, LOOPBACK)
                .masquerade();
        });
        self.rule("leaving", |r| {
            let (range, prefix) = IPV6_RANGE;
            r.version(route::AF_INET6)
                .address(Side::Source, Is::In, ours6)
                .address(Side::Destination, Is::NotIn, (IpAddr::V6(range), prefix))
                .masquerade();
        });
        self.rule("leaving", |r| {
            r.leaves_by(Is::In, &bridge)
                .version(route::AF_INET6)
                .address(Side::Source, Is::In, ours6)
                .passed_on()
                .masquerade();
        });
    }

    fn through(&mut self) {
        let (bridge, overlay) = (self.bridge.clone(), self.overlay.clone());
        self.rule("through", |r| {
            // They forward because of us; to each other they did not before.
            r.between_interfaces(SetName::Uplinks.text())
                .verdict(&Verdict::Drop);
        });
        for inside in [&bridge, &overlay] {
            self.rule("through", |r| {
                r.came_by(Is::In, inside).verdict(&Verdict::Accept);
            });
        }
        self.rule("through", |r| {
            r.leaves_by(Is::NotIn, &bridge).verdict(&Verdict::Accept);
        });
        self.rule("through", |r| {
            r.state(ESTABLISHED_OR_RELATED).verdict(&Verdict::Accept);
        });
        self.rule("through", |r| {
            r.passed_on().verdict(&Verdict::Accept);
        });
        self.rule("through", |r| {
            r.verdict(&Verdict::Drop);
        });
    }
}

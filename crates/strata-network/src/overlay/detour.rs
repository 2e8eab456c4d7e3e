//! The way to the node whose network this one is in. A nested node has its
//! uplink in the subnet of its host's pods: a route to that subnet by the
//! overlay would replace the uplink's own, and with it the way to the server,
//! to names and to the underlay of the overlay itself.
//!
//! So such a route is in a table apart, which only packets of this node's own
//! subnet are looked up in. What the node sends itself, the overlay's outer
//! packets among it, goes by its uplink as before.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::PeerPlan;
use crate::Subnet;
use crate::endpoint::ipv6_of;
use crate::error::{Result, file, kernel};
use crate::link::{self, family_of, octets};
use crate::netlink::{Batch, Socket, flag, route};
use crate::network::Inner;

/// In which order rules are looked at: before that of the main table.
const PRIORITY: u32 = 30_000;
/// What the numbers of our tables begin with.
const TABLES: u32 = 0x5300_0000;
/// Marks the rule of a subnet, so that it is found without its daemon.
const FILE: &str = "detour";

/// The table of a node. Subnets have 8 addresses at least.
fn table(own: Subnet) -> u32 {
    TABLES | ((own.network().to_bits() >> 3) & 0x00ff_ffff)
}

/// The subnets of peers that the host has an address in.
fn around(plan: &PeerPlan, addresses: &[std::net::Ipv4Addr]) -> BTreeSet<Subnet> {
    let subnets = plan.reached().map(|peer| peer.subnet);
    let within = |subnet: &Subnet| addresses.iter().any(|address| subnet.contains(*address));
    subnets.filter(within).collect()
}

impl Inner {
    /// The routing table for the way to a subnet.
    pub(super) fn routing_table(&self, subnet: Subnet) -> u32 {
        match self.state().around.contains(&subnet) {
            true => table(self.config.subnet),
            false => route::RT_TABLE_MAIN,
        }
    }

    /// Has the node's own packets looked up in their own table, where that is
    /// needed. Comes before the routes.
    pub(super) fn detour(&self, links: &mut Socket, wanted: &PeerPlan) -> Result<()> {
        let addresses = link::addresses_but(links, self.bridge.load(Ordering::Acquire))?;
        let around = around(wanted, &addresses);
        let needed = !around.is_empty();
        self.state().around = around;
        if !needed {
            return remove_detour(links, &self.config.state);
        }
        let path = self.config.state.join(FILE);
        let own = self.config.subnet;
        fs::write(&path, own.to_string()).map_err(file("write", &path))?;
        for source in sources(own, self.ipv6) {
            let mut batch = Batch::default();
            rule(
                &mut batch,
                route::NEWRULE,
                flag::CREATE | flag::EXCL,
                own,
                source,
            );
            match links.talk(&mut batch) {
                Err(error) if !error.is(Errno::EXIST) => {
                    return Err(kernel("add the rule for the host's subnet")(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Removes what [`Inner::detour`] has made. Idempotent; the routes go with
/// their device.
pub(crate) fn remove_detour(links: &mut Socket, state: &Path) -> Result<()> {
    let path = state.join(FILE);
    let Some(own) = fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse::<Subnet>().ok())
    else {
        return Ok(());
    };
    for source in sources(own, true) {
        let mut batch = Batch::default();
        rule(&mut batch, route::DELRULE, 0, own, source);
        match links.talk(&mut batch) {
            Err(e) if !e.is(Errno::NOENT) && !e.is(Errno::AFNOSUPPORT) => {
                return Err(kernel("remove the rule for the host's subnet")(e));
            }
            _ => {}
        }
    }
    fs::remove_file(&path).map_err(file("remove", &path))
}

/// The addresses of a node's own instances.
fn sources(own: Subnet, ipv6: bool) -> Vec<(IpAddr, u8)> {
    let v4 = (IpAddr::V4(own.network()), own.prefix());
    let v6 = (IpAddr::V6(ipv6_of(own, own.network())), 64);
    match ipv6 {
        true => vec![v4, v6],
        false => vec![v4],
    }
}

fn rule(batch: &mut Batch, kind: u16, flags: u16, own: Subnet, (from, prefix): (IpAddr, u8)) {
    let mut header = [0; route::RULE_HEADER];
    header[0] = family_of(from);
    header[2] = prefix;
    header[7] = route::FR_ACT_TO_TBL;
    batch.message(kind, flags, &header);
    batch.put(route::FRA_SRC, &octets(from));
    batch.put_u32(route::FRA_PRIORITY, PRIORITY);
    batch.put_u32(route::FRA_TABLE, table(own));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    #[test]
    fn only_a_subnet_that_the_host_is_in_has_a_detour() {
        let peer = |n: u8| {
            let subnet = format!("10.42.{n}.0/24").parse().unwrap();
            Peer::new(subnet, [10, 42, n, 1].into())
        };
        let plan = PeerPlan {
            plain: [peer(1), peer(2)].into(),
            ..PeerPlan::default()
        };
        let addresses = [[127, 0, 0, 1].into(), [10, 42, 2, 5].into()];
        assert_eq!(around(&plan, &addresses), [peer(2).subnet].into());
        assert!(around(&plan, &addresses[..1]).is_empty());
    }

    #[test]
    fn neighbouring_subnets_have_tables_of_their_own() {
        let of = |text: &str| table(text.parse().unwrap());
        assert_ne!(of("10.42.0.0/29"), of("10.42.0.8/29"));
        assert_ne!(of("10.42.0.0/24"), of("10.42.1.0/24"));
        assert_ne!(of("10.42.0.0/24"), of("10.43.0.0/24"));
    }
}

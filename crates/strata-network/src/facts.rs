//! What this host can do for the network, for diagnosis.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::forwarding;
use crate::netlink::{Batch, Family, Socket, flag, nft};
use crate::rules::{Meters, Table};

/// What was found. Nothing is changed to find out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkFacts {
    pub nftables: bool,
    /// Taps for VMs can be made.
    pub tun: bool,
    /// IPv6 is on for new interfaces.
    pub ipv6: bool,
    /// The host forwards IPv4 on every interface already.
    pub ip_forward: bool,
    /// IPv6 can be forwarded for single interfaces (Linux 6.17). Without it,
    /// and unless the host forwards IPv6 itself, ports published on IPv6
    /// answer to the host alone.
    pub ipv6_forwarding: bool,
    /// Bridged packets pass through iptables too (br_netfilter). A FORWARD
    /// policy of DROP there then stops what we let through; our table cannot
    /// overrule it.
    pub bridge_netfilter: bool,
    /// The kernel has tables of the old iptables in use; see above.
    pub iptables_in_use: bool,
    /// The kernel has WireGuard, or loads it as a module when it is needed, so
    /// the overlay can be encrypted.
    pub wireguard: bool,
    /// The kernel has nftables for the frames of bridges, which keep projects of
    /// one node apart.
    pub bridge_rules: bool,
    /// The kernel counts the connections of each pod.
    pub connection_limits: bool,
}

/// Looks at this host.
pub fn facts() -> NetworkFacts {
    let on = |path: &str| fs::read_to_string(path).is_ok_and(|value| value.trim() == "1");
    let listed = |path: &str| fs::read_to_string(path).is_ok_and(|text| !text.trim().is_empty());
    let (bridge_rules, connection_limits) = rules();
    NetworkFacts {
        bridge_rules,
        connection_limits,
        nftables: nftables_answers(),
        tun: Path::new("/dev/net/tun").exists(),
        ipv6: forwarding::has_ipv6(),
        ip_forward: on("/proc/sys/net/ipv4/ip_forward"),
        ipv6_forwarding: on("/proc/sys/net/ipv6/conf/all/forwarding")
            || Path::new("/proc/sys/net/ipv6/conf/all/force_forwarding").exists(),
        bridge_netfilter: on("/proc/sys/net/bridge/bridge-nf-call-iptables"),
        iptables_in_use: listed("/proc/net/ip_tables_names"),
        wireguard: has_wireguard(),
    }
}

/// Which rules the kernel takes. They are in a table that goes with the
/// transaction that makes it, so no packet meets them.
fn rules() -> (bool, bool) {
    let Ok(mut socket) = Socket::open(Family::Netfilter) else {
        return (false, false);
    };
    let name = "strata-facts";
    let meters = Meters::of(&mut socket, name, (None, None));
    let socket = &mut socket;
    let frames = Table { socket, name }.has_frames();
    (frames, meters.connections.is_some())
}

/// A query to the kernel would load the module, so its list is looked at first.
fn has_wireguard() -> bool {
    let release = rustix::system::uname();
    let dir = Path::new("/lib/modules").join(release.release().to_string_lossy().as_ref());
    let lists = |list: &str| {
        let text = fs::read_to_string(dir.join(list)).unwrap_or_default();
        let file = |line: &str| {
            let path = line.split(':').next().unwrap_or_default();
            path.rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with("wireguard.ko"))
        };
        text.lines().any(file)
    };
    lists("modules.dep") || lists("modules.builtin") || crate::wireguard::is_available()
}

fn nftables_answers() -> bool {
    let mut batch = Batch::default();
    batch.message(nft::GETTABLE, flag::DUMP, &[nft::NFPROTO_INET, 0, 0, 0]);
    Socket::open(Family::Netfilter).is_ok_and(|mut socket| socket.talk(&mut batch).is_ok())
}

//! The bridge: the gateway of all endpoints of the node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::anti_spoofing::pin_port;
use crate::endpoint::{Mac, ipv6_of};
use crate::error::{NetworkError, Result, kernel};
use crate::forwarding::set_own;
use crate::netlink::{Batch, Socket};
use crate::network::Inner;
use crate::{NetworkConfig, link};

/// What VXLAN over IPv4 puts around a packet: IP, UDP, VXLAN, Ethernet.
const VXLAN_OVERHEAD: u32 = 20 + 8 + 8 + 14;
/// What WireGuard over IPv4 puts around one: IP, UDP, its header, the tag.
const WIREGUARD_OVERHEAD: u32 = 20 + 8 + 16 + 16;
const ETHERNET: u32 = 1500;

/// The size of packets that the way out carries, less what the overlay adds.
pub(crate) fn usual_mtu(socket: &mut Socket, encrypted: bool) -> Result<u32> {
    // An address that is not in use, to look up the default route.
    let world = Ipv4Addr::new(192, 0, 2, 1);
    let way_out = link::way_to(socket, world)?;
    let links = link::all(socket)?;
    let carried = links
        .iter()
        .find(|link| Some(link.index) == way_out && link.name != "lo")
        .map_or(ETHERNET, |link| link.mtu);
    let overhead = match encrypted {
        true => WIREGUARD_OVERHEAD,
        false => VXLAN_OVERHEAD,
    };
    Ok(carried.saturating_sub(overhead).max(576))
}

/// Makes the bridge or repairs it, and gives its number.
pub(crate) fn ensure(
    socket: &mut Socket,
    config: &NetworkConfig,
    mtu: u32,
    ipv6: bool,
) -> Result<u32> {
    let name = config.tag.bridge();
    let gateway = config.subnet.gateway();
    if link::find(socket, &name)?.is_none() {
        let mut batch = Batch::default();
        link::add_bridge(&mut batch, &name, Mac::of(gateway));
        socket
            .talk(&mut batch)
            .map_err(kernel(format!("make the bridge {name}")))?;
    }
    let Some(bridge) = link::find(socket, &name)? else {
        return Err(NetworkError::BridgeGone(name));
    };
    set_own("ipv4", &name, "forwarding", "1")?;
    // Only so does what the host sends to its own 127.0.0.1 reach a pod.
    // Pods cannot use it the other way: the rules drop that on arrival.
    set_own("ipv4", &name, "route_localnet", "1")?;
    // No endpoint behind the bridge is a router.
    set_own("ipv4", &name, "accept_redirects", "0")?;
    let mut batch = Batch::default();
    if bridge.mtu != mtu {
        link::set_mtu(&mut batch, bridge.index, mtu);
    }
    link::set_up(&mut batch, bridge.index);
    link::add_address(
        &mut batch,
        bridge.index,
        IpAddr::V4(gateway),
        config.subnet.prefix(),
    );
    if ipv6 {
        set_own("ipv6", &name, "accept_ra", "0")?;
        set_own("ipv6", &name, "accept_redirects", "0")?;
        forward_ipv6(&name)?;
        let address = IpAddr::V6(ipv6_of(config.subnet, gateway));
        link::add_address(&mut batch, bridge.index, address, 64);
    }
    socket
        .talk(&mut batch)
        .map_err(kernel(format!("set up the bridge {name}")))?;
    Ok(bridge.index)
}

/// Forwarding of IPv6 for one interface alone is something new kernels have
/// (6.17). The old switch is for the whole host, and makes it drop its own
/// default route where that comes from router advertisements: that is never
/// used.
pub(crate) fn forward_ipv6(interface: &str) -> Result<()> {
    let switch = format!("/proc/sys/net/ipv6/conf/{interface}/force_forwarding");
    if Path::new(&switch).exists() {
        set_own("ipv6", interface, "force_forwarding", "1")?;
    }
    Ok(())
}

impl Inner {
    /// Makes the bridge again where it is gone, and its ports ports again.
    pub(crate) fn repair_bridge(&self) -> Result<()> {
        let _alone = self.topology.lock().unwrap_or_else(PoisonError::into_inner);
        let mut links = self.links();
        let bridge = ensure(&mut links, &self.config, self.mtu, self.ipv6)?;
        self.bridge.store(bridge, Ordering::Release);
        for link in link::all(&mut links)? {
            let ours =
                self.config.tag.port_index(&link.name).is_some() && !link.is_pending_removal();
            if ours && (link.master != Some(bridge) || !link.up) {
                let mut batch = Batch::default();
                link::join_bridge(&mut batch, &link.name, bridge, self.mtu);
                let joined = links.talk(&mut batch).map_err(kernel("join the bridge"));
                // One that goes away at this moment is not missed.
                let index = self.config.tag.port_index(&link.name).unwrap_or(0);
                let mac = Mac::of(self.config.subnet.at(index));
                if let Err(error) = joined.and_then(|_| pin_port(&mut links, &link, mac)) {
                    tracing::warn!(interface = link.name, %error, "interface not reattached to the bridge");
                }
            }
        }
        Ok(())
    }
}

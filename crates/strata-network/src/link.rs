//! Interfaces, addresses and routes: the requests to the kernel, and how its
//! answers are read. No decisions here.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::endpoint::Mac;
use crate::error::{Result, kernel};
use crate::netlink::{Attributes, Batch, NetlinkError, Reply, Socket, flag, route};

/// The name of an endpoint's interface, inside.
pub(crate) const INSIDE: &str = "eth0";

/// An interface as the kernel reports it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    /// The bridge it is a port of.
    pub(crate) master: Option<u32>,
    /// The other end, of a pair.
    pub(crate) pair: Option<u32>,
    pub(crate) mac: Option<Mac>,
    /// A number that marks interfaces.
    pub(crate) group: u32,
    /// The kernel has noticed that both ends are up: as a port of the bridge,
    /// it passes packets on.
    pub(crate) passes: bool,
}

impl Link {
    /// Reads a message about an interface.
    pub(crate) fn read(reply: &Reply) -> Option<Self> {
        let attributes = reply.attributes(route::LINK_HEADER);
        let mac = |bytes: &[u8]| bytes.try_into().ok().map(Mac);
        Some(Self {
            index: reply.header_u32(4),
            name: attributes.text(route::IFLA_IFNAME)?.to_owned(),
            mtu: attributes.u32(route::IFLA_MTU).unwrap_or_default(),
            passes: attributes.get(route::IFLA_OPERSTATE) == Some(&[route::OPER_UP]),
            up: reply.header_u32(8) & route::IFF_UP != 0,
            master: attributes.u32(route::IFLA_MASTER),
            pair: attributes.u32(route::IFLA_LINK),
            mac: attributes.get(route::IFLA_ADDRESS).and_then(mac),
            group: attributes.u32(route::IFLA_GROUP).unwrap_or_default(),
        })
    }
}

/// `struct ifinfomsg`.
fn link_header(index: u32, up: bool) -> [u8; route::LINK_HEADER] {
    let flags = if up { route::IFF_UP } else { 0 }.to_ne_bytes();
    let mut header = [0; route::LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags);
    header[12..16].copy_from_slice(&flags);
    header
}

/// The interface of this name, if there is one.
pub(crate) fn find(socket: &mut Socket, name: &str) -> Result<Option<Link>> {
    let mut batch = Batch::default();
    batch
        .message(route::GETLINK, 0, &link_header(0, false))
        .put_text(route::IFLA_IFNAME, name);
    match socket.talk(&mut batch) {
        Ok(replies) => Ok(replies.first().and_then(Link::read)),
        Err(error) if error.is(Errno::NODEV) => Ok(None),
        Err(error) => Err(kernel(format!("look for the interface {name}"))(error)),
    }
}

pub(crate) fn all(socket: &mut Socket) -> Result<Vec<Link>> {
    let mut batch = Batch::default();
    batch.message(route::GETLINK, flag::DUMP, &link_header(0, false));
    let replies = socket
        .talk(&mut batch)
        .map_err(kernel("list the interfaces"))?;
    Ok(replies.iter().filter_map(Link::read).collect())
}

/// Makes a bridge, up. The size of its packets is set afterwards: only then
/// is it kept when ports come and go.
pub(crate) fn add_bridge(batch: &mut Batch, name: &str, mac: Mac) {
    batch
        .message(
            route::NEWLINK,
            flag::CREATE | flag::EXCL,
            &link_header(0, true),
        )
        .put_text(route::IFLA_IFNAME, name)
        .put(route::IFLA_ADDRESS, &mac.0)
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_KIND, "bridge")
                .nest(route::IFLA_INFO_DATA, |data| {
                    data.put_u32(route::IFLA_BR_FORWARD_DELAY, 0)
                        .put(route::IFLA_BR_MCAST_SNOOPING, &[0]);
                });
        });
}

/// Makes the device of the overlay, up, that learns nothing by itself.
pub(crate) fn add_overlay(batch: &mut Batch, name: &str, mac: Mac, mtu: u32, id: u32, port: u16) {
    batch
        .message(
            route::NEWLINK,
            flag::CREATE | flag::EXCL,
            &link_header(0, true),
        )
        .put_text(route::IFLA_IFNAME, name)
        .put(route::IFLA_ADDRESS, &mac.0)
        .put_u32(route::IFLA_MTU, mtu)
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_KIND, "vxlan")
                .nest(route::IFLA_INFO_DATA, |data| {
                    data.put_u32(route::IFLA_VXLAN_ID, id)
                        .put(route::IFLA_VXLAN_LEARNING, &[0])
                        .put(route::IFLA_VXLAN_PORT, &port.to_be_bytes());
                });
        });
}

/// Makes the device of the encrypted overlay, down: it gets its key first.
pub(crate) fn add_wireguard(batch: &mut Batch, name: &str, mtu: u32) {
    batch
        .message(
            route::NEWLINK,
            flag::CREATE | flag::EXCL,
            &link_header(0, false),
        )
        .put_text(route::IFLA_IFNAME, name)
        .put_u32(route::IFLA_MTU, mtu)
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_KIND, "wireguard");
        });
}

/// Makes a pair: one end on the bridge, up, the other in the namespace.
pub(crate) fn add_pair(
    batch: &mut Batch,
    name: &str,
    bridge: u32,
    mtu: u32,
    inside: (Mac, BorrowedFd<'_>),
) {
    let (mac, netns) = inside;
    batch
        .message(
            route::NEWLINK,
            flag::CREATE | flag::EXCL,
            &link_header(0, true),
        )
        .put_text(route::IFLA_IFNAME, name)
        .put_u32(route::IFLA_MTU, mtu)
        .put_u32(route::IFLA_MASTER, bridge)
        // One queue is used; room for one per processor only costs time.
        .put_u32(route::IFLA_NUM_TX_QUEUES, 1)
        .put_u32(route::IFLA_NUM_RX_QUEUES, 1)
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_KIND, "veth")
                .nest(route::IFLA_INFO_DATA, |data| {
                    data.nest(route::VETH_INFO_PEER, |peer| {
                        // Up only later: an end goes up when the other is there.
                        peer.raw(&link_header(0, false))
                            .put_text(route::IFLA_IFNAME, INSIDE)
                            .put(route::IFLA_ADDRESS, &mac.0)
                            .put_u32(route::IFLA_MTU, mtu)
                            .put_u32(route::IFLA_NUM_TX_QUEUES, 1)
                            .put_u32(route::IFLA_NUM_RX_QUEUES, 1)
                            .put_u32(route::IFLA_NET_NS_FD, netns.as_raw_fd() as u32);
                    });
                });
        });
    reflect(batch, name);
}

/// Lets a port of the bridge have back what it sent. With br_netfilter, what
/// a pod sends to its own published port is turned around in the bridge.
pub(crate) fn reflect(batch: &mut Batch, name: &str) {
    batch
        .message(route::NEWLINK, 0, &link_header(0, false))
        .put_text(route::IFLA_IFNAME, name)
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_SLAVE_KIND, "bridge").nest(
                route::IFLA_INFO_SLAVE_DATA,
                |data| {
                    data.put(route::IFLA_BRPORT_MODE, &[1]);
                },
            );
        });
}

/// Makes an interface a port of the bridge, up.
pub(crate) fn join_bridge(batch: &mut Batch, name: &str, bridge: u32, mtu: u32) {
    batch
        .message(route::NEWLINK, 0, &link_header(0, true))
        .put_text(route::IFLA_IFNAME, name)
        .put_u32(route::IFLA_MTU, mtu)
        .put_u32(route::IFLA_MASTER, bridge);
    reflect(batch, name);
}

/// Sets an interface up.
pub(crate) fn set_up(batch: &mut Batch, index: u32) {
    batch.message(route::NEWLINK, 0, &link_header(index, true));
}

/// Sets the size of an interface's packets.
pub(crate) fn set_mtu(batch: &mut Batch, index: u32, mtu: u32) {
    batch
        .message(route::NEWLINK, 0, &link_header(index, false))
        .put_u32(route::IFLA_MTU, mtu);
}

/// Puts an interface into a group.
pub(crate) fn set_group(batch: &mut Batch, index: u32, group: u32) {
    batch
        .message(route::NEWLINK, 0, &link_header(index, false))
        .put_u32(route::IFLA_GROUP, group);
}

/// Passes into a port of the bridge only frames of addresses that were set for
/// it.
pub(crate) fn lock(batch: &mut Batch, index: u32) {
    batch
        .message(route::NEWLINK, 0, &link_header(index, false))
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_SLAVE_KIND, "bridge").nest(
                route::IFLA_INFO_SLAVE_DATA,
                |data| {
                    data.put(route::IFLA_BRPORT_LEARNING, &[0])
                        .put(route::IFLA_BRPORT_LOCKED, &[1]);
                },
            );
        });
}

/// Lets nothing pass a port of the bridge any more, and removes the entries of
/// its endpoint. Switching the port off would be simpler, but the bridge turns
/// it on again when it is notified, a little late, that the cable is in.
pub(crate) fn cut_off(batch: &mut Batch, index: u32) {
    let (off, on) = ([0], [1]);
    batch
        .message(route::NEWLINK, 0, &link_header(index, false))
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_SLAVE_KIND, "bridge").nest(
                route::IFLA_INFO_SLAVE_DATA,
                |data| {
                    data.put(route::IFLA_BRPORT_LEARNING, &off)
                        .put(route::IFLA_BRPORT_UNICAST_FLOOD, &off)
                        .put(route::IFLA_BRPORT_MCAST_FLOOD, &off)
                        .put(route::IFLA_BRPORT_BCAST_FLOOD, &off)
                        .put(route::IFLA_BRPORT_LOCKED, &on)
                        .put(route::IFLA_BRPORT_FLUSH, &[]);
                },
            );
        });
}

/// Removes all interfaces of a group.
pub(crate) fn delete_group(socket: &mut Socket, group: u32) -> Result<(), NetlinkError> {
    let mut batch = Batch::default();
    batch
        .message(route::DELLINK, 0, &link_header(0, false))
        .put_u32(route::IFLA_GROUP, group);
    socket.talk(&mut batch).map(drop)
}

/// Removes this very interface; one that is gone is no error.
pub(crate) fn delete_index(socket: &mut Socket, link: &Link) -> Result<()> {
    let mut batch = Batch::default();
    batch.message(route::DELLINK, 0, &link_header(link.index, false));
    match socket.talk(&mut batch) {
        Err(error) if !error.is(Errno::NODEV) => {
            Err(kernel(format!("remove the interface {}", link.name))(error))
        }
        _ => Ok(()),
    }
}

/// Removes an interface; one that is gone is no error.
pub(crate) fn delete(socket: &mut Socket, name: &str) -> Result<()> {
    let mut batch = Batch::default();
    batch
        .message(route::DELLINK, 0, &link_header(0, false))
        .put_text(route::IFLA_IFNAME, name);
    match socket.talk(&mut batch) {
        Ok(_) => Ok(()),
        Err(error) if error.is(Errno::NODEV) => Ok(()),
        Err(error) => Err(kernel(format!("remove the interface {name}"))(error)),
    }
}

/// Gives an interface an address.
pub(crate) fn add_address(batch: &mut Batch, index: u32, address: IpAddr, prefix: u8) {
    let family = family_of(address);
    let mut header = [family, prefix, route::IFA_F_NODAD, 0, 0, 0, 0, 0];
    if family == route::AF_INET {
        header[2] = 0;
    }
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    batch.message(route::NEWADDR, flag::CREATE | flag::REPLACE, &header);
    match address {
        IpAddr::V4(v4) => {
            let everybody = v4.to_bits() | u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            batch
                .put(route::IFA_LOCAL, &v4.octets())
                .put(route::IFA_ADDRESS, &v4.octets())
                .put(route::IFA_BROADCAST, &everybody.to_be_bytes());
        }
        IpAddr::V6(v6) => {
            batch.put(route::IFA_ADDRESS, &v6.octets());
        }
    }
}

/// A way to other addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) to: (IpAddr, u8),
    /// None where the interface alone determines the route.
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) interface: u32,
    /// The address of ours that packets of the host itself carry.
    pub(crate) source: Option<IpAddr>,
    /// The gateway is on the link although no address of ours covers it.
    pub(crate) on_link: bool,
    /// The routing table it is in.
    pub(crate) table: u32,
}

impl Route {
    /// The way to everything else.
    pub(crate) fn default(gateway: IpAddr, interface: u32) -> Self {
        let anywhere = match gateway {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        };
        Self {
            to: (anywhere, 0),
            gateway: Some(gateway),
            interface,
            source: None,
            on_link: false,
            table: route::RT_TABLE_MAIN,
        }
    }

    fn write(&self, batch: &mut Batch, kind: u16, flags: u16) {
        let (to, prefix) = self.to;
        let on_link = if self.on_link {
            route::RTNH_F_ONLINK
        } else {
            0
        };
        let mut header = [0; route::ROUTE_HEADER];
        header[0] = family_of(to);
        header[1] = prefix;
        // Zero where the number does not fit: the attribute has it.
        header[4] = u8::try_from(self.table).unwrap_or(0);
        header[5] = route::RTPROT_STATIC;
        if self.gateway.is_none() && family_of(to) == route::AF_INET {
            header[6] = route::RT_SCOPE_LINK;
        }
        header[7] = route::RTN_UNICAST;
        header[8..12].copy_from_slice(&on_link.to_ne_bytes());
        batch.message(kind, flags, &header);
        if prefix > 0 {
            batch.put(route::RTA_DST, &octets(to));
        }
        if let Some(gateway) = self.gateway {
            batch.put(route::RTA_GATEWAY, &octets(gateway));
        }
        batch.put_u32(route::RTA_OIF, self.interface);
        if self.table != route::RT_TABLE_MAIN {
            batch.put_u32(route::RTA_TABLE, self.table);
        }
        if let Some(source) = self.source {
            batch.put(route::RTA_PREFSRC, &octets(source));
        }
    }

    /// Adds it, or changes the one that is there.
    pub(crate) fn add(&self, batch: &mut Batch) {
        self.write(batch, route::NEWROUTE, flag::CREATE | flag::REPLACE);
    }

    pub(crate) fn delete(&self, batch: &mut Batch) {
        self.write(batch, route::DELROUTE, 0);
    }

    /// Removes the one by this interface to the same addresses, whatever its
    /// gateway.
    pub(crate) fn delete_by_any_gateway(&self, batch: &mut Batch) {
        let (to, prefix) = self.to;
        let mut header = [0; route::ROUTE_HEADER];
        header[0] = family_of(to);
        header[1] = prefix;
        header[4] = u8::try_from(self.table).unwrap_or(0);
        header[6] = route::RT_SCOPE_NOWHERE;
        batch.message(route::DELROUTE, 0, &header);
        batch.put(route::RTA_DST, &octets(to));
        batch.put_u32(route::RTA_OIF, self.interface);
        batch.put_u32(route::RTA_TABLE, self.table);
    }
}

/// The interface by which packets to an address leave.
pub(crate) fn way_to(socket: &mut Socket, address: Ipv4Addr) -> Result<Option<u32>> {
    let mut header = [0; route::ROUTE_HEADER];
    header[0] = route::AF_INET;
    header[1] = 32;
    let mut batch = Batch::default();
    batch
        .message(route::GETROUTE, 0, &header)
        .put(route::RTA_DST, &address.octets());
    match socket.talk(&mut batch) {
        Ok(replies) => Ok(replies.first().and_then(|reply| {
            let attributes: Attributes<'_> = reply.attributes(route::ROUTE_HEADER);
            attributes.u32(route::RTA_OIF)
        })),
        // No way is an answer too.
        Err(NetlinkError::Refused { .. }) => Ok(None),
        Err(error) => Err(kernel("ask for the way out")(error)),
    }
}

/// The IPv4 addresses of all interfaces but this one.
pub(crate) fn addresses_but(socket: &mut Socket, interface: u32) -> Result<Vec<Ipv4Addr>> {
    let mut header = [0; route::ADDRESS_HEADER];
    header[0] = route::AF_INET;
    let mut batch = Batch::default();
    batch.message(route::GETADDR, flag::DUMP, &header);
    let replies = socket
        .talk(&mut batch)
        .map_err(kernel("list the addresses"))?;
    let other = |reply: &Reply| -> Option<Ipv4Addr> {
        let index: [u8; 4] = reply.body().get(4..8)?.try_into().ok()?;
        let attributes = reply.attributes(route::ADDRESS_HEADER);
        let address: [u8; 4] = attributes.get(route::IFA_LOCAL)?.try_into().ok()?;
        (u32::from_ne_bytes(index) != interface).then(|| address.into())
    };
    Ok(replies.iter().filter_map(other).collect())
}

pub(crate) fn family_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => route::AF_INET,
        IpAddr::V6(_) => route::AF_INET6,
    }
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

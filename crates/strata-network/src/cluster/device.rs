//! The device of a cluster's pod network.

use std::net::Ipv4Addr;

use rustix::io::Errno;

use crate::error::{NetworkError, Result, kernel};
use crate::link::{self, Link};
use crate::netlink::{Batch, Reply, Socket, flag, route};
use crate::{ClusterOverlayConfig, Mac};

/// What cannot be changed once the device is there.
#[derive(Debug, PartialEq, Eq)]
struct DeviceParameters {
    id: u32,
    port: u16,
    local: Ipv4Addr,
    learns: bool,
    mac: Mac,
}

impl DeviceParameters {
    fn wanted(config: &ClusterOverlayConfig) -> Self {
        Self {
            id: config.id,
            port: config.port,
            local: config.underlay,
            learns: false,
            mac: Mac::of_overlay(config.subnet),
        }
    }

    /// None when it is no VXLAN device, or one without an address.
    fn read(reply: &Reply, link: &Link) -> Option<Self> {
        let info = reply
            .attributes(route::LINK_HEADER)
            .nested(route::IFLA_LINKINFO);
        if info.text(route::IFLA_INFO_KIND) != Some("vxlan") {
            return None;
        }
        let data = info.nested(route::IFLA_INFO_DATA);
        let port = data.get(route::IFLA_VXLAN_PORT)?.try_into().ok()?;
        let local: [u8; 4] = data.get(route::IFLA_VXLAN_LOCAL)?.try_into().ok()?;
        Some(Self {
            id: data.u32(route::IFLA_VXLAN_ID)?,
            port: u16::from_be_bytes(port),
            local: local.into(),
            learns: data.get(route::IFLA_VXLAN_LEARNING) != Some(&[0]),
            mac: link.mac?,
        })
    }
}

/// Ensures that the device is there, as configured and up. Returns its number,
/// and whether something had to be done for it.
pub(super) fn ensure(socket: &mut Socket, config: &ClusterOverlayConfig) -> Result<(u32, bool)> {
    let name = config.device.as_str();
    if let Some((link, nature)) = find(socket, name)? {
        if nature == Some(DeviceParameters::wanted(config)) {
            let mut batch = Batch::default();
            if link.mtu != config.mtu {
                link::set_mtu(&mut batch, link.index, config.mtu);
            }
            if !link.up {
                link::set_up(&mut batch, link.index);
            }
            let changed = !batch.is_empty();
            socket
                .talk(&mut batch)
                .map_err(kernel(format!("set up the device {name}")))?;
            return Ok((link.index, changed));
        }
        link::delete(socket, name)?;
    }
    let mut batch = Batch::default();
    add(&mut batch, config);
    socket
        .talk(&mut batch)
        .map_err(kernel(format!("make the device {name}")))?;
    match link::find(socket, name)? {
        Some(link) => Ok((link.index, true)),
        None => Err(NetworkError::BridgeGone(name.to_owned())),
    }
}

fn find(socket: &mut Socket, name: &str) -> Result<Option<(Link, Option<DeviceParameters>)>> {
    let mut batch = Batch::default();
    batch
        .message(route::GETLINK, 0, &[0; route::LINK_HEADER])
        .put_text(route::IFLA_IFNAME, name);
    let replies = match socket.talk(&mut batch) {
        Err(error) if error.is(Errno::NODEV) => return Ok(None),
        replies => replies.map_err(kernel(format!("look for the device {name}")))?,
    };
    let Some(reply) = replies.first() else {
        return Ok(None);
    };
    Ok(Link::read(reply).map(|link| {
        let nature = DeviceParameters::read(reply, &link);
        (link, nature)
    }))
}

fn add(batch: &mut Batch, config: &ClusterOverlayConfig) {
    let DeviceParameters {
        id,
        port,
        local,
        mac,
        ..
    } = DeviceParameters::wanted(config);
    let mut header = [0; route::LINK_HEADER];
    header[8..12].copy_from_slice(&route::IFF_UP.to_ne_bytes());
    header[12..16].copy_from_slice(&route::IFF_UP.to_ne_bytes());
    batch
        .message(route::NEWLINK, flag::CREATE | flag::EXCL, &header)
        .put_text(route::IFLA_IFNAME, &config.device)
        .put(route::IFLA_ADDRESS, &mac.0)
        .put_u32(route::IFLA_MTU, config.mtu)
        .nest(route::IFLA_LINKINFO, |info| {
            info.put_text(route::IFLA_INFO_KIND, "vxlan")
                .nest(route::IFLA_INFO_DATA, |data| {
                    data.put_u32(route::IFLA_VXLAN_ID, id)
                        .put(route::IFLA_VXLAN_LOCAL, &local.octets())
                        .put(route::IFLA_VXLAN_LEARNING, &[0])
                        .put(route::IFLA_VXLAN_PORT, &port.to_be_bytes());
                });
        });
}

//! The requests to the kernel's WireGuard, by generic netlink. No decisions
//! here.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddrV4};

use super::{PrivateKey, PublicKey};
use crate::link::{family_of, octets};
use crate::netlink::{
    Attributes, Batch, Family, NetlinkError, Socket, flag, generic, wireguard as wg,
};

/// So many peers are in one message: an attribute holds at most 64 KiB.
const PEERS_AT_ONCE: usize = 128;

/// A device as the kernel reports it.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) port: u16,
    pub(super) peers: BTreeSet<PublicKey>,
}

/// What becomes of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Remove(PublicKey),
    /// Its session stays, where it has one.
    Set {
        key: PublicKey,
        endpoint: SocketAddrV4,
        allowed: Vec<(IpAddr, u8)>,
    },
}

/// A socket to WireGuard.
pub(super) struct WireGuardSocket {
    socket: Socket,
    family: u16,
}

impl WireGuardSocket {
    /// Refused with `ENOENT` where the kernel has no WireGuard.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        let mut socket = Socket::open(Family::Generic)?;
        let mut batch = Batch::default();
        batch
            .message(generic::CONTROL, 0, &[generic::GETFAMILY, 1, 0, 0])
            .put_text(generic::ATTR_FAMILY_NAME, wg::GENL_NAME);
        let replies = socket.talk(&mut batch)?;
        let family = replies.iter().find_map(|reply| {
            let id = reply.attributes(generic::HEADER);
            let id = id.get(generic::ATTR_FAMILY_ID)?.try_into().ok()?;
            Some(u16::from_ne_bytes(id))
        });
        match family {
            Some(family) => Ok(Self { socket, family }),
            None => Err(NetlinkError::Refused {
                message: 0,
                source: rustix::io::Errno::NOENT.into(),
            }),
        }
    }

    /// Sets key and port. What is so already is left alone, sessions too.
    pub(super) fn set_device(
        &mut self,
        name: &str,
        key: &PrivateKey,
        port: u16,
    ) -> Result<(), NetlinkError> {
        let mut batch = Batch::default();
        self.begin(&mut batch, name)
            .put(wg::DEVICE_PRIVATE_KEY, key.as_bytes())
            .put(wg::DEVICE_LISTEN_PORT, &port.to_ne_bytes());
        self.socket.talk(&mut batch).map(drop)
    }

    /// Changes peers; the others stay.
    pub(super) fn change_peers(
        &mut self,
        name: &str,
        changes: &[Change],
    ) -> Result<(), NetlinkError> {
        for some in changes.chunks(PEERS_AT_ONCE) {
            let mut batch = Batch::default();
            self.begin(&mut batch, name)
                .nest(wg::DEVICE_PEERS, |peers| {
                    for change in some {
                        peers.nest(0, |peer| change.write(peer));
                    }
                });
            self.socket.talk(&mut batch)?;
        }
        Ok(())
    }

    /// Where the device listens, and its peers.
    pub(super) fn device(&mut self, name: &str) -> Result<Device, NetlinkError> {
        let mut batch = Batch::default();
        let header = [wg::GET_DEVICE, wg::GENL_VERSION, 0, 0];
        batch
            .message(self.family, flag::DUMP, &header)
            .put_text(wg::DEVICE_IFNAME, name);
        let mut device = Device::default();
        for reply in self.socket.talk(&mut batch)? {
            let attributes = reply.attributes(generic::HEADER);
            if let Some(port) = attributes.get(wg::DEVICE_LISTEN_PORT)
                && let Ok(port) = port.try_into()
            {
                device.port = u16::from_ne_bytes(port);
            }
            for (_, peer) in attributes.nested(wg::DEVICE_PEERS).iter() {
                let key = Attributes::new(peer).get(wg::PEER_PUBLIC_KEY);
                let key = key.and_then(|key| PublicKey::try_from(key).ok());
                device.peers.extend(key);
            }
        }
        Ok(device)
    }

    fn begin<'a>(&self, batch: &'a mut Batch, name: &str) -> &'a mut Batch {
        let header = [wg::SET_DEVICE, wg::GENL_VERSION, 0, 0];
        batch
            .message(self.family, 0, &header)
            .put_text(wg::DEVICE_IFNAME, name)
    }
}

impl Change {
    fn write(&self, peer: &mut Batch) {
        match self {
            Self::Remove(key) => {
                peer.put(wg::PEER_PUBLIC_KEY, key.as_bytes())
                    .put_u32(wg::PEER_FLAGS, wg::REMOVE_ME);
            }
            Self::Set {
                key,
                endpoint,
                allowed,
            } => {
                peer.put(wg::PEER_PUBLIC_KEY, key.as_bytes())
                    .put_u32(wg::PEER_FLAGS, wg::REPLACE_ALLOWEDIPS)
                    .put(wg::PEER_ENDPOINT, &socket_address(*endpoint))
                    .nest(wg::PEER_ALLOWEDIPS, |list| {
                        for (address, prefix) in allowed {
                            list.nest(0, |one| {
                                let family = u16::from(family_of(*address));
                                one.put(wg::ALLOWEDIP_FAMILY, &family.to_ne_bytes())
                                    .put(wg::ALLOWEDIP_IPADDR, &octets(*address))
                                    .put(wg::ALLOWEDIP_CIDR_MASK, &[*prefix]);
                            });
                        }
                    });
            }
        }
    }
}

/// `struct sockaddr_in`.
fn socket_address(address: SocketAddrV4) -> [u8; 16] {
    let mut bytes = [0; 16];
    let family = u16::from(family_of(IpAddr::V4(*address.ip())));
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&address.ip().octets());
    bytes
}

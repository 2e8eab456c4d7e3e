//! Addresses for VMs: a server on the bridge that answers each known NIC with
//! its one address, and no other NIC.

pub mod client;
pub(crate) mod packet;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;

use crate::error::{NetworkError, Result};
use crate::{Mac, Network};
use packet::{Offer, answer};

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// More than an Ethernet frame holds.
const LARGEST: usize = 2048;

impl Network {
    /// Serves addresses to VMs until it is stopped.
    pub async fn serve_leases(&self, stop: CancellationToken) -> Result<()> {
        let socket = self
            .lease_socket()
            .await
            .map_err(|source| NetworkError::Listen {
                what: "requests for addresses",
                source,
            })?;
        let inner = Arc::clone(&self.0);
        let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, CLIENT);
        let mut buffer = vec![0; LARGEST];
        loop {
            let length = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                received = socket.recv(&mut buffer) => match received {
                    Ok(length) => length,
                    Err(error) => {
                        tracing::debug!(%error, "DHCP request not received");
                        continue;
                    }
                },
            };
            let known = |mac: Mac| {
                let state = inner.state();
                let endpoint = state.endpoints.values().find(|e| e.mac() == mac)?;
                Some(Offer {
                    address: endpoint.address,
                    name: endpoint.host_name().to_owned(),
                    subnet: inner.config.subnet,
                    mtu: inner.mtu,
                })
            };
            if let Some(reply) = answer(&buffer[..length], known)
                && let Err(error) = socket.send_to(&reply, everybody).await
            {
                tracing::debug!(%error, "DHCP reply not sent");
            }
        }
    }

    /// A socket that receives from the bridge alone: the host may serve
    /// addresses to others, and other runs have bridges of their own.
    async fn lease_socket(&self) -> std::io::Result<UdpSocket> {
        use rustix::net::sockopt::set_socket_reuseaddr;
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        set_socket_reuseaddr(&fd, true)?;
        let socket = UdpSocket::from_std(fd.into())?;
        socket.bind_device(Some(self.0.config.tag.bridge().as_bytes()))?;
        socket.set_broadcast(true)?;
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER))?;
        Ok(socket)
    }
}

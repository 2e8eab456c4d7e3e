//! Ports of the host that are held. A published port never reaches a socket of
//! the host, so a socket that is bound to it and does nothing costs nothing,
//! shows whether another process has the port, and keeps it from all others for
//! as long as it is published.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_recv_buffer_size, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::error::{NetworkError, Result};
use crate::{Protocol, PublishedPort};

/// How often and how long to wait for a port that is in use.
const RETRIES: u32 = 10;
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// The ports of all endpoints, by protocol and port of the host.
#[derive(Debug, Default)]
pub(crate) struct HeldPorts(HashMap<(Protocol, u16), Vec<HeldSocket>>);

#[derive(Debug)]
struct HeldSocket {
    port: PublishedPort,
    owner: Ipv4Addr,
    _sockets: Vec<OwnedFd>,
}

impl HeldPorts {
    /// Holds ports for an endpoint, all or none. What it holds already stays.
    /// Gives back those that are new.
    pub(crate) fn hold(
        &mut self,
        owner: Ipv4Addr,
        ports: &[PublishedPort],
        ipv6: bool,
    ) -> Result<Vec<PublishedPort>> {
        let mut taken = Vec::new();
        for port in ports {
            match self.hold_one(owner, *port, ipv6) {
                Ok(true) => taken.push(*port),
                Ok(false) => {}
                Err(error) => {
                    self.release(owner, &taken);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    fn hold_one(&mut self, owner: Ipv4Addr, port: PublishedPort, ipv6: bool) -> Result<bool> {
        let key = (port.protocol, port.host_port);
        let mut held = self.0.get(&key).into_iter().flatten();
        match held.find(|other| overlap(&other.port, &port)) {
            Some(same) if same.owner == owner && same.port == port => return Ok(false),
            Some(other) => {
                let owner = other.owner;
                return Err(NetworkError::PortPublished { port, owner });
            }
            None => {}
        }
        let _sockets = addresses(port, ipv6)
            .map(|address| hold_address(port, address))
            .collect::<Result<_>>()?;
        self.0.entry(key).or_default().push(HeldSocket {
            port,
            owner,
            _sockets,
        });
        Ok(true)
    }

    /// Gives up ports of an endpoint.
    pub(crate) fn release(&mut self, owner: Ipv4Addr, ports: &[PublishedPort]) {
        self.retain(|held| held.owner != owner || !ports.contains(&held.port));
    }

    /// Gives up what an endpoint holds besides these.
    pub(crate) fn keep_only(&mut self, owner: Ipv4Addr, ports: &[PublishedPort]) {
        self.retain(|held| held.owner != owner || ports.contains(&held.port));
    }

    fn retain(&mut self, keep: impl Fn(&HeldSocket) -> bool) {
        self.0.retain(|_, held| {
            held.retain(&keep);
            !held.is_empty()
        });
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether both would answer to the same packet, of the same protocol and port.
fn overlap(a: &PublishedPort, b: &PublishedPort) -> bool {
    match (a.host_ip, b.host_ip) {
        (None, _) | (_, None) => true,
        (Some(x), Some(y)) => {
            x == y || (x.is_ipv4() == y.is_ipv4() && (x.is_unspecified() || y.is_unspecified()))
        }
    }
}

fn addresses(port: PublishedPort, ipv6: bool) -> impl Iterator<Item = IpAddr> {
    let all = match port.host_ip {
        Some(ip) => [Some(ip), None],
        None => [
            Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            ipv6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        ],
    };
    all.into_iter().flatten()
}

fn hold_address(port: PublishedPort, address: IpAddr) -> Result<OwnedFd> {
    // At first so that no other socket can share it. Connections of an earlier
    // listener that the kernel still remembers refuse that, and only that.
    let attempt = || match try_bind(port, address, false) {
        Err(Errno::ADDRINUSE) if port.protocol == Protocol::Tcp => try_bind(port, address, true),
        other => other,
    };
    let mut bound = attempt();
    // A process that is being started has copies of our sockets until it is
    // what it will be: a port given up just now can be held a moment longer.
    for _ in 0..RETRIES {
        if !matches!(bound, Err(Errno::ADDRINUSE)) {
            break;
        }
        std::thread::sleep(RETRY_INTERVAL);
        bound = attempt();
    }
    bound.map_err(|errno| match errno {
        Errno::ADDRINUSE => NetworkError::PortInUse {
            port: port.host_port,
            protocol: port.protocol,
        },
        Errno::ADDRNOTAVAIL => NetworkError::NoSuchHostAddress { port, address },
        errno => NetworkError::Port {
            port,
            source: errno.into(),
        },
    })
}

fn try_bind(port: PublishedPort, address: IpAddr, share: bool) -> Result<OwnedFd, Errno> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match port.protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    set_socket_reuseaddr(&socket, share)?;
    // Should anything reach it after all, it is not kept.
    let _ = set_socket_recv_buffer_size(&socket, 0);
    bind(&socket, &SocketAddr::new(address, port.host_port))?;
    Ok(socket)
}

//! Where the server of names listens. The sockets are opened with the
//! network, because a rule names their port.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::time::Duration;

use crate::Tag;
use crate::error::{NetworkError, Result};

/// UDP and TCP on the same port of the gateway.
#[derive(Debug)]
pub(crate) struct NameSockets {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
    port: u16,
}

impl NameSockets {
    /// Binds to the port that this run always wants, so that the rules of an
    /// earlier daemon are right at once, or to another when that is taken.
    pub(crate) fn bind(gateway: Ipv4Addr, tag: &Tag) -> Result<Self> {
        let usual = 20_000
            + tag.as_str().bytes().fold(0u16, |sum, byte| {
                (sum.wrapping_mul(31).wrapping_add(byte.into())) % 10_000
            });
        let mut result = Self::bind_to(gateway, usual);
        for attempt in 0..16 {
            if result.is_ok() {
                break;
            }
            if attempt < 8 {
                // Its holder may be a process that is just being started by an
                // earlier owner.
                std::thread::sleep(Duration::from_millis(2));
                result = Self::bind_to(gateway, usual);
            } else {
                result = Self::bind_to(gateway, 0);
            }
        }
        result.map_err(|source| NetworkError::Listen {
            what: "questions for names",
            source,
        })
    }

    fn bind_to(gateway: Ipv4Addr, port: u16) -> io::Result<Self> {
        let udp = UdpSocket::bind(SocketAddrV4::new(gateway, port))?;
        let port = udp.local_addr()?.port();
        let tcp = TcpListener::bind(SocketAddrV4::new(gateway, port))?;
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        Ok(Self { udp, tcp, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

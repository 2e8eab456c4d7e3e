//! What is on the wires of a network namespace: every packet of every
//! interface, looked at as it passes and not kept.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};

use crate::NetworkNamespace;

/// `ETH_P_ALL` in the order of the network.
const EVERYTHING: u32 = 0x0300;
const UDP: u8 = 17;
/// So many packets with the marker are reported.
const MAX_REPORTED_PACKETS: usize = 1000;

/// Looks at packets until it is dropped.
#[derive(Debug)]
pub struct Capture {
    seen: Arc<Mutex<CapturedPackets>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct CapturedPackets {
    /// How many IPv4 packets.
    pub packets: u64,
    /// How many datagrams, by the port they go to.
    pub datagrams: BTreeMap<u16, u64>,
    /// Packets that have the marker in them as it is.
    pub marked: Vec<Marked>,
}

/// A packet with the marker in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The destination in its outermost header.
    pub to: Ipv4Addr,
    /// The port it goes to, of a datagram.
    pub port: Option<u16>,
}

impl Capture {
    /// Looks for a marker on all interfaces of a network namespace.
    ///
    /// # Panics
    /// When this machine cannot.
    pub fn start(network: &NetworkNamespace, marker: &str) -> Self {
        let socket = network.inside(|| {
            let protocol = NonZeroU32::new(EVERYTHING).map(Protocol::from_raw);
            // Without the header of the link: they begin with that of IP.
            let kind = (SocketType::DGRAM, SocketFlags::CLOEXEC);
            let socket = socket_with(AddressFamily::PACKET, kind.0, kind.1, protocol)?;
            let _ = set_socket_recv_buffer_size_force(&socket, 32 << 20);
            set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(100)))?;
            Ok(socket)
        });
        let socket = socket.expect("packets can be looked at");
        let (seen, stop) = (
            Arc::<Mutex<CapturedPackets>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let (into, ended, marker) = (seen.clone(), stop.clone(), marker.as_bytes().to_vec());
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while !ended.load(Ordering::Relaxed) {
                if let Ok((length, _)) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()) {
                    let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.look(&buffer[..length], &marker);
                }
            }
        });
        Self {
            seen,
            stop,
            thread: Some(thread),
        }
    }

    /// What was seen so far.
    pub fn seen(&self) -> CapturedPackets {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl CapturedPackets {
    fn look(&mut self, packet: &[u8], marker: &[u8]) {
        let (Some(first), Some(to)) = (packet.first(), packet.get(16..20)) else {
            return;
        };
        if first >> 4 != 4 {
            return;
        }
        self.packets += 1;
        let header = usize::from(first & 0xf) * 4;
        let port = packet
            .get(header + 2..header + 4)
            .filter(|_| packet[9] == UDP)
            .map(|port| u16::from_be_bytes([port[0], port[1]]));
        if let Some(port) = port {
            *self.datagrams.entry(port).or_default() += 1;
        }
        let marked = packet.windows(marker.len()).any(|bytes| bytes == marker);
        if marked && self.marked.len() < MAX_REPORTED_PACKETS {
            let to = Ipv4Addr::new(to[0], to[1], to[2], to[3]);
            self.marked.push(Marked { to, port });
        }
    }

    /// How many datagrams went to a port.
    pub fn to_port(&self, port: u16) -> u64 {
        self.datagrams.get(&port).copied().unwrap_or(0)
    }
}

impl NetworkNamespace {
    /// Does something in here, on a thread that ends here. Sockets that it
    /// makes stay in here.
    pub fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        crate::namespace_proxy::inside(&self.path(), work)
    }
}

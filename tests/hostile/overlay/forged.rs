//! Packets of VXLAN as an attacker makes them, around a datagram of somebody
//! else's.

use std::net::{Ipv4Addr, UdpSocket};

use strata_testkit::NetworkNamespace;

pub(super) const VXLAN_PORT: u16 = 4789;
/// The range of clusters in tests is 10.42.0.0/16.
const VNI: [u8; 3] = [10, 42, 0];

/// A frame that carries a datagram from one address to another.
fn frame(from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend((20 + length).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    let words = ip
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    // The hardware address of an overlay's device follows from its subnet.
    let mac = |address: Ipv4Addr| {
        let [a, b, c, _] = address.octets();
        [6, b's', a, b, c, 0]
    };
    let mut all = vec![0x08, 0, 0, 0];
    all.extend(VNI);
    all.push(0);
    all.extend(mac(to));
    all.extend(mac(from));
    all.extend([0x08, 0x00]);
    all.extend(ip);
    all.extend(4000_u16.to_be_bytes());
    all.extend(9_u16.to_be_bytes());
    all.extend(length.to_be_bytes());
    all.extend([0, 0]);
    all.extend(payload);
    all
}

/// Sends such frames from a network namespace to a node.
pub(super) fn send(
    network: &NetworkNamespace,
    node: Ipv4Addr,
    (from, to): (Ipv4Addr, Ipv4Addr),
    payload: &str,
) {
    let frame = frame(from, to, payload.as_bytes());
    let sent = network.inside(move || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        for _ in 0..5 {
            socket.send_to(&frame, (node, VXLAN_PORT))?;
        }
        Ok(())
    });
    sent.unwrap();
}

//! The client side of DHCP: what a machine that needs an address sends, and how
//! it reads the answers. Pure: bytes in, bytes out.

use std::net::Ipv4Addr;

use super::packet::{COOKIE, ETHERNET, FIXED, REPLY, REQUEST, SHORTEST, find, kind, option};
use crate::Mac;

/// Requests a broadcast answer: a client without an address cannot be sent to.
const TO_EVERYBODY: u8 = 0x80;
/// The options that a machine requests.
const ASKED_FOR: [u8; 6] = [
    option::MASK,
    option::ROUTER,
    option::NAMES,
    option::DOMAIN,
    option::MTU,
    option::LEASE,
];
/// No legitimate client sends packets smaller than this.
const MIN_MTU: u32 = 576;

/// An address, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    /// How many bits of it are the network's.
    pub prefix: u8,
    /// The way to everything else.
    pub gateway: Option<Ipv4Addr>,
    pub names: Vec<Ipv4Addr>,
    /// What short names are looked up in.
    pub domain: Option<String>,
    /// The size of packets.
    pub mtu: Option<u32>,
    /// The server that sent it.
    pub server: Ipv4Addr,
    /// For how long; none is forever.
    pub seconds: Option<u32>,
}

/// A reply of the server to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhcpReply {
    /// It could have this.
    Offered(Lease),
    Granted(Lease),
    /// It does not have what was requested.
    Refused,
}

/// Discovers the servers that have an address for this NIC.
pub fn discover(number: u32, nic: Mac) -> Vec<u8> {
    said(number, nic, kind::DISCOVER, None)
}

/// Requests this address, or its renewal.
pub fn request(number: u32, nic: Mac, lease: &Lease) -> Vec<u8> {
    said(number, nic, kind::REQUEST, Some(lease))
}

fn said(number: u32, nic: Mac, what: u8, wanted: Option<&Lease>) -> Vec<u8> {
    let mut packet = vec![0; FIXED];
    packet[0] = REQUEST;
    packet[1..3].copy_from_slice(&ETHERNET);
    packet[4..8].copy_from_slice(&number.to_be_bytes());
    packet[10] = TO_EVERYBODY;
    packet[28..34].copy_from_slice(&nic.0);
    packet.extend(COOKIE);
    packet.extend([option::KIND, 1, what]);
    if let Some(lease) = wanted {
        packet.extend([option::WANTED, 4]);
        packet.extend(lease.address.octets());
        packet.extend([option::SERVER, 4]);
        packet.extend(lease.server.octets());
    }
    packet.extend([option::ASKED_FOR, ASKED_FOR.len() as u8]);
    packet.extend(ASKED_FOR);
    packet.push(option::END);
    packet.resize(packet.len().max(SHORTEST), 0);
    packet
}

/// Reads an answer to the transaction of this number for this NIC.
pub fn read(packet: &[u8], number: u32, nic: Mac) -> Option<DhcpReply> {
    let fixed = packet.get(..FIXED)?;
    let ours = fixed[0] == REPLY && fixed[4..8] == number.to_be_bytes() && fixed[28..34] == nic.0;
    if !ours || packet.get(FIXED..FIXED + 4)? != COOKIE {
        return None;
    }
    let options = packet.get(FIXED + 4..)?;
    match *find(options, option::KIND)?.first()? {
        kind::OFFER => lease(fixed, options).map(DhcpReply::Offered),
        kind::ACK => lease(fixed, options).map(DhcpReply::Granted),
        kind::NAK => Some(DhcpReply::Refused),
        _ => None,
    }
}

fn lease(fixed: &[u8], options: &[u8]) -> Option<Lease> {
    let address = addresses(&fixed[16..20]).next()?;
    let all = |code: u8| find(options, code).map(addresses).into_iter().flatten();
    let mask = all(option::MASK).next()?.to_bits();
    // Ones, then zeros: anything else is no mask.
    let prefix = mask.leading_ones();
    let whole = mask.checked_shl(prefix).unwrap_or(0) == 0;
    if !whole || address.is_unspecified() || address.is_broadcast() {
        return None;
    }
    let mtu = find(options, option::MTU).and_then(|bytes| bytes.try_into().ok());
    let mtu = mtu.map(|bytes| u32::from(u16::from_be_bytes(bytes)));
    let seconds = find(options, option::LEASE).and_then(|bytes| bytes.try_into().ok());
    Some(Lease {
        address,
        prefix: u8::try_from(prefix).ok()?,
        gateway: all(option::ROUTER).next(),
        names: all(option::NAMES).take(3).collect(),
        domain: find(options, option::DOMAIN).and_then(domain),
        mtu: mtu.filter(|mtu| *mtu >= MIN_MTU),
        server: all(option::SERVER).next()?,
        seconds: seconds
            .map(u32::from_be_bytes)
            .filter(|seconds| *seconds != u32::MAX),
    })
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = Ipv4Addr> {
    let address = |part: &[u8]| part.try_into().ok().map(|four: [u8; 4]| four.into());
    bytes.chunks_exact(4).filter_map(address)
}

/// It is written into a file that others read by lines and words.
fn domain(bytes: &[u8]) -> Option<String> {
    let fits = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    (!text.is_empty() && text.iter().all(fits)).then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::{Offer, answer};
    use super::*;

    fn offer() -> Offer {
        Offer {
            address: Ipv4Addr::new(10, 42, 0, 7),
            name: "vm".into(),
            subnet: "10.42.0.0/24".parse().unwrap(),
            mtu: 1450,
        }
    }

    fn nic() -> Mac {
        Mac::of(offer().address)
    }

    #[test]
    fn dhcp_client_and_server_agree() {
        let asked = discover(7, nic());
        let offered = answer(&asked, |mac| (mac == nic()).then(offer)).unwrap();
        let Some(DhcpReply::Offered(lease)) = read(&offered, 7, nic()) else {
            panic!("no offer");
        };
        assert_eq!(lease.address, offer().address);
        assert_eq!((lease.prefix, lease.mtu), (24, Some(1450)));
        assert_eq!(lease.gateway, Some(Ipv4Addr::new(10, 42, 0, 1)));
        assert_eq!(lease.names, [Ipv4Addr::new(10, 42, 0, 1)]);
        assert_eq!(
            (lease.domain.as_deref(), lease.seconds),
            (Some(crate::DOMAIN), None)
        );
        let asked = request(8, nic(), &lease);
        let granted = answer(&asked, |_| Some(offer())).unwrap();
        assert_eq!(
            read(&granted, 8, nic()),
            Some(DhcpReply::Granted(lease.clone()))
        );
        let other = Lease {
            address: Ipv4Addr::new(10, 42, 0, 9),
            ..lease
        };
        let refused = answer(&request(9, nic(), &other), |_| Some(offer())).unwrap();
        assert_eq!(read(&refused, 9, nic()), Some(DhcpReply::Refused));
    }

    #[test]
    fn dhcp_messages_for_other_clients_are_ignored() {
        let asked = discover(7, nic());
        let offered = answer(&asked, |_| Some(offer())).unwrap();
        assert_eq!(read(&offered, 8, nic()), None);
        assert_eq!(read(&offered, 7, Mac([2, 0, 0, 0, 0, 1])), None);
        assert_eq!(read(&asked, 7, nic()), None);
    }

    #[test]
    fn a_domain_is_one_word() {
        assert_eq!(domain(b"a.b\0"), Some("a.b".into()));
        assert_eq!(domain(b"a\nnameserver 6.6.6.6"), None);
        assert_eq!(domain(b""), None);
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes, 7, nic());
            if bytes.len() >= FIXED + 4 {
                bytes[0] = REPLY;
                bytes[4..8].copy_from_slice(&7u32.to_be_bytes());
                bytes[28..34].copy_from_slice(&nic().0);
                bytes[FIXED..FIXED + 4].copy_from_slice(&COOKIE);
                let _ = read(&bytes, 7, nic());
            }
        }
    }
}

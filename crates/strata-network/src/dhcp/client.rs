//! The other side of DHCP: what a machine says that wants an address, and how
//! it reads what it is told. Pure: bytes in, bytes out.

use std::net::Ipv4Addr;

use super::packet::{COOKIE, ETHERNET, FIXED, REPLY, REQUEST, SHORTEST, find, kind, option};
use crate::Mac;

/// Asks for the answer to be sent to everybody: whoever has no address yet
/// cannot be sent to.
const TO_EVERYBODY: u8 = 0x80;
/// What a machine wants to be told.
const ASKED_FOR: [u8; 6] = [
    option::MASK,
    option::ROUTER,
    option::NAMES,
    option::DOMAIN,
    option::MTU,
    option::LEASE,
];
/// Packets smaller than this are of nobody who means well.
const LEAST_MTU: u32 = 576;

/// An address, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// How many bits of it are the network's.
    pub prefix: u8,
    /// The way to everything else.
    pub gateway: Option<Ipv4Addr>,
    /// Who knows names.
    pub names: Vec<Ipv4Addr>,
    /// What short names are looked up in.
    pub domain: Option<String>,
    /// The size of packets.
    pub mtu: Option<u32>,
    /// Who told.
    pub server: Ipv4Addr,
    /// For how long; none for ever.
    pub seconds: Option<u32>,
}

/// What a machine is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It could have this.
    Offered(Lease),
    /// It has this.
    Granted(Lease),
    /// It has not what it asked for.
    Refused,
}

/// Asks who has an address for this card.
pub fn discover(number: u32, card: Mac) -> Vec<u8> {
    said(number, card, kind::DISCOVER, None)
}

/// Asks for this address, or to keep it.
pub fn request(number: u32, card: Mac, lease: &Lease) -> Vec<u8> {
    said(number, card, kind::REQUEST, Some(lease))
}

fn said(number: u32, card: Mac, what: u8, wanted: Option<&Lease>) -> Vec<u8> {
    let mut packet = vec![0; FIXED];
    packet[0] = REQUEST;
    packet[1..3].copy_from_slice(&ETHERNET);
    packet[4..8].copy_from_slice(&number.to_be_bytes());
    packet[10] = TO_EVERYBODY;
    packet[28..34].copy_from_slice(&card.0);
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

/// Reads an answer to what was said under this number for this card.
pub fn read(packet: &[u8], number: u32, card: Mac) -> Option<Told> {
    let fixed = packet.get(..FIXED)?;
    let ours = fixed[0] == REPLY && fixed[4..8] == number.to_be_bytes() && fixed[28..34] == card.0;
    if !ours || packet.get(FIXED..FIXED + 4)? != COOKIE {
        return None;
    }
    let options = packet.get(FIXED + 4..)?;
    match *find(options, option::KIND)?.first()? {
        kind::OFFER => lease(fixed, options).map(Told::Offered),
        kind::ACK => lease(fixed, options).map(Told::Granted),
        kind::NAK => Some(Told::Refused),
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
        mtu: mtu.filter(|mtu| *mtu >= LEAST_MTU),
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

    fn card() -> Mac {
        Mac::of(offer().address)
    }

    #[test]
    fn both_sides_understand_each_other() {
        let asked = discover(7, card());
        let offered = answer(&asked, |mac| (mac == card()).then(offer)).unwrap();
        let Some(Told::Offered(lease)) = read(&offered, 7, card()) else {
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
        let asked = request(8, card(), &lease);
        let granted = answer(&asked, |_| Some(offer())).unwrap();
        assert_eq!(
            read(&granted, 8, card()),
            Some(Told::Granted(lease.clone()))
        );
        let other = Lease {
            address: Ipv4Addr::new(10, 42, 0, 9),
            ..lease
        };
        let refused = answer(&request(9, card(), &other), |_| Some(offer())).unwrap();
        assert_eq!(read(&refused, 9, card()), Some(Told::Refused));
    }

    #[test]
    fn what_is_for_others_is_not_heard() {
        let asked = discover(7, card());
        let offered = answer(&asked, |_| Some(offer())).unwrap();
        assert_eq!(read(&offered, 8, card()), None);
        assert_eq!(read(&offered, 7, Mac([2, 0, 0, 0, 0, 1])), None);
        assert_eq!(read(&asked, 7, card()), None);
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
            let _ = read(&bytes, 7, card());
            if bytes.len() >= FIXED + 4 {
                bytes[0] = REPLY;
                bytes[4..8].copy_from_slice(&7u32.to_be_bytes());
                bytes[28..34].copy_from_slice(&card().0);
                bytes[FIXED..FIXED + 4].copy_from_slice(&COOKIE);
                let _ = read(&bytes, 7, card());
            }
        }
    }
}

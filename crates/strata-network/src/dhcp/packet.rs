//! DHCP packets, as little of RFC 2131 as a fixed address needs. Pure: bytes
//! in, bytes out; what is not a request is not answered.

use std::net::Ipv4Addr;

use crate::{DOMAIN, Mac, Subnet};

pub(super) const FIXED: usize = 236;
pub(super) const COOKIE: [u8; 4] = [99, 130, 83, 99];
pub(super) const REQUEST: u8 = 1;
pub(super) const REPLY: u8 = 2;
pub(super) const ETHERNET: [u8; 2] = [1, 6];
/// Some clients drop what is shorter.
pub(super) const SHORTEST: usize = 300;
const FOR_EVER: [u8; 4] = [0xff; 4];

/// The options used here.
pub(super) mod option {
    pub(in crate::dhcp) const MASK: u8 = 1;
    pub(in crate::dhcp) const ROUTER: u8 = 3;
    pub(in crate::dhcp) const NAMES: u8 = 6;
    pub(in crate::dhcp) const HOST: u8 = 12;
    pub(in crate::dhcp) const DOMAIN: u8 = 15;
    pub(in crate::dhcp) const MTU: u8 = 26;
    pub(in crate::dhcp) const BROADCAST: u8 = 28;
    pub(in crate::dhcp) const WANTED: u8 = 50;
    pub(in crate::dhcp) const LEASE: u8 = 51;
    pub(in crate::dhcp) const KIND: u8 = 53;
    pub(in crate::dhcp) const SERVER: u8 = 54;
    pub(in crate::dhcp) const ASKED_FOR: u8 = 55;
    pub(in crate::dhcp) const END: u8 = 255;
}

/// The kinds of messages used here.
pub(super) mod kind {
    pub(in crate::dhcp) const DISCOVER: u8 = 1;
    pub(in crate::dhcp) const OFFER: u8 = 2;
    pub(in crate::dhcp) const REQUEST: u8 = 3;
    pub(in crate::dhcp) const ACK: u8 = 5;
    pub(in crate::dhcp) const NAK: u8 = 6;
    pub(in crate::dhcp) const INFORM: u8 = 8;
}

/// What a NIC is sent.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) address: Ipv4Addr,
    pub(crate) name: String,
    pub(crate) subnet: Subnet,
    pub(crate) mtu: u32,
}

/// Answers a packet, when it is a request of a NIC that is known.
pub(crate) fn answer(packet: &[u8], known: impl FnOnce(Mac) -> Option<Offer>) -> Option<Vec<u8>> {
    let fixed = packet.get(..FIXED)?;
    if fixed[0] != REQUEST || fixed[1..3] != ETHERNET || packet.get(FIXED..FIXED + 4)? != COOKIE {
        return None;
    }
    let options = packet.get(FIXED + 4..)?;
    let asked = *find(options, option::KIND)?.first()?;
    let offer = known(Mac(fixed[28..34].try_into().ok()?))?;
    let gateway = offer.subnet.gateway();
    let for_another = find(options, option::SERVER).is_some_and(|id| id != gateway.octets());
    if for_another {
        return None;
    }
    let current: [u8; 4] = fixed[12..16].try_into().ok()?;
    let wanted = find(options, option::WANTED).unwrap_or(&current);
    let told = match asked {
        kind::DISCOVER => kind::OFFER,
        kind::REQUEST if wanted == offer.address.octets() => kind::ACK,
        kind::REQUEST => kind::NAK,
        kind::INFORM => kind::ACK,
        _ => return None,
    };
    Some(reply(fixed, &offer, told, asked == kind::INFORM))
}

fn reply(request: &[u8], offer: &Offer, told: u8, inform: bool) -> Vec<u8> {
    let gateway = offer.subnet.gateway().octets();
    let mut packet = vec![0; FIXED];
    packet[0] = REPLY;
    packet[1..3].copy_from_slice(&ETHERNET);
    packet[4..8].copy_from_slice(&request[4..8]);
    packet[10..12].copy_from_slice(&request[10..12]);
    packet[28..44].copy_from_slice(&request[28..44]);
    if inform {
        packet[12..16].copy_from_slice(&request[12..16]);
    } else if told != kind::NAK {
        packet[16..20].copy_from_slice(&offer.address.octets());
    }
    packet.extend(COOKIE);
    let mut put = |code: u8, value: &[u8]| {
        packet.extend([code, value.len() as u8]);
        packet.extend(value);
    };
    put(option::KIND, &[told]);
    put(option::SERVER, &gateway);
    if told != kind::NAK {
        if !inform {
            put(option::LEASE, &FOR_EVER);
        }
        put(option::MASK, &offer.subnet.mask().octets());
        put(option::ROUTER, &gateway);
        put(option::NAMES, &gateway);
        put(option::BROADCAST, &offer.subnet.broadcast().octets());
        put(option::MTU, &(offer.mtu.min(0xffff) as u16).to_be_bytes());
        put(option::DOMAIN, DOMAIN.as_bytes());
        let host = offer.name.as_bytes();
        put(option::HOST, &host[..host.len().min(63)]);
    }
    packet.push(option::END);
    packet.resize(packet.len().max(SHORTEST), 0);
    packet
}

/// The value of an option.
pub(super) fn find(mut options: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        match options {
            [0, rest @ ..] => options = rest,
            [option::END, ..] | [] | [_] => return None,
            [code, length, rest @ ..] => {
                let value = rest.get(..usize::from(*length))?;
                if *code == wanted {
                    return Some(value);
                }
                options = &rest[value.len()..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer() -> Offer {
        Offer {
            address: Ipv4Addr::new(10, 42, 0, 7),
            name: "vm".into(),
            subnet: "10.42.0.0/24".parse().unwrap(),
            mtu: 1450,
        }
    }

    fn request(asked: u8, options: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; FIXED];
        packet[0..3].copy_from_slice(&[1, 1, 6]);
        packet[4..8].copy_from_slice(&[9, 8, 7, 6]);
        packet[28..34].copy_from_slice(&Mac::of(offer().address).0);
        packet.extend(COOKIE);
        packet.extend([option::KIND, 1, asked]);
        packet.extend(options);
        packet.push(option::END);
        packet
    }

    fn told(reply: &[u8]) -> u8 {
        find(&reply[FIXED + 4..], option::KIND).unwrap()[0]
    }

    #[test]
    fn known_nic_is_offered_its_address() {
        let reply = answer(&request(kind::DISCOVER, &[]), |_| Some(offer())).unwrap();
        assert_eq!(told(&reply), kind::OFFER);
        assert_eq!(reply[4..8], [9, 8, 7, 6]);
        assert_eq!(reply[16..20], [10, 42, 0, 7]);
        let options = &reply[FIXED + 4..];
        assert_eq!(find(options, option::ROUTER), Some(&[10, 42, 0, 1][..]));
        assert_eq!(find(options, option::MTU), Some(&[5, 170][..]));
    }

    #[test]
    fn unknown_nic_gets_no_offer() {
        assert!(answer(&request(kind::DISCOVER, &[]), |_| None).is_none());
    }

    #[test]
    fn a_wrong_address_is_refused_and_the_right_one_granted() {
        let wrong = request(kind::REQUEST, &[option::WANTED, 4, 10, 42, 0, 9]);
        let right = request(kind::REQUEST, &[option::WANTED, 4, 10, 42, 0, 7]);
        let other = request(kind::REQUEST, &[option::SERVER, 4, 10, 0, 0, 1]);
        assert_eq!(told(&answer(&wrong, |_| Some(offer())).unwrap()), kind::NAK);
        assert_eq!(told(&answer(&right, |_| Some(offer())).unwrap()), kind::ACK);
        assert!(answer(&other, |_| Some(offer())).is_none());
    }

    proptest! {
        #[test]
        fn no_packet_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..600), options in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = answer(&bytes, |_| Some(offer()));
            let _ = answer(&request(kind::REQUEST, &options), |_| Some(offer()));
        }
    }
}

//! Guests with a kernel of their own, which send any frame: none passes for
//! another endpoint of the bridge, nor for a router or a server of leases.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use crate::world::{on_a_host, run, without_bridge_netfilter};
use strata_network::{Endpoint, Network, Owner, ProjectAccess};

/// The header of virtio before each frame.
const VIRTIO: usize = 10;
const ALL: [u8; 6] = [0xff; 6];

struct Guest {
    tap: File,
    endpoint: Endpoint,
}

impl Guest {
    fn of(network: &Network, project: &str) -> Self {
        let endpoint = Endpoint {
            name: project.into(),
            aliases: Vec::new(),
            address: network.lease(None).unwrap(),
            ports: Vec::new(),
            owner: Owner::Project(project.into()),
        };
        let tap = File::from(network.attach_tap(&endpoint).unwrap());
        Self { tap, endpoint }
    }

    fn mac(&self) -> [u8; 6] {
        self.endpoint.mac().0
    }

    fn ipv6(&self) -> Ipv6Addr {
        let [a, b, c, d] = self.endpoint.address.octets();
        let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, 0])];
        Ipv6Addr::new(0xfd73, 0x7472, words[0], words[1], 0, 0, 0, d.into())
    }

    fn send(&mut self, kind: u16, payload: &[u8], marker: [u8; 4]) {
        let mut frame = vec![0; VIRTIO];
        frame.extend(ALL);
        frame.extend(self.mac());
        frame.extend(kind.to_be_bytes());
        // The last bytes of every payload here are for the marker.
        frame.extend(&payload[..payload.len() - marker.len()]);
        frame.extend(marker);
        self.tap.write_all(&frame).unwrap();
    }

    /// Whether a frame that ends so comes within a moment.
    fn hears(&mut self, marker: [u8; 4], wait: Duration) -> bool {
        let end = Instant::now() + wait;
        let mut frame = vec![0; 4096];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = left.try_into().unwrap();
            let flags = rustix::event::PollFlags::IN;
            let mut ready = [rustix::event::PollFd::new(&self.tap, flags)];
            if rustix::event::poll(&mut ready, Some(&left)).unwrap() == 0 {
                return false;
            }
            if let Ok(length) = self.tap.read(&mut frame)
                && frame[..length].ends_with(&marker)
            {
                return true;
            }
        }
    }
}

fn arp(operation: u8, mac: [u8; 6], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut all = vec![0, 1, 8, 0, 6, 4, 0, operation];
    all.extend(mac);
    all.extend(from.octets());
    all.extend([0; 6]);
    all.extend(to.octets());
    all.extend([0; 4]);
    all
}

fn udp(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16)) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(from.octets());
    ip.extend(to.octets());
    let words = ip.chunks(2);
    let sum: u32 = words
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(ports.0.to_be_bytes());
    ip.extend(ports.1.to_be_bytes());
    ip.extend([0, 12, 0, 0, 0, 0, 0, 0]);
    ip
}

/// A part of a packet of TCP: the offset in units of 8 bytes, and whether more
/// follow.
fn part(own: &Guest, other: &Guest, (offset, more): (u16, bool), tcp: &[u8]) -> Vec<u8> {
    let mut ip = udp(own.endpoint.address, other.endpoint.address, (0, 0));
    ip.truncate(20);
    ip[3] = 20 + tcp.len() as u8;
    ip[6..8].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
    ip[9] = 6;
    ip.extend(tcp);
    ip
}

/// A header of TCP with these flags, and the room for a marker behind it.
fn tcp(flags: u8) -> Vec<u8> {
    let mut header = vec![0, 80, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 4, 0];
    header.extend([0; 8]);
    header
}

fn packet6(from: Ipv6Addr, to: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut all = vec![0x60, 0, 0, 0];
    all.extend((payload.len() as u16).to_be_bytes());
    all.extend([next, 255]);
    all.extend(from.octets());
    all.extend(to.octets());
    all.extend(payload);
    all
}

fn icmp6(from: Ipv6Addr, kind: u8, target: Ipv6Addr) -> Vec<u8> {
    let everyone = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut message = vec![kind, 0, 0, 0, 0x20, 0, 0, 0];
    message.extend(target.octets());
    message.extend([0; 4]);
    packet6(from, everyone, 58, &message)
}

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;

/// Frames with what is wrong with each; none for those that are right.
fn frames(own: &Guest, other: &Guest) -> Vec<(&'static str, u16, Vec<u8>, bool)> {
    let (mac, address, own6) = (own.mac(), own.endpoint.address, own.ipv6());
    let (victim, victim6) = (other.endpoint.address, other.ipv6());
    let gateway: Ipv4Addr = "10.42.0.1".parse().unwrap();
    let local: Ipv6Addr = "fe80::1234".parse().unwrap();
    let none = Ipv4Addr::UNSPECIFIED;
    let none6 = Ipv6Addr::UNSPECIFIED;
    let wide = Ipv4Addr::BROADCAST;
    let mut odd = arp(2, mac, victim, victim);
    odd[4] = 8;
    let tagged = |inner: u16, payload: Vec<u8>| {
        let mut all = vec![0, 0];
        all.extend(VLAN.to_be_bytes());
        all.extend([0, 0]);
        all.extend(inner.to_be_bytes());
        all.extend(payload);
        all
    };
    let to_client6 = packet6(own6, victim6, 17, &[2, 35, 2, 34, 0, 12, 0, 0, 0, 0, 0, 0]);
    let mut hidden = vec![58, 0, 0, 0, 0, 0, 0, 0];
    hidden.extend([134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    hidden.extend([0; 4]);
    let hidden = packet6(local, "ff02::1".parse().unwrap(), 60, &hidden);
    vec![
        ("own ARP", ARP, arp(2, mac, address, victim), true),
        ("ARP probe", ARP, arp(1, mac, none, victim), true),
        ("ARP of another", ARP, arp(2, mac, victim, victim), false),
        (
            "ARP of the gateway",
            ARP,
            arp(2, mac, gateway, victim),
            false,
        ),
        (
            "ARP with another MAC",
            ARP,
            arp(2, other.mac(), address, victim),
            false,
        ),
        ("ARP of another shape", ARP, odd, false),
        ("own IPv4", IPV4, udp(address, victim, (9, 9)), true),
        ("IPv4 of another", IPV4, udp(victim, wide, (9, 9)), false),
        (
            "IPv4 of the gateway",
            IPV4,
            udp(gateway, victim, (9, 9)),
            false,
        ),
        ("request of a lease", IPV4, udp(none, wide, (68, 67)), true),
        ("no address", IPV4, udp(none, wide, (9, 9)), false),
        ("lease", IPV4, udp(address, wide, (67, 68)), false),
        ("own IPv6", IPV6, icmp6(own6, 128, victim6), true),
        ("IPv6 of another", IPV6, icmp6(victim6, 128, victim6), false),
        ("lease of DHCPv6", IPV6, to_client6, false),
        ("solicitation", IPV6, icmp6(none6, 135, own6), true),
        ("own advertisement", IPV6, icmp6(own6, 136, own6), true),
        (
            "link-local advertisement",
            IPV6,
            icmp6(local, 136, local),
            true,
        ),
        (
            "advertisement of another",
            IPV6,
            icmp6(own6, 136, victim6),
            false,
        ),
        (
            "the same by link-local",
            IPV6,
            icmp6(local, 136, victim6),
            false,
        ),
        ("router advertisement", IPV6, icmp6(local, 134, own6), false),
        ("the same behind options", IPV6, hidden, false),
        ("redirect", IPV6, icmp6(local, 137, own6), false),
        (
            "tag in a tag",
            VLAN,
            tagged(ARP, arp(2, mac, victim, victim)),
            false,
        ),
        ("another protocol", 0x88b5, vec![0; 46], false),
    ]
}

/// Both ports pass frames once their carriers are known.
fn until_frames_pass(from: &mut Guest, to: &mut Guest) {
    let (address, other) = (from.endpoint.address, to.endpoint.address);
    let ready = arp(1, from.mac(), address, other);
    let end = Instant::now() + Duration::from_secs(10);
    while {
        from.send(ARP, &ready, *b"head");
        !to.hears(*b"head", Duration::from_millis(50))
    } {
        assert!(Instant::now() < end, "nothing passes");
    }
}

#[test]
fn guest_passes_for_no_other_endpoint_that_it_may_reach() {
    on_a_host(|host| {
        let network = host.open();
        let mut shop = Guest::of(&network, "shop");
        let mut rival = Guest::of(&network, "rival");
        network
            .set_projects(ProjectAccess {
                allowed: [("rival".to_owned(), "shop".to_owned())].into(),
                ..ProjectAccess::default()
            })
            .unwrap();
        until_frames_pass(&mut rival, &mut shop);
        let mut wrong = Vec::new();
        for (number, (what, kind, payload, passes)) in (0_u16..).zip(frames(&rival, &shop)) {
            let [high, low] = number.to_be_bytes();
            let marker = [0xa5, 0x5a, high, low];
            rival.send(kind, &payload, marker);
            let wait = if passes { 5000 } else { 150 };
            if shop.hears(marker, Duration::from_millis(wait)) != passes {
                wrong.push(what);
            }
        }
        assert_eq!(wrong, [""; 0]);
        // The attack is a real one: without the rules it gets through.
        run("nft flush chain bridge strata-t1 arriving");
        let (victim, mac) = (shop.endpoint.address, rival.mac());
        rival.send(ARP, &arp(2, mac, victim, victim), *b"tail");
        assert!(shop.hears(*b"tail", Duration::from_secs(5)));
    });
}

/// What one project may only answer: whole packets, and parts of which the bridge
/// cannot see whether they begin a connection.
fn answers(own: &Guest, other: &Guest) -> Vec<(&'static str, u16, Vec<u8>, bool)> {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    let (own6, other6) = (own.ipv6(), other.ipv6());
    let datagram = udp(own.endpoint.address, other.endpoint.address, (9, 9));
    let whole = |flags| part(own, other, (0, false), &tcp(flags));
    // The header of fragments, of which this is the first and has eight bytes.
    let mut first6 = vec![6, 0, 0, 1, 0, 0, 0, 7];
    first6.extend(&tcp(SYN)[..8]);
    // The second one of two headers of options is not in it.
    let hidden6 = [60, 0, 0, 1, 0, 0, 0, 7, 60, 0, 1, 4, 0, 0, 0, 0];
    vec![
        ("acknowledgement", IPV4, whole(ACK), true),
        ("answer to a connection", IPV4, whole(SYN | ACK), true),
        ("datagram", IPV4, datagram, true),
        ("message of IPv6", IPV6, icmp6(own6, 128, other6), true),
        ("connection", IPV4, whole(SYN), false),
        (
            "first part that ends before the flags",
            IPV4,
            part(own, other, (0, true), &tcp(SYN)[..8]),
            false,
        ),
        (
            "first part with flags that the second replaces",
            IPV4,
            part(own, other, (0, true), &tcp(ACK)),
            false,
        ),
        (
            "second part, with the flags",
            IPV4,
            part(own, other, (1, false), &tcp(SYN)[8..]),
            false,
        ),
        (
            "answer to a connection of IPv6",
            IPV6,
            packet6(own6, other6, 6, &tcp(SYN | ACK)),
            true,
        ),
        (
            "connection of IPv6",
            IPV6,
            packet6(own6, other6, 6, &tcp(SYN)),
            false,
        ),
        (
            "first part of it that ends before the flags",
            IPV6,
            packet6(own6, other6, 44, &first6),
            false,
        ),
        (
            "first part of it that ends before TCP",
            IPV6,
            packet6(own6, other6, 44, &hidden6),
            false,
        ),
    ]
}

#[test]
fn project_that_may_only_answer_begins_no_connection_in_fragments() {
    on_a_host(|host| {
        without_bridge_netfilter();
        let network = host.open();
        let mut shop = Guest::of(&network, "shop");
        let mut rival = Guest::of(&network, "rival");
        network
            .set_projects(ProjectAccess {
                allowed: [("rival".to_owned(), "shop".to_owned())].into(),
                ..ProjectAccess::default()
            })
            .unwrap();
        until_frames_pass(&mut rival, &mut shop);
        let (frames, mut wrong) = (answers(&shop, &rival), Vec::new());
        for (number, (what, kind, payload, passes)) in (0_u16..).zip(frames) {
            let [high, low] = number.to_be_bytes();
            let marker = [0x5a, 0xa5, high, low];
            shop.send(kind, &payload, marker);
            let wait = if passes { 5000 } else { 150 };
            if rival.hears(marker, Duration::from_millis(wait)) != passes {
                wrong.push(what);
            }
        }
        assert_eq!(wrong, [""; 0]);
    });
}

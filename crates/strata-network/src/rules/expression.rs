//! Rules, expression by expression, as the kernel's small machine runs them.
//! The numbers of the attributes are those of `linux/netfilter/nf_tables.h`.

use std::net::IpAddr;

use crate::Subnet;
use crate::link::{family_of, octets};
use crate::netlink::{Batch, flag, nft};

/// The first of the machine's 32 bit registers.
pub(super) const R0: u32 = 8;
/// The first of those for a project and what it reaches, side by side.
const PAIR: u32 = R0 + 4;
const VERDICT: u32 = 0;
const META_PROTOCOL: u32 = 1;
const META_MARK: u32 = 3;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const LINK: u32 = 0;
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const CT_STATE: u32 = 0;
const CT_STATUS: u32 = 2;

/// A limit that goes on where it is exceeded.
const OVER: u32 = 1;

/// Where the flags are in a header of TCP.
const FLAGS: u32 = 13;

/// Where a hardware address is that a frame comes from.
const HARDWARE_SOURCE: u32 = 6;
const HARDWARE_LENGTH: u32 = 6;

/// What becomes of a packet.
pub(super) enum PacketVerdict<'a> {
    Accept,
    Drop,
    Jump(&'a str),
    /// Back to where it jumped from.
    Return,
}

/// A side of a packet.
#[derive(Clone, Copy)]
pub(super) enum PacketSide {
    Source,
    Destination,
}

/// Whether a test is for or against.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Match {
    In,
    NotIn,
}

/// The expressions of one rule.
pub(super) struct Rule<'a>(&'a mut Batch);

/// Appends a rule to a chain.
pub(super) fn rule(batch: &mut Batch, table: &str, chain: &str, fill: impl FnOnce(&mut Rule<'_>)) {
    rule_of(batch, nft::NFPROTO_INET, (table, chain), fill);
}

/// The same in a table of another family.
pub(super) fn rule_of(
    batch: &mut Batch,
    family: u8,
    (table, chain): (&str, &str),
    fill: impl FnOnce(&mut Rule<'_>),
) {
    batch
        .message(
            nft::NEWRULE,
            flag::CREATE | flag::APPEND,
            &[family, 0, 0, 0],
        )
        .put_text(nft::RULE_TABLE, table)
        .put_text(nft::RULE_CHAIN, chain)
        .nest(nft::RULE_EXPRESSIONS, |list| fill(&mut Rule(list)));
}

impl Rule<'_> {
    fn push(&mut self, name: &str, fill: impl FnOnce(&mut Batch)) -> &mut Self {
        self.0.nest(nft::LIST_ELEM, |element| {
            element
                .put_text(nft::EXPR_NAME, name)
                .nest(nft::EXPR_DATA, fill);
        });
        self
    }

    fn meta(&mut self, key: u32, into: u32) -> &mut Self {
        self.push("meta", |data| {
            data.put_be32(1, into).put_be32(2, key);
        })
    }

    fn compare(&mut self, is: Match, value: &[u8]) -> &mut Self {
        self.push("cmp", |data| {
            data.put_be32(1, R0)
                .put_be32(2, u32::from(is == Match::NotIn))
                .nest(3, |inner| {
                    inner.put(nft::DATA_VALUE, value);
                });
        })
    }

    fn payload(&mut self, base: u32, offset: u32, length: u32, into: u32) -> &mut Self {
        self.push("payload", |data| {
            data.put_be32(1, into)
                .put_be32(2, base)
                .put_be32(3, offset)
                .put_be32(4, length);
        })
    }

    fn masked(&mut self, mask: &[u8]) -> &mut Self {
        self.push("bitwise", |data| {
            data.put_be32(1, R0)
                .put_be32(2, R0)
                .put_be32(3, mask.len() as u32)
                .nest(4, |inner| {
                    inner.put(nft::DATA_VALUE, mask);
                })
                .nest(5, |inner| {
                    inner.put(nft::DATA_VALUE, &vec![0; mask.len()]);
                });
        })
    }

    /// It came in by this interface.
    pub(super) fn came_by(&mut self, is: Match, name: &str) -> &mut Self {
        self.meta(META_IIFNAME, R0).compare(is, &padded(name))
    }

    /// It goes out by this interface.
    pub(super) fn leaves_by(&mut self, is: Match, name: &str) -> &mut Self {
        self.meta(META_OIFNAME, R0).compare(is, &padded(name))
    }

    /// It goes out by an interface whose name begins so.
    pub(super) fn leaves_by_prefix(&mut self, is: Match, prefix: &str) -> &mut Self {
        self.meta(META_OIFNAME, R0).compare(is, prefix.as_bytes())
    }

    /// It came in by one of these interfaces and goes out by one of them.
    pub(super) fn between_interfaces(&mut self, set: &str) -> &mut Self {
        self.meta(META_IIFNAME, R0)
            .lookup(set, None, Match::In)
            .meta(META_OIFNAME, R0)
            .lookup(set, None, Match::In)
    }

    /// It comes from an address that has more connections than this. Such a
    /// packet has to begin one.
    pub(super) fn connections_over(&mut self, like: IpAddr, set: &str, most: u32) -> &mut Self {
        const ADD: u32 = 0;
        self.load_address(PacketSide::Source, like)
            .meter((set, ADD), "connlimit", |limit| {
                limit.put_be32(1, most).put_be32(2, OVER);
            })
    }

    /// It is of a group that has more connections than this, of so many groups
    /// by a hash of its ports that only the kernel knows. Such a packet has to
    /// begin a connection.
    pub(super) fn group_over(&mut self, groups: u32, set: &str, most: u32) -> &mut Self {
        const ADD: u32 = 0;
        self.payload(TRANSPORT, 0, 4, R0)
            .push("hash", |data| {
                data.put_be32(1, R0)
                    .put_be32(2, R0)
                    .put_be32(3, 4)
                    .put_be32(4, groups);
            })
            .meter((set, ADD), "connlimit", |limit| {
                limit.put_be32(1, most).put_be32(2, OVER);
            })
    }

    /// It comes from an address that sends more of them than so many in a
    /// second, after a burst.
    pub(super) fn rate_over(
        &mut self,
        like: IpAddr,
        set: &str,
        (rate, burst): (u64, u32),
    ) -> &mut Self {
        const UPDATE: u32 = 1;
        self.load_address(PacketSide::Source, like)
            .meter((set, UPDATE), "limit", |limit| {
                write_rate(limit, rate, burst);
            })
    }

    /// There are more of them in a second than so many, after a burst.
    pub(super) fn all_over(&mut self, (rate, burst): (u64, u32)) -> &mut Self {
        self.push("limit", |limit| write_rate(limit, rate, burst))
    }

    /// Keeps an expression for each key in a set, and goes on where it does.
    fn meter(
        &mut self,
        (set, operation): (&str, u32),
        name: &str,
        fill: impl FnOnce(&mut Batch),
    ) -> &mut Self {
        self.push("dynset", |data| {
            data.put_text(1, set)
                .put_be32(3, operation)
                .put_be32(4, R0)
                .nest(7, |one| {
                    one.put_text(nft::EXPR_NAME, name)
                        .nest(nft::EXPR_DATA, fill);
                });
        })
    }

    /// It is of this version of IP: 2 for four, 10 for six.
    pub(super) fn version(&mut self, family: u8) -> &mut Self {
        self.meta(META_NFPROTO, R0).compare(Match::In, &[family])
    }

    /// It is TCP or UDP.
    pub(super) fn protocol(&mut self, number: u8) -> &mut Self {
        self.meta(META_L4PROTO, R0).compare(Match::In, &[number])
    }

    /// It goes to this port.
    pub(super) fn wants_port(&mut self, port: u16) -> &mut Self {
        self.payload(TRANSPORT, 2, 2, R0)
            .compare(Match::In, &port.to_be_bytes())
    }

    /// One of its addresses is in a block. Match the version first.
    pub(super) fn address(
        &mut self,
        side: PacketSide,
        is: Match,
        block: (IpAddr, u8),
    ) -> &mut Self {
        let (address, prefix) = block;
        let (bytes, mask) = (octets(address), mask_of(address, prefix));
        self.load_address(side, address);
        if usize::from(prefix) < bytes.len() * 8 {
            self.masked(&mask);
        }
        self.compare(is, &bytes)
    }

    /// The same for one of our subnets, version included.
    pub(super) fn subnet(&mut self, side: PacketSide, is: Match, subnet: Subnet) -> &mut Self {
        let block = (IpAddr::V4(subnet.network()), subnet.prefix());
        self.address(side, is, block)
    }

    /// One of its addresses is in a set of IPv4 addresses.
    pub(super) fn address_in(&mut self, side: PacketSide, is: Match, set: &str) -> &mut Self {
        self.address_like(side, is, set, IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
    }

    /// One of its addresses is in a set of such addresses.
    pub(super) fn address_like(
        &mut self,
        side: PacketSide,
        is: Match,
        set: &str,
        like: IpAddr,
    ) -> &mut Self {
        self.load_address(side, like).lookup(set, None, is)
    }

    /// The hardware address and the address that it comes from are a pair of
    /// this set.
    pub(super) fn pinned(&mut self, is: Match, set: &str, like: IpAddr) -> &mut Self {
        let (offset, length) = place_of_address(PacketSide::Source, like);
        self.payload(LINK, HARDWARE_SOURCE, HARDWARE_LENGTH, R0)
            .payload(NETWORK, offset, length, R0 + 2)
            .lookup(set, None, is)
    }

    /// The frame is of this kind: an EtherType.
    pub(super) fn carries(&mut self, is: Match, kind: u16) -> &mut Self {
        self.meta(META_PROTOCOL, R0)
            .compare(is, &kind.to_be_bytes())
    }

    /// It came in by an interface of this set.
    pub(super) fn came_by_one_of(&mut self, is: Match, set: &str) -> &mut Self {
        self.meta(META_IIFNAME, R0).lookup(set, None, is)
    }

    /// The interface, the hardware address and the address that it comes from
    /// are one of this set.
    pub(super) fn sender_pinned(&mut self, is: Match, set: &str, like: IpAddr) -> &mut Self {
        let place = place_of_address(PacketSide::Source, like);
        self.pinned_at((LINK, HARDWARE_SOURCE), (NETWORK, place), set, is)
    }

    /// The same for what an ARP message says of its sender.
    pub(super) fn arp_sender_pinned(&mut self, is: Match, set: &str) -> &mut Self {
        self.pinned_at((NETWORK, 8), (NETWORK, (14, 4)), set, is)
    }

    /// The same for the address of which a neighbour advertisement speaks.
    pub(super) fn advertised_pinned(&mut self, is: Match, set: &str) -> &mut Self {
        self.pinned_at((LINK, HARDWARE_SOURCE), (TRANSPORT, (8, 16)), set, is)
    }

    fn pinned_at(
        &mut self,
        hardware: (u32, u32),
        (base, (offset, length)): (u32, (u32, u32)),
        set: &str,
        is: Match,
    ) -> &mut Self {
        self.meta(META_IIFNAME, R0)
            .payload(hardware.0, hardware.1, HARDWARE_LENGTH, R0 + 4)
            .payload(base, offset, length, R0 + 6)
            .lookup(set, None, is)
    }

    /// It is an ARP message about IPv4 addresses on Ethernet, so that its fields
    /// are where they are looked for.
    pub(super) fn arp_of_ipv4(&mut self, is: Match) -> &mut Self {
        self.payload(NETWORK, 0, 6, R0)
            .compare(is, &[0, 1, 8, 0, 6, 4])
    }

    /// It is an ARP message of a sender that has no address yet.
    pub(super) fn arp_probe(&mut self) -> &mut Self {
        self.payload(NETWORK, 14, 4, R0).compare(Match::In, &[0; 4])
    }

    /// It is an ICMPv6 message of this type.
    pub(super) fn icmp6(&mut self, kind: u8) -> &mut Self {
        self.protocol(58)
            .payload(TRANSPORT, 0, 1, R0)
            .compare(Match::In, &[kind])
    }

    /// It is a neighbour advertisement of a link-local address. Match the type
    /// first.
    pub(super) fn advertises_link_local(&mut self) -> &mut Self {
        self.payload(TRANSPORT, 8, 2, R0)
            .masked(&[0xff, 0xc0])
            .compare(Match::In, &[0xfe, 0x80])
    }

    /// It goes to a port of this set.
    pub(super) fn wants_port_of(&mut self, set: &str) -> &mut Self {
        self.payload(TRANSPORT, 2, 2, R0)
            .lookup(set, None, Match::In)
    }

    /// It begins a TCP connection: SYN, and no ACK.
    pub(super) fn opens_connection(&mut self) -> &mut Self {
        const SYN: u8 = 0x02;
        const ACK: u8 = 0x10;
        self.shows_flags()
            .masked(&[SYN | ACK])
            .compare(Match::In, &[SYN])
    }

    /// It is a fragment of a packet of IPv4 that carries TCP. Match the kind of
    /// frame first.
    pub(super) fn is_part_of_tcp(&mut self) -> &mut Self {
        // More follow, or an offset; not the bit against fragments.
        const PARTS: [u8; 2] = [0x3f, 0xff];
        self.payload(NETWORK, 9, 1, R0)
            .compare(Match::In, &[6])
            .payload(NETWORK, 6, 2, R0)
            .masked(&PARTS)
            .compare(Match::NotIn, &[0, 0])
    }

    /// The header of IPv6 is followed by that of TCP, with nothing in between.
    /// Match the kind of frame first.
    pub(super) fn is_tcp_at_once(&mut self) -> &mut Self {
        self.payload(NETWORK, 6, 1, R0).compare(Match::In, &[6])
    }

    /// It is of TCP, and long enough to have the flags in it.
    pub(super) fn shows_flags(&mut self) -> &mut Self {
        self.protocol(6).payload(TRANSPORT, FLAGS, 1, R0)
    }

    /// It shows what it carries, and that is not TCP.
    pub(super) fn is_not_tcp(&mut self) -> &mut Self {
        self.meta(META_L4PROTO, R0).compare(Match::NotIn, &[6])
    }

    /// Jumps to where a map leads for one of its addresses.
    pub(super) fn decided_by_address(&mut self, side: PacketSide, like: IpAddr, map: &str) {
        self.load_address(side, like)
            .lookup(map, Some(VERDICT), Match::In);
    }

    /// Jumps to where a map leads for the interface it came in by.
    pub(super) fn decided_by_port(&mut self, map: &str) {
        self.meta(META_IIFNAME, R0)
            .lookup(map, Some(VERDICT), Match::In);
    }

    /// A project and the address it goes to are in a set.
    pub(super) fn reaches_address(&mut self, project: u32, like: IpAddr, set: &str) -> &mut Self {
        let (offset, length) = place_of_address(PacketSide::Destination, like);
        self.immediate(PAIR, &project.to_ne_bytes())
            .payload(NETWORK, offset, length, PAIR + 1)
            .lookup_from(PAIR, set, None, Match::In)
    }

    /// A project and the interface it goes out by are in a set.
    pub(super) fn reaches_port(&mut self, project: u32, set: &str) -> &mut Self {
        self.immediate(PAIR, &project.to_ne_bytes())
            .meta(META_OIFNAME, PAIR + 1)
            .lookup_from(PAIR, set, None, Match::In)
    }

    /// It goes out by an interface of this set.
    pub(super) fn leaves_by_one_of(&mut self, set: &str) -> &mut Self {
        self.meta(META_OIFNAME, R0).lookup(set, None, Match::In)
    }

    fn load_address(&mut self, side: PacketSide, like: IpAddr) -> &mut Self {
        let (offset, length) = place_of_address(side, like);
        self.payload(NETWORK, offset, length, R0)
    }

    /// It is UDP and of the VXLAN with this number.
    pub(super) fn overlay(&mut self, port: u16, id: u32) -> &mut Self {
        let [_, a, b, c] = id.to_be_bytes();
        self.protocol(17)
            .wants_port(port)
            .payload(TRANSPORT, 12, 3, R0)
            .compare(Match::In, &[a, b, c])
    }

    /// Its destination is an address of this host.
    pub(super) fn is_for_this_host(&mut self) -> &mut Self {
        const ADDRTYPE: u32 = 3;
        const DESTINATION: u32 = 2;
        const LOCAL: u32 = 2;
        self.push("fib", |data| {
            data.put_be32(1, R0)
                .put_be32(2, ADDRTYPE)
                .put_be32(3, DESTINATION);
        })
        .compare(Match::In, &LOCAL.to_ne_bytes())
    }

    /// Its mark has this bit.
    pub(super) fn marked(&mut self, bit: u32) -> &mut Self {
        self.meta(META_MARK, R0)
            .masked(&bit.to_ne_bytes())
            .compare(Match::NotIn, &[0; 4])
    }

    /// Puts a bit into its mark, or takes it out. The other bits stay.
    pub(super) fn mark(&mut self, bit: u32, on: bool) -> &mut Self {
        let put = if on { bit } else { 0 };
        self.meta(META_MARK, R0)
            .push("bitwise", |data| {
                data.put_be32(1, R0)
                    .put_be32(2, R0)
                    .put_be32(3, 4)
                    .nest(4, |inner| {
                        inner.put(nft::DATA_VALUE, &(!bit).to_ne_bytes());
                    })
                    .nest(5, |inner| {
                        inner.put(nft::DATA_VALUE, &put.to_ne_bytes());
                    });
            })
            .push("meta", |data| {
                data.put_be32(2, META_MARK).put_be32(3, R0);
            })
    }

    /// Its connection has one of these states (1 << 1 established, 1 << 2
    /// related).
    pub(super) fn state(&mut self, bits: u32) -> &mut Self {
        self.connection(CT_STATE, bits)
    }

    /// Its connection was passed on by a published port.
    pub(super) fn passed_on(&mut self) -> &mut Self {
        const DST_NAT: u32 = 1 << 5;
        self.connection(CT_STATUS, DST_NAT)
    }

    fn connection(&mut self, key: u32, bits: u32) -> &mut Self {
        self.push("ct", |data| {
            data.put_be32(1, R0).put_be32(2, key);
        })
        .masked(&bits.to_ne_bytes())
        .compare(Match::NotIn, &[0; 4])
    }

    fn lookup(&mut self, set: &str, into: Option<u32>, is: Match) -> &mut Self {
        self.lookup_from(R0, set, into, is)
    }

    fn lookup_from(&mut self, from: u32, set: &str, into: Option<u32>, is: Match) -> &mut Self {
        self.push("lookup", |data| {
            data.put_text(1, set).put_be32(2, from);
            if let Some(register) = into {
                data.put_be32(3, register);
            }
            if is == Match::NotIn {
                data.put_be32(5, 1);
            }
        })
    }

    /// Looks up `[address .] protocol . port` in a map and sends the packet
    /// to the address and port found there.
    pub(super) fn publish(&mut self, map: &str, like: IpAddr, by_address: bool) -> &mut Self {
        let words = octets(like).len() as u32 / 4;
        let mut register = R0;
        self.version(family_of(like));
        if by_address {
            self.load_address(PacketSide::Destination, like);
            register += words;
        }
        self.meta(META_L4PROTO, register)
            .payload(TRANSPORT, 2, 2, register + 1)
            .lookup(map, Some(R0), Match::In)
            .translate(family_of(like), R0, R0 + words)
    }

    /// Sends the packet to this address and port.
    pub(super) fn send_to(&mut self, address: IpAddr, port: u16) -> &mut Self {
        let bytes = octets(address);
        let second = R0 + bytes.len() as u32 / 4;
        self.immediate(R0, &bytes)
            .immediate(second, &port.to_be_bytes())
            .translate(family_of(address), R0, second)
    }

    fn immediate(&mut self, register: u32, value: &[u8]) -> &mut Self {
        self.push("immediate", |data| {
            data.put_be32(1, register).nest(2, |inner| {
                inner.put(nft::DATA_VALUE, value);
            });
        })
    }

    fn translate(&mut self, family: u8, address: u32, port: u32) -> &mut Self {
        const DESTINATION: u32 = 1;
        self.push("nat", |data| {
            data.put_be32(1, DESTINATION)
                .put_be32(2, family.into())
                .put_be32(3, address)
                .put_be32(5, port);
        })
    }

    /// Lets the packet go out under the address of the interface.
    pub(super) fn masquerade(&mut self) {
        self.push("masq", |_| {});
    }

    pub(super) fn verdict(&mut self, verdict: &PacketVerdict<'_>) {
        let code: i32 = match verdict {
            PacketVerdict::Drop => 0,
            PacketVerdict::Accept => 1,
            PacketVerdict::Jump(_) => -3,
            PacketVerdict::Return => -5,
        };
        self.push("immediate", |data| {
            data.put_be32(1, VERDICT).nest(2, |inner| {
                inner.nest(nft::DATA_VERDICT, |value| {
                    value.put(nft::VERDICT_CODE, &code.to_be_bytes());
                    if let PacketVerdict::Jump(chain) = verdict {
                        value.put_text(nft::VERDICT_CHAIN, chain);
                    }
                });
            });
        });
    }
}

/// A rate of packets in a second, which goes on where it is exceeded.
fn write_rate(limit: &mut Batch, rate: u64, burst: u32) {
    const SECOND: u64 = 1;
    const PACKETS: u32 = 0;
    limit
        .put(1, &rate.to_be_bytes())
        .put(2, &SECOND.to_be_bytes())
        .put_be32(3, burst)
        .put_be32(4, PACKETS)
        .put_be32(5, OVER);
}

fn place_of_address(side: PacketSide, like: IpAddr) -> (u32, u32) {
    match (like, side) {
        (IpAddr::V4(_), PacketSide::Source) => (12, 4),
        (IpAddr::V4(_), PacketSide::Destination) => (16, 4),
        (IpAddr::V6(_), PacketSide::Source) => (8, 16),
        (IpAddr::V6(_), PacketSide::Destination) => (24, 16),
    }
}

fn mask_of(address: IpAddr, prefix: u8) -> Vec<u8> {
    let length = octets(address).len();
    (0..length)
        .map(|byte| {
            let bits = usize::from(prefix).saturating_sub(byte * 8).min(8);
            (0xff00u16 >> bits) as u8
        })
        .collect()
}

/// The name of an interface as the kernel compares it: 16 bytes.
pub(super) fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

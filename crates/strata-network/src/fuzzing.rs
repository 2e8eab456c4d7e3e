//! Packets of pods, guests and name servers, and networks as callers write
//! them: fuzzed by `fuzz/`.

use std::net::{IpAddr, Ipv4Addr};

use crate::dhcp::{client, packet};
use crate::names::{Directory, message};
use crate::{Endpoint, Mac, Subnet};

pub type Target = fn(&[u8]);

/// The targets, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("dns", dns), ("dhcp", dhcp), ("subnet", subnet)];

const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const POD: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 7);
const NIC: Mac = Mac([2, 0, 10, 42, 0, 7]);
/// Of the requests that answers are read for.
const NUMBER: u32 = 0x0102_0304;

fn subnet_of_pods() -> Option<Subnet> {
    Subnet::new(Ipv4Addr::new(10, 42, 0, 0), 16).ok()
}

/// A question of a pod, and the same as an answer of a name server.
fn dns(data: &[u8]) {
    let Some(range) = subnet_of_pods() else {
        return;
    };
    let directory = Directory::new(range, GATEWAY, crate::RemoteNames::default());
    directory.insert(&Endpoint {
        name: "web".into(),
        aliases: vec!["www".into()],
        address: POD,
        ports: Vec::new(),
        owner: Default::default(),
    });
    for source in [POD, Ipv4Addr::LOCALHOST] {
        if let message::QueryAction::Reply(reply) =
            message::react(data, &directory, IpAddr::V4(source))
        {
            assert!(message::answers(data, &reply) || reply.len() >= 12);
        }
    }
    let _ = message::failure(data);
    let (question, answer) = data.split_at(data.len() / 2);
    let _ = message::answers(question, answer);
}

/// A request of a guest, and the same as an answer of a server.
fn dhcp(data: &[u8]) {
    let offer = |_| {
        Some(packet::Offer {
            address: POD,
            name: "web".into(),
            subnet: subnet_of_pods()?,
            mtu: 1450,
        })
    };
    if let Some(reply) = packet::answer(data, offer) {
        assert!((300..2048).contains(&reply.len()));
    }
    let _ = client::read(data, NUMBER, NIC);
}

fn subnet(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(read) = text.parse::<Subnet>() else {
        return;
    };
    assert_eq!(read.to_string().parse::<Subnet>().ok(), Some(read));
    assert!(read.contains(read.network()) && read.covers(read));
    let _ = (read.gateway(), read.broadcast(), read.mask(), read.size());
    assert_eq!(read.index_of(read.at(0)), Some(0));
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        super::replay::replay(super::TARGETS);
    }
}

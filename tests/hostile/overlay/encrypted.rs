//! On a kernel with WireGuard: nothing of what instances say is on the wire,
//! and nothing that others make up gets in.

use std::net::{Ipv4Addr, UdpSocket};

use strata_testkit::cluster::Cluster;
use strata_testkit::{Capture, NetworkNamespace, wait_for};

use super::cost;
use super::forged::{self, VXLAN_PORT};
use super::world::{
    InstanceLocator, SECRET, WIREGUARD_PORT, arrives, cluster, has_wireguard, reporter,
};
use crate::hostile::TEST_TIMEOUT;

#[tokio::test(flavor = "multi_thread")]
async fn instances_talk_in_secret_and_nothing_forged_arrives() {
    if !has_wireguard() {
        return; // `guest` has a kernel that has it.
    }
    let mut cluster = cluster(&["auto", "required"]).await;
    let wire = Capture::start(cluster.switch.network(), SECRET);
    let (one, two) = (
        reporter(&cluster, "one").await,
        reporter(&cluster, "two").await,
    );
    assert_ne!(one.node, two.node);
    for (from, to) in [(&one, &two), (&two, &one)] {
        from.is_told(&cluster, to).await;
        // Packets of full size pass, whatever is put around them.
        from.downloads(&cluster, to).await;
    }
    let mtu = one.sh(&cluster, "cat /sys/class/net/eth0/mtu").await;
    assert_eq!(mtu.as_deref(), Ok("1440"));
    let seen = wire.seen();
    assert!(seen.marked.is_empty(), "{:?}", seen.marked);
    assert_eq!(seen.to_port(VXLAN_PORT), 0, "{:?}", seen.datagrams);
    assert!(seen.to_port(WIREGUARD_PORT) > 1000, "{:?}", seen.datagrams);
    for node in ["n1", "n2"] {
        let shown = cluster.node_is(node, "READY").await;
        assert_eq!(shown["overlayEncryption"], "wireguard");
    }

    // VXLAN in the clear is dropped, from an untrusted party and from a peer.
    let victim = &cluster.nodes[two.node];
    let unauthenticated = cluster.switch.plug(99);
    let peer = cluster.nodes[one.node].network();
    for (network, marker) in [
        (&unauthenticated.network, "forged-by-a-stranger"),
        (peer, "forged-by-a-peer"),
    ] {
        let who = (one.address, two.address);
        let forge = || forged::send(network, victim.plug.address, who, marker);
        let arrived = arrives(victim.network(), marker, two.address, forge).await;
        assert!(!arrived, "{marker}");
    }
    // A third node is a peer, and speaks for itself alone.
    cluster
        .add_node_with(&super::world::node_config("auto"))
        .await;
    a_third_node_does_not_pass_for_another(&cluster, &one, &two).await;
}

/// It has a key that all know, and sends with the address of another's
/// instance.
async fn a_third_node_does_not_pass_for_another(
    cluster: &Cluster,
    one: &InstanceLocator,
    two: &InstanceLocator,
) {
    let three = reporter(cluster, "three").await;
    three.is_told(cluster, two).await;
    let attacker = cluster.nodes[three.node].network();
    let (victim, to) = (cluster.nodes[two.node].network(), two.address);
    // Its own address: the attack would be seen, if it got through.
    let own = Ipv4Addr::from_bits(three.address.to_bits() & !0xff | 1);
    let sent = || send(attacker, own, to, "sent-as-itself");
    assert!(arrives(victim, "sent-as-itself", to, sent).await);
    let other = format!("{}/32", one.address);
    attacker.run(["ip", "addr", "add", &other, "dev", "lo"]);
    let spoofed = || send(attacker, one.address, to, "sent-as-another");
    assert!(!arrives(victim, "sent-as-another", to, spoofed).await);
    attacker.run(["ip", "addr", "del", &other, "dev", "lo"]);
}

fn send(network: &NetworkNamespace, from: Ipv4Addr, to: Ipv4Addr, payload: &'static str) {
    let sent = network.inside(move || {
        let socket = UdpSocket::bind((from, 0))?;
        socket.send_to(payload.as_bytes(), (to, 9))
    });
    sent.unwrap();
}

/// A node that cannot encrypt is reached in the clear by one that allows it,
/// which says so, and not by one that does not. The same pairs say what
/// encryption costs.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_encryption_is_reached_by_those_that_allow_it() {
    if !has_wireguard() {
        return; // As above.
    }
    let cluster = cluster(&["auto", "off", "required"]).await;
    let mut tellers = Vec::new();
    for name in ["one", "two", "three"] {
        tellers.push(reporter(&cluster, name).await);
    }
    tellers.sort_by_key(|one| one.node);
    let [auto, off, required] = tellers.as_slice() else {
        panic!("{tellers:?}");
    };
    auto.is_told(&cluster, off).await;
    off.is_told(&cluster, auto).await;
    auto.is_told(&cluster, required).await;
    required.is_told(&cluster, auto).await;
    required.is_not_told(&cluster, off).await;
    off.is_not_told(&cluster, required).await;
    wait_for("a warning", TEST_TIMEOUT, async || {
        let log = cluster.nodes[auto.node].daemon.log();
        match log.contains("is not encrypted: it has no WireGuard key") {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
    for (what, other) in [("in the clear", off), ("encrypted", required)] {
        let network = cluster.nodes[auto.node].network();
        println!("overlay: {what}: {}", cost::measure(network, other.address));
    }
}

//! What holds without encryption, and what a node does that cannot encrypt.

use std::net::Ipv4Addr;

use strata_testkit::{Capture, wait_for};

use super::cost;
use super::forged::{self, VXLAN_PORT};
use super::world::{SECRET, arrives, cluster, has_wireguard, reporter};
use crate::hostile::TEST_TIMEOUT;

/// Also that the attack is a real one: from a peer it gets through, since who
/// sends is all there is to tell by.
#[tokio::test(flavor = "multi_thread")]
async fn plain_overlay_is_closed_to_foreign_hosts_and_open_to_peers() {
    let cluster = cluster(&["off", "off"]).await;
    let (one, two) = (
        reporter(&cluster, "one").await,
        reporter(&cluster, "two").await,
    );
    assert_ne!(one.node, two.node);
    let wire = Capture::start(cluster.switch.network(), SECRET);
    one.is_told(&cluster, &two).await;
    let seen = wire.seen();
    assert!(
        !seen.marked.is_empty() && seen.to_port(VXLAN_PORT) > 0,
        "{seen:?}"
    );

    let victim = &cluster.nodes[two.node];
    let unauthenticated = cluster.switch.plug(99);
    let forge = |network, marker: &str| {
        let who = (one.address, two.address);
        forged::send(network, victim.plug.address, who, marker);
    };
    let from_anonymous = || forge(&unauthenticated.network, "forged-by-a-stranger");
    let network = victim.network();
    assert!(!arrives(network, "forged-by-a-stranger", two.address, from_anonymous).await);
    let from_peer = || forge(cluster.nodes[one.node].network(), "forged-by-a-peer");
    assert!(arrives(network, "forged-by-a-peer", two.address, from_peer).await);
    let cost = cost::measure(cluster.nodes[one.node].network(), two.address);
    println!("overlay: in the clear: {cost}");
    let node = cluster.node_is("n1", "READY").await;
    let shown = node["overlayEncryption"].as_str().unwrap();
    assert_eq!(shown, "none: switched off in the configuration");
}

/// It is the node that requires it that sends nothing, whatever others do.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_requires_encryption_sends_nothing_in_the_clear() {
    let cluster = cluster(&["required", "off"]).await;
    let wire = Capture::start(cluster.switch.network(), SECRET);
    let (one, two) = (
        reporter(&cluster, "one").await,
        reporter(&cluster, "two").await,
    );
    let (strict, open) = match one.node {
        0 => (&one, &two),
        _ => (&two, &one),
    };
    wait_for("a warning", TEST_TIMEOUT, async || {
        let log = cluster.nodes[0].daemon.log();
        match log.contains("traffic with it cannot be encrypted") {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
    strict.is_not_told(&cluster, open).await;
    open.is_not_told(&cluster, strict).await;
    // Of the other node's questions there may be packets, of answers none.
    let to_other: Ipv4Addr = cluster.nodes[1].plug.address;
    let seen = wire.seen();
    let answered = seen.marked.iter().any(|one| one.to == to_other);
    assert!(!answered, "{seen:?}");
    assert!(seen.marked.is_empty(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_without_wireguard_is_warned_of_and_shown() {
    if has_wireguard() {
        // Then there is nothing to warn of.
        return;
    }
    let cluster = cluster(&["auto"]).await;
    let log = cluster.nodes[0].daemon.log();
    assert!(
        log.contains("overlay traffic of this node is not encrypted"),
        "{log}"
    );
    let node = cluster.node_is("n1", "READY").await;
    let shown = node["overlayEncryption"].as_str().unwrap();
    assert_eq!(shown, "none: the kernel has no WireGuard");
    let ran = cluster.cli().run(["node", "show", "n1"]).await.ok();
    assert!(ran.contains("the kernel has no WireGuard"), "{ran}");
}

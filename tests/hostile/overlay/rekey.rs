//! Daemons end, die and come back with other keys, and nodes go for good: what
//! instances say stays off the wire all the while.

use std::net::UdpSocket;

use strata_testkit::cluster::Cluster;
use strata_testkit::{Capture, wait_for};

use super::forged::VXLAN_PORT;
use super::world::{InstanceLocator, SECRET, WIREGUARD_PORT, cluster, has_wireguard, reporter};
use crate::hostile::TEST_TIMEOUT;

#[tokio::test(flavor = "multi_thread")]
async fn overlay_traffic_stays_encrypted_across_restarts_and_rekeying() {
    if !has_wireguard() {
        return; // `guest` has a kernel that has it.
    }
    let mut cluster = cluster(&["auto", "auto"]).await;
    let wire = Capture::start(cluster.switch.network(), SECRET);
    let (one, two) = (
        reporter(&cluster, "one").await,
        reporter(&cluster, "two").await,
    );
    both_are_told(&cluster, &one, &two).await;

    // The device is the kernel's: without a daemon they talk on.
    cluster.nodes[two.node].daemon.kill();
    one.is_told(&cluster, &two).await;
    cluster.nodes[two.node].daemon.restart().await;
    both_are_told(&cluster, &one, &two).await;
    cluster.nodes[two.node].daemon.terminate().await;
    one.is_told(&cluster, &two).await;
    // It comes back with another key, and is known by that.
    let member = &mut cluster.nodes[two.node];
    let file = member.daemon.data_dir().join("node/network/wireguard.key");
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    member.daemon.restart().await;
    assert_ne!(std::fs::read_to_string(&file).unwrap(), old);
    both_are_told(&cluster, &one, &two).await;

    // Somebody takes the device away, and it is made again.
    let device = device_of(&cluster, two.node);
    let network = cluster.nodes[two.node].network().clone();
    network.run(["ip", "link", "del", &device]);
    both_are_told(&cluster, &one, &two).await;
    // Its port is taken while neither daemon nor device are there.
    cluster.nodes[two.node].daemon.terminate().await;
    network.run(["ip", "link", "del", &device]);
    let taken = network.inside(|| UdpSocket::bind(("0.0.0.0", WIREGUARD_PORT)));
    let taken = taken.unwrap();
    cluster.nodes[two.node].daemon.restart().await;
    both_are_told(&cluster, &one, &two).await;
    drop(taken);
    let port = file.with_file_name("wireguard.port");
    let port = std::fs::read_to_string(port).unwrap();
    assert_ne!(port, WIREGUARD_PORT.to_string());

    // One that is gone for good is no peer any more.
    let name = cluster.nodes[two.node].name.clone();
    assert_ne!(device_of(&cluster, one.node), "");
    cluster.destroy("id-two").await.unwrap();
    cluster.settles(&["id-one"], &[]).await;
    cluster
        .cli()
        .run(["node", "remove", &name, "--yes"])
        .await
        .ok();
    wait_for(
        "the device to go",
        TEST_TIMEOUT,
        async || match device_of(&cluster, one.node).as_str() {
            "" => Ok(()),
            device => Err(device.to_owned()),
        },
    )
    .await;
    // Of a run that is taken away nothing is left in the kernel, keys included.
    let daemon = &mut cluster.nodes[two.node].daemon;
    daemon.terminate().await;
    let dir = daemon.data_dir().display().to_string();
    let words = ["down", "--yes", "--data-dir", &dir];
    daemon.cli().run(words).await.ok();
    let links = network.run(["ip", "-o", "link"]);
    assert!(!links.contains("st-"), "{links}");
    let seen = wire.seen();
    assert!(seen.marked.is_empty(), "{:?}", seen.marked);
    assert_eq!(seen.to_port(VXLAN_PORT), 0, "{:?}", seen.datagrams);
}

/// The WireGuard device of a node; empty where it has none.
fn device_of(cluster: &Cluster, node: usize) -> String {
    let links = cluster.nodes[node].network().run(["ip", "-o", "link"]);
    let mut names = links.lines().filter_map(|line| line.split(": ").nth(1));
    let found = names.find(|name| name.ends_with("-wg"));
    found.unwrap_or_default().to_owned()
}

async fn both_are_told(cluster: &Cluster, one: &InstanceLocator, two: &InstanceLocator) {
    one.is_told(cluster, two).await;
    two.is_told(cluster, one).await;
}

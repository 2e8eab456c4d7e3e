//! Instances on different nodes that have a secret to tell, and how it is
//! asked for.

use std::net::Ipv4Addr;
use std::time::Duration;

use strata_testkit::cluster::{Cluster, port};
use strata_testkit::v1::Pod;
use strata_testkit::{Capture, NetworkNamespace, wait_for};

use crate::hostile::{STRATA, TEST_TIMEOUT};

/// What nobody but instances may read.
pub(super) const SECRET: &str = "secret-of-the-overlay-7f3a";
/// Where nodes listen, unless the port is taken.
pub(super) const WIREGUARD_PORT: u16 = 51820;
/// More than any packet holds.
pub(super) const LARGE: usize = 2_000_000;

/// Whether this kernel has WireGuard.
pub(super) fn has_wireguard() -> bool {
    let made = NetworkNamespace::new().output(["ip", "link", "add", "w0", "type", "wireguard"]);
    made.status.success()
}

/// The configuration of a node that encrypts so.
pub(super) fn node_config(encryption: &str) -> String {
    format!("[images]\nhigh_water = 100\n[network]\noverlay_encryption = \"{encryption}\"\n")
}

/// A cluster whose nodes each encrypt as it is said here.
pub(super) async fn cluster(encryption: &[&str]) -> Cluster {
    let mut cluster = Cluster::build(STRATA)
        .nodes(0)
        .server_config("[scheduler]\nlease_seconds = 120\npolicy = \"spread\"\n")
        .start()
        .await;
    for one in encryption {
        cluster.add_node_with(&node_config(one)).await;
    }
    cluster
}

/// An instance that tells the secret, on a node of its own: all have the same
/// port.
pub(super) async fn reporter(cluster: &Cluster, name: &str) -> InstanceLocator {
    let script = format!(
        "mkdir -p /tmp/www; echo {SECRET} >/tmp/www/secret; \
         yes {SECRET} | head -c {LARGE} >/tmp/www/large; \
         httpd -p 80 -h /tmp/www; trap exit TERM; while :; do sleep 60 & wait; done"
    );
    let mut instance = cluster.script(name, &script);
    instance.ports = vec![port(8080, 80)];
    cluster.run(instance).await;
    let (node, pod) = cluster.place(&format!("id-{name}")).await;
    InstanceLocator::new(node, &pod)
}

/// Where an instance is.
#[derive(Clone, Debug)]
pub(super) struct InstanceLocator {
    pub(super) node: usize,
    pub(super) pod: String,
    pub(super) address: Ipv4Addr,
}

impl InstanceLocator {
    fn new(node: usize, pod: &Pod) -> Self {
        Self {
            node,
            pod: pod.spec.as_ref().unwrap().name.clone(),
            address: pod.address.parse().unwrap(),
        }
    }

    /// Runs a script in it.
    pub(super) async fn sh(&self, cluster: &Cluster, script: &str) -> Result<String, String> {
        let node = cluster.nodes[self.node].node().await;
        let done = node.sh(&self.pod, script).await;
        let done = done.map_err(|status| status.to_string())?;
        match done.ended.exit_code {
            Some(0) => Ok(done.stdout.trim().to_owned()),
            _ => Err(format!("{done:?}")),
        }
    }

    /// What it is told by another.
    pub(super) async fn ask(&self, cluster: &Cluster, other: &Self) -> Result<String, String> {
        let fetch = format!("timeout 5 wget -q -O - http://{}/secret", other.address);
        self.sh(cluster, &fetch).await
    }

    /// Waits until it is told the secret by another.
    pub(super) async fn is_told(&self, cluster: &Cluster, other: &Self) {
        wait_for("the other's secret", TEST_TIMEOUT, async || {
            match self.ask(cluster, other).await?.as_str() {
                SECRET => Ok(()),
                said => Err(said.to_owned()),
            }
        })
        .await;
    }

    /// That it is told nothing by another, for some seconds.
    pub(super) async fn is_not_told(&self, cluster: &Cluster, other: &Self) {
        for _ in 0..2 {
            let told = self.ask(cluster, other).await;
            assert!(told.is_err(), "{told:?}");
        }
    }

    /// All of a file that takes many packets of full size.
    pub(super) async fn downloads(&self, cluster: &Cluster, other: &Self) {
        let url = format!("http://{}/large", other.address);
        let script = format!("timeout 60 wget -q -O - {url} | wc -c");
        let size = self.sh(cluster, &script).await.unwrap();
        assert_eq!(size, LARGE.to_string());
    }
}

/// Whether something arrives inside of a node when it is sent: seen on its
/// bridge, not only on the wire.
pub(super) async fn arrives(
    network: &NetworkNamespace,
    marker: &str,
    to: Ipv4Addr,
    send: impl Fn(),
) -> bool {
    let capture = Capture::start(network, marker);
    for _ in 0..10 {
        send();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if capture.seen().marked.iter().any(|one| one.to == to) {
            return true;
        }
    }
    false
}

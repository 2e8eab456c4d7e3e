//! Of its host a pod reaches names, and what the configuration allows.

use std::process::{Child, Stdio};

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::{NetworkNamespace, wait_for};

use super::project_world::{STRATA, run, script};

/// A service of the host that listens on all its addresses.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn service(network: &NetworkNamespace, port: &str) -> Service {
    let mut command = network.command(["python3", "-m", "http.server", port]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let service = Service(command.spawn().unwrap());
    let url = format!("http://127.0.0.1:{port}/");
    wait_for("the service to answer", TEST_TIMEOUT, async || {
        let got = network.output(["curl", "-sf", "-m", "2", "-o", "/dev/null", &url]);
        match got.status.success() {
            true => Ok(()),
            false => Err(format!("{got:?}")),
        }
    })
    .await;
    service
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_reach_services_of_the_host_only_where_allowed() {
    let config = "[network]\nhost_ports = [6790]\n";
    let cluster = Cluster::build(STRATA).nodes(1).node_config(config);
    let cluster = cluster.start().await;
    run(&cluster, script(&cluster, "default", "a", "sleep 1000")).await;
    let (at, pod) = cluster.place("id-a").await;
    let pod_name = pod.spec.unwrap().name;
    let node = cluster.nodes[at].node().await;
    let network = cluster.nodes[at].network();
    let _closed = service(network, "6789").await;
    let _open = service(network, "6790").await;
    let gateway = format!("{}.1", pod.address.rsplit_once('.').unwrap().0);
    let own = cluster.nodes[at].plug.address.to_string();
    for host in [&gateway, &own] {
        for (port, expected) in [(6789, "closed"), (6790, "open")] {
            let url = format!("http://{host}:{port}/");
            let look = format!("timeout 2 wget -q -O /dev/null {url} && echo open || echo closed");
            let said = node.says(&pod_name, &look).await;
            assert_eq!(said.trim(), expected, "{url}");
        }
    }
    // Names are answered as ever.
    let named = node.says(&pod_name, "nslookup a.default").await;
    assert!(named.contains(&pod.address), "{named}");
}

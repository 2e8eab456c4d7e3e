//! A daemon that is both: the server that machines join, and the node that
//! hosts them. Machines reach it at the address of the node's bridge.

use std::path::PathBuf;
use std::time::Duration;

use strata_client::Target;
use strata_machines::{Boot, Secret};
use strata_testkit::machines::{HostDaemon, NestedNode};
use strata_testkit::v1::Machine;
use strata_testkit::{Daemon, NetworkNamespace, serde_json, wait_for};

use crate::providers::STRATA;

const CONFIG: &str = "hosts = ['10.42.7.1']\n[network]\nsubnet = '10.42.7.0/24'\n\
    [images]\nhigh_water = 100\n[scheduler]\nlease_seconds = 3\n";
/// How machines find the server.
pub(crate) const SERVER: &str = "https://10.42.7.1:7700";
/// How long a node may take: a guest without KVM may share two cores with
/// seven other tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);

pub(crate) struct World(pub(crate) HostDaemon);

impl World {
    pub(crate) async fn start() -> Self {
        let network = NetworkNamespace::new();
        let daemon = Daemon::build(STRATA)
            .config(CONFIG)
            .listen("0.0.0.0:7700")
            .within(&network);
        let daemon = daemon.start().await;
        Self(HostDaemon { daemon, network })
    }

    /// How a provider reaches the node.
    pub(crate) fn node(&self) -> Target {
        Target::Unix(self.socket())
    }

    fn socket(&self) -> PathBuf {
        self.0.daemon.data_dir().join("node.sock")
    }

    /// What a machine of this name needs to join.
    pub(crate) async fn boot(&self, name: &str) -> Boot {
        // The same machine is booted again and again.
        let words = [
            "token",
            "create",
            "--name",
            name,
            "--join",
            "--replace",
            "-q",
        ];
        let token = self.0.daemon.cli_with_endpoints().run(words).await.ok();
        Boot {
            server: SERVER.into(),
            join_token: Secret::new(token.trim()),
            labels: [("zone".to_owned(), "a \"b\"".to_owned())].into(),
        }
    }

    /// Waits until the server has a node of this name that is ready.
    pub(crate) async fn node_is_ready(&self, name: &str) -> String {
        self.node_until(name, |status| status == "READY").await
    }

    /// Waits until the server misses a node.
    pub(crate) async fn node_is_not_ready(&self, name: &str) {
        self.node_until(name, |status| status != "READY").await;
    }

    async fn node_until(&self, name: &str, wanted: impl Fn(&str) -> bool) -> String {
        wait_for("the node's status", TEST_TIMEOUT, async || {
            let words = ["node", "list", "-o", "json"];
            let printed = self.0.daemon.cli_with_endpoints().run(words).await.ok();
            let nodes: serde_json::Value = serde_json::from_str(&printed).unwrap();
            let nodes = nodes.as_array().cloned().unwrap_or_default();
            let found = nodes.into_iter().find(|node| node["name"] == name);
            match found {
                Some(node) if wanted(node["status"].as_str().unwrap_or_default()) => {
                    Ok(node.to_string())
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Has a process run in a cell of the node at this address.
    pub(crate) async fn runs_something(&self, address: &str) -> NestedNode {
        let machine = Machine {
            endpoint: format!("https://{address}:7710"),
            ..Machine::default()
        };
        let inside = self.0.reach(machine).await;
        inside.node.allocate("a").await.unwrap();
        let said = inside.node.shell("a", "say", "echo here").await;
        assert_eq!(said, "here");
        inside
    }
}

//! Machines of a cluster: namespaces on one cable, each with an agent that is
//! a process of its own, and pods that the plugins of CNI attach.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use strata_cluster_agent::{
    Agent, AgentConfig, CniConfig, CniPlugins, PeerConfig, PodNetworkConfig,
};
use tempfile::TempDir;

use crate::world::{Namespace, wait_until};

const PLUGINS: &str = "/usr/lib/cni";
/// By this the test's own program knows that it is to be an agent.
const BE_AN_AGENT: &str = "STRATA_TEST_AGENT_CONFIG";

/// The cable that machines are on, and a host on it that is no machine.
pub(crate) struct TestSwitch {
    namespace: Namespace,
    pub(crate) outside: Namespace,
}

impl TestSwitch {
    pub(crate) fn new() -> Self {
        let namespace = Namespace::new();
        namespace.sh("ip link add lan type bridge forward_delay 0 && ip link set lan up");
        let outside = Namespace::new();
        let cable = Self { namespace, outside };
        cable.plug(&cable.outside, 100);
        cable
    }

    fn plug(&self, machine: &Namespace, number: u8) {
        let holder = machine.holder();
        self.namespace.sh(&format!(
            "ip link add to{number} type veth peer name eth0 netns {holder}
             ip link set to{number} master lan up"
        ));
        machine.sh(&format!(
            "ip addr add 192.0.2.{number}/24 dev eth0; ip link set eth0 up"
        ));
    }

    /// A machine with the agent running. Its pods have `10.244.<number>.0/24`.
    pub(crate) fn machine(&self, number: u8, peers: &[u8]) -> Machine {
        let namespace = Namespace::new();
        self.plug(&namespace, number);
        let mut machine = Machine {
            namespace,
            dir: tempfile::tempdir().unwrap(),
            number,
            agent: None,
            pods: 0,
        };
        machine.write(peers);
        machine.start();
        machine.wait_for_peers(peers);
        machine
    }
}

pub(crate) struct Machine {
    pub(crate) namespace: Namespace,
    dir: TempDir,
    number: u8,
    agent: Option<Child>,
    pods: u32,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Machine {
    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir.path().join("agent.json")
    }

    pub(crate) fn config(&self, peers: &[u8]) -> AgentConfig {
        let address = |number| Ipv4Addr::new(192, 0, 2, number);
        let subnet = |number: u8| format!("10.244.{number}.0/24").parse().unwrap();
        AgentConfig {
            version: 1,
            listen: ([127, 0, 0, 1], 7443).into(),
            servers: Vec::new(),
            network: Some(PodNetworkConfig {
                address: address(self.number),
                pod_subnet: subnet(self.number),
                cluster_subnet: "10.244.0.0/16".parse().unwrap(),
                vni: 7443,
                port: 8472,
                mtu: 1450,
                peers: peers
                    .iter()
                    .map(|peer| PeerConfig {
                        address: address(*peer),
                        pod_subnet: subnet(*peer),
                    })
                    .collect(),
            }),
            cni: Some(CniConfig {
                dir: self.dir.path().join("net.d"),
                plugins: CniPlugins::Bridge,
            }),
        }
    }

    /// Writes the configuration as the server does: beside it, then over it.
    pub(crate) fn write(&self, peers: &[u8]) {
        self.write_text(&serde_json::to_vec(&self.config(peers)).unwrap());
    }

    pub(crate) fn write_text(&self, text: &[u8]) {
        let temporary = self.dir.path().join("agent.json.new");
        std::fs::write(&temporary, text).unwrap();
        std::fs::rename(temporary, self.config_path()).unwrap();
    }

    pub(crate) fn start(&mut self) {
        let program = std::env::current_exe().unwrap();
        let agent = self
            .namespace
            .command(program.to_str().unwrap())
            .args(["--exact", "machine::be_an_agent", "--nocapture"])
            .env(BE_AN_AGENT, self.config_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.agent = Some(agent.unwrap());
    }

    /// Kills the agent, which gets to do nothing about it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// Waits until exactly these peers are in the kernel.
    #[track_caller]
    pub(crate) fn wait_for_peers(&self, peers: &[u8]) {
        wait_until("the peers are set", || {
            let links = self.namespace.sh("ip -br link");
            if !links.contains("strata-pods") {
                return false;
            }
            let routes = self.namespace.sh("ip route show dev strata-pods");
            let places = self.namespace.sh("bridge fdb show dev strata-pods");
            let neighbours = self.namespace.sh("ip neigh show dev strata-pods");
            let all = |peer: &u8| {
                routes.contains(&format!("10.244.{peer}.0/24 via 10.244.{peer}.0"))
                    && places.contains(&format!("dst 192.0.2.{peer} "))
                    && neighbours.contains(&format!("10.244.{peer}.0 lladdr 06:73:0a:f4:"))
            };
            let count = [routes.lines(), places.lines(), neighbours.lines()]
                .into_iter()
                .map(Iterator::count);
            let conflist = self.dir.path().join("net.d/10-strata.conflist");
            let rules = self.namespace.sh("nft list tables");
            peers.iter().all(all)
                && count.into_iter().all(|count| count == peers.len())
                && conflist.exists()
                && rules.contains("strata-pod-network")
        });
    }

    /// Attaches a pod as containerd does, plugin after plugin. `ports` are
    /// those of the machine that are passed on to it.
    pub(crate) fn pod(&mut self, ports: &[(u16, u16)]) -> Pod {
        let namespace = Namespace::new();
        self.pods += 1;
        let path = self.dir.path().join("net.d/10-strata.conflist");
        let list: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut result = Value::Null;
        for plugin in list["plugins"].as_array().unwrap() {
            let mut plugin = plugin.clone();
            plugin["name"] = list["name"].clone();
            plugin["cniVersion"] = list["cniVersion"].clone();
            if plugin["type"] == "bridge" {
                // Where it keeps the addresses: not in the host's own directory.
                plugin["ipam"]["dataDir"] = json!(self.dir.path().join("ipam"));
            } else {
                plugin["prevResult"] = result.clone();
            }
            if plugin["capabilities"]["portMappings"] == true {
                let mapping = |(host, port): &(u16, u16)| json!({"hostPort": host, "containerPort": port, "protocol": "tcp"});
                let all: Vec<_> = ports.iter().map(mapping).collect();
                plugin["runtimeConfig"] = json!({ "portMappings": all });
            }
            result = self.call(&plugin, &namespace);
        }
        let address = result["ips"][0]["address"].as_str().unwrap();
        let address = address.split('/').next().unwrap().parse().unwrap();
        Pod { namespace, address }
    }

    fn call(&self, plugin: &Value, pod: &Namespace) -> Value {
        let program = format!("{PLUGINS}/{}", plugin["type"].as_str().unwrap());
        let mut child = self
            .namespace
            .command(&program)
            .env("CNI_COMMAND", "ADD")
            .env(
                "CNI_CONTAINERID",
                format!("pod{}-{}", self.number, self.pods),
            )
            .env("CNI_NETNS", pod.path())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", PLUGINS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(plugin.to_string().as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{plugin}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) address: IpAddr,
}

/// No test: the agent as a process. This program starts itself in the
/// namespace of a machine and is the agent there, until it is killed.
#[test]
fn be_an_agent() {
    let Some(config) = std::env::var_os(BE_AN_AGENT) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let often = Duration::from_millis(200);
    let ended = runtime.block_on(Agent::new(config).every(often).run());
    panic!("{ended:?}");
}

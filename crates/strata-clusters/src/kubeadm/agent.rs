//! What the agent of each machine is sent: the API servers, and the other
//! machines of the cluster.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use strata_types::cluster::{ClusterRole, Member};

use super::config::{API_PORT, POD_RANGE};
use super::machine::{Machine, SHORT_TIMEOUT, Script};
use crate::{ClusterFacts, DriverError};

/// The port that all VXLANs of this kind have.
const PORT: u16 = 8472;
/// Puts the file in place, which the agent follows. How large packets may be
/// the machine knows, and its script fills it in.
pub(super) async fn write_peers(
    cluster: &ClusterFacts,
    member: &Member,
    machine: Machine<'_>,
) -> Result<(), DriverError> {
    let script = Script {
        line: &format!("introduce {}", member.address),
        what: "updating peers",
        input: Some(file(cluster, member)),
        timeout: SHORT_TIMEOUT,
        passing: true,
    };
    machine.script(script).await.map(drop)
}

/// The file for one machine.
fn file(cluster: &ClusterFacts, own: &Member) -> Vec<u8> {
    let others = cluster.members.iter();
    let peers: Vec<Value> = others
        .filter(|member| member.machine != own.machine && !member.address.is_empty())
        .map(|member| json!({"address": member.address, "podSubnet": pods(member)}))
        .collect();
    let file = json!({
        "version": 1,
        "listen": "127.0.0.1:7443",
        "servers": servers(cluster, own),
        "network": {
            "address": own.address,
            "podSubnet": pods(own),
            "clusterSubnet": POD_RANGE,
            "vni": vni(&cluster.id),
            "port": PORT,
            "mtu": 0,
            "peers": peers,
        },
        "cni": {"folder": "/etc/cni/net.d", "plugins": "bridge"},
    });
    file.to_string().into_bytes()
}

/// Those that joined. A machine that is about to become one calls itself as
/// well: for the first machine there is nothing else.
fn servers(cluster: &ClusterFacts, own: &Member) -> Vec<String> {
    let serves = |member: &&Member| {
        member.role == ClusterRole::ControlPlane
            && !member.address.is_empty()
            && (member.joined || member.machine == own.machine)
    };
    let members = cluster.members.iter().filter(serves);
    members
        .map(|member| format!("{}:{API_PORT}", member.address))
        .collect()
}

fn pods(member: &Member) -> String {
    format!("10.244.{}.0/24", member.number)
}

/// The network's number, which has 24 bits: of two clusters on one network it
/// should not be the same.
fn vni(id: &str) -> u32 {
    let sum = Sha256::digest(id.as_bytes());
    u32::from_be_bytes([0, sum[0], sum[1], sum[2]]).max(1)
}

#[cfg(test)]
mod tests {
    use strata_types::cluster::KubernetesVersion;

    use super::*;

    fn member(name: &str, number: u8, joined: bool) -> Member {
        let role = match name.starts_with('w') {
            true => ClusterRole::Worker,
            false => ClusterRole::ControlPlane,
        };
        Member {
            machine: name.parse().unwrap(),
            role,
            pool: String::new(),
            number,
            labels: Default::default(),
            version: KubernetesVersion::new(1, 34, 4),
            address: format!("10.42.0.{number}"),
            joined,
            added_at_ms: 0,
        }
    }

    #[test]
    fn agent_file_lists_peers_and_serving_api_servers() {
        let cluster = ClusterFacts {
            name: "blue".parse().unwrap(),
            id: "one".into(),
            version: KubernetesVersion::new(1, 34, 4),
            controls: 2,
            pod_security: None,
            members: vec![
                member("c1", 1, true),
                member("c2", 2, false),
                member("w1", 3, true),
            ],
            secrets: Default::default(),
        };
        let of = |at: usize| -> Value {
            serde_json::from_slice(&file(&cluster, &cluster.members[at])).unwrap()
        };
        assert_eq!(of(2)["servers"], json!(["10.42.0.1:6443"]));
        assert_eq!(
            of(1)["servers"],
            json!(["10.42.0.1:6443", "10.42.0.2:6443"])
        );
        assert_eq!(of(2)["network"]["podSubnet"], "10.244.3.0/24");
        let peers = json!([
            {"address": "10.42.0.1", "podSubnet": "10.244.1.0/24"},
            {"address": "10.42.0.2", "podSubnet": "10.244.2.0/24"},
        ]);
        assert_eq!(of(2)["network"]["peers"], peers);
        assert_eq!(of(0)["network"]["vni"], of(1)["network"]["vni"]);
        assert_ne!(vni("one"), vni("two"));
        // What the script looks for.
        let text = String::from_utf8(file(&cluster, &cluster.members[0])).unwrap();
        assert!(text.contains("\"mtu\":0,"), "{text}");
    }
}

//! What the agent of each machine is told: who serves the API, and who else
//! is in the cluster.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use strata_types::cluster::{ClusterRole, Member};

use super::config::{API_PORT, POD_RANGE};
use crate::ClusterFacts;

/// The port that all VXLANs of this kind have.
const PORT: u16 = 8472;
/// What is left of a packet when it is wrapped.
const MTU: u32 = 1450;

/// The file for one machine.
pub(super) fn file(cluster: &ClusterFacts, own: &Member) -> Vec<u8> {
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
            "mtu": MTU,
            "peers": peers,
        },
        "cni": {"folder": "/etc/cni/net.d", "plugins": "bridge"},
    });
    file.to_string().into_bytes()
}

/// Those that joined. One that is about to be one asks itself as well: for
/// the first machine there is nobody else.
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

//! Where nodes have followed this server, if it is the only one. While its host
//! refuses connections there, they take that for a heartbeat: no server runs,
//! and one that starts later gives each of them a whole lease. That holds only
//! if it starts in the same place. One that starts elsewhere, with records that
//! were moved to another host, is not found by a node that goes on where it was;
//! so it begins with a waiver for each node that may not find it, as after a
//! restore: nothing of that node is started elsewhere before it has been heard
//! from, or was removed.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use strata_types::Result;

use super::record::Node;
use super::{Core, Precondition};

impl Core {
    /// Where a node reaches this server, which calls it at this address of the
    /// host; empty where there are several servers.
    pub(crate) fn served_at(&self, local: Option<IpAddr>) -> String {
        match (local, self.settings().server_port) {
            (Some(ip), Some(port)) if self.settings().alone => {
                format!("{}/{}", host_id(), SocketAddr::new(ip, port))
            }
            _ => String::new(),
        }
    }

    /// To be called before this server leads.
    pub(crate) async fn waive_leases_of_nodes_served_elsewhere(&self) -> Result<()> {
        let port = self.settings().server_port;
        for node in self.nodes() {
            if !needs_waiver(&node, &host_id(), port, is_address_of_this_host) {
                continue;
            }
            tracing::warn!(
                node = node.name,
                before = node.served_at,
                "this server is not where the node followed it: nothing of the node is started \
                 elsewhere before it connects, or is removed"
            );
            let rule = |now: &Node| Node {
                lease_waived: true,
                ..now.clone()
            };
            let any = Precondition::default();
            self.change_node(&node.name, any, rule).await?;
        }
        Ok(())
    }
}

/// Whether a node may take refused connections elsewhere for heartbeats of the
/// server that starts on this host.
fn needs_waiver(
    node: &Node,
    host: &str,
    port: Option<u16>,
    is_here: impl Fn(IpAddr) -> bool,
) -> bool {
    if !node.holds_leases || node.lease_waived || node.served_at.is_empty() {
        return false;
    }
    let Some((before, address)) = node.served_at.split_once('/') else {
        return true;
    };
    let is_same = address.parse().is_ok_and(|address: SocketAddr| {
        before == host && Some(address.port()) == port && is_here(address.ip())
    });
    !is_same
}

/// The id of the installation of this host; empty where there is none.
fn host_id() -> String {
    let id = std::fs::read_to_string("/etc/machine-id");
    id.unwrap_or_default().trim().to_owned()
}

fn is_address_of_this_host(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(served_at: &str, holds_leases: bool) -> Node {
        let text = serde_json::json!({
            "name": "n1", "subnet": "10.42.1.0/24", "condition": "ready",
            "createdAtMs": 0, "changedAtMs": 0,
            "holdsLeases": holds_leases, "servedAt": served_at,
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn node_that_followed_the_server_in_another_place_gets_a_waiver() {
        let is_here = |ip: IpAddr| ip.to_string() == "192.0.2.1";
        for (served_at, needed) in [
            ("", false),
            ("h1/192.0.2.1:7700", false),
            ("h1/192.0.2.1:7701", true),
            ("h1/192.0.2.2:7700", true),
            ("h2/192.0.2.1:7700", true),
            ("nonsense", true),
        ] {
            let needs = |holds| needs_waiver(&node(served_at, holds), "h1", Some(7700), is_here);
            assert_eq!(needs(true), needed, "{served_at}");
            assert!(!needs(false), "it holds no lease");
        }
    }

    #[test]
    fn only_addresses_of_this_host_are_its_own() {
        assert!(is_address_of_this_host("127.0.0.1".parse().unwrap()));
        assert!(!is_address_of_this_host("192.0.2.1".parse().unwrap()));
    }
}

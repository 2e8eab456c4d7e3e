//! Which nodes can extend the lease of another one while no server is heard: all
//! that it could lose an instance to. Where one of them cannot, none can.

use strata_api::strata::v1;
use strata_types::Result;

use crate::core::Core;

/// With more of them, a node that hears no server would ask for too long.
pub(super) const MOST: usize = 64;

/// The witnesses of a node, with the keys that it shares with each.
pub(super) async fn witnesses(core: &Core, own: &str) -> Result<Option<Vec<v1::Witness>>> {
    let nodes = core.nodes();
    let itself = nodes.iter().find(|node| node.name == own);
    if !itself.is_some_and(|node| node.holds_leases && node.witness_port != 0) {
        return Ok(None);
    }
    // Also those that are lost: they may be back, and take over, before this one
    // hears of it.
    let others: Vec<_> = nodes.iter().filter(|node| node.name != own).collect();
    let able = |node: &crate::core::Node| {
        node.holds_leases && node.witness_port != 0 && !node.address.is_empty()
    };
    if others.len() > MOST || !others.iter().all(|node| able(node)) {
        return Ok(None);
    }
    let secret = core.witness_secret().await?;
    let witness = |node: &&std::sync::Arc<crate::core::Kept<crate::core::Node>>| v1::Witness {
        name: node.name.clone(),
        address: node.address.clone(),
        port: node.witness_port.into(),
        key: pair_key(&secret, own, &node.name).to_vec(),
    };
    Ok(Some(others.iter().map(witness).collect()))
}

/// The key of two nodes, whichever of them asks.
fn pair_key(secret: &[u8], one: &str, other: &str) -> [u8; 32] {
    let (first, second) = if one < other {
        (one, other)
    } else {
        (other, one)
    };
    let pair = format!("witness {}:{first} {}:{second}", first.len(), second.len());
    strata_identity::hmac_sha256(secret, pair.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_share_a_key_that_no_third_has() {
        let key = |one, other| pair_key(b"secret", one, other);
        assert_eq!(key("n1", "n2"), key("n2", "n1"));
        assert_ne!(key("n1", "n2"), key("n1", "n3"));
        assert_ne!(key("n1", "n2"), pair_key(b"another", "n1", "n2"));
        assert_ne!(key("a b", "c"), key("a", "b c"));
    }
}

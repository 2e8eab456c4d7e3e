//! What must not go on in a store that was brought back from a backup: it tells
//! of a world that may be another by now.

use strata_store::{Store, Transaction};
use strata_types::Result;
use strata_workflow::{Operations, Registry};

use crate::core::{Node, decode, encode_over, keys, public};
use crate::operations::{POOL, public as operation_failed};

/// Makes a store that was imported ready to be begun with.
///
/// Operations that had not ended are forgotten: what they were about to do was
/// meant for the machines of then. Unless it is to take over, the control plane
/// gets another id: machines that carry the old one may belong to somebody who
/// is alive, and are neither used nor given back.
///
/// Which key is a node's is not known any more: it may have been renewed since.
/// Each node is bound to the first one that comes with a valid certificate.
pub async fn begin_anew(store: std::sync::Arc<dyn Store>, take_over: bool) -> Result<usize> {
    let operations = Operations::new(store.clone(), Registry::new());
    let forgotten = operations.forget_unfinished().await;
    let forgotten = forgotten.map_err(|error| operation_failed(&error))?;
    let mut change = Transaction::new().delete(POOL);
    if !take_over {
        change = change.delete(keys::RUN);
    }
    store.commit(change).await.map_err(public)?;
    unbind_nodes(store.as_ref()).await?;
    Ok(forgotten)
}

async fn unbind_nodes(store: &dyn Store) -> Result<()> {
    let nodes = store.list(keys::NODES).await.map_err(public)?;
    for entry in nodes.entries {
        let Ok(mut node) = decode::<Node>(&entry.key, &entry.value) else {
            tracing::warn!(key = entry.key, "node record cannot be read: left as it is");
            continue;
        };
        if node.keys.is_empty() && node.expected_by.is_empty() {
            continue;
        }
        node.keys.clear();
        // The operation that expected it was forgotten.
        node.expected_by.clear();
        let text = encode_over(&entry.value, &node)?;
        let put = Transaction::new().put(entry.key, text);
        store.commit(put).await.map_err(public)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use strata_store::Memory;

    use super::*;

    #[tokio::test]
    async fn a_restored_node_is_bound_to_the_key_it_has_by_now() {
        let store = Arc::new(Memory::new());
        let record = serde_json::json!({
            "name": "n1", "subnet": "10.42.1.0/24", "condition": "ready",
            "createdAtMs": 0, "changedAtMs": 0, "keys": ["k1"], "expectedBy": "op",
        });
        let key = keys::node("n1");
        let put = Transaction::new().put(&*key, record.to_string());
        store.commit(put).await.unwrap();
        begin_anew(store.clone(), true).await.unwrap();
        let entry = store.get(&key).await.unwrap().unwrap();
        let node: Node = decode(&key, &entry.value).unwrap();
        assert!(node.keys.is_empty() && node.expected_by.is_empty());
        assert_eq!(node.subnet, "10.42.1.0/24");
    }
}

//! What must not go on in a store that was brought back from a backup: it reports
//! of a world that may be another by now.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use strata_identity::Revocation;
use strata_store::{Store, Transaction};
use strata_types::{Result, Role};
use strata_workflow::{Operations, Registry};

use crate::core::{Instance, Node, RevocationRecord, decode, encode, encode_over, keys, public};
use crate::operations::{POOL, public as operation_failed};

const REVOKED_BY: &str = "strata restore";

/// How a store that was imported begins.
#[derive(Clone, Debug, Default)]
pub struct AdoptOptions {
    /// As the control plane that was backed up.
    pub take_over: bool,
    /// Roles whose certificates from before are refused.
    pub revoke: Vec<Role>,
}

/// Makes a store that was imported ready to be begun with.
///
/// Operations that had not ended are removed: what they were about to do was
/// meant for the machines of then. Unless it is to take over, the control plane
/// gets another id: machines that carry the old one may belong to a caller who
/// is alive, and are neither used nor released.
///
/// Which key is a node's is not known any more: it may have been renewed since.
/// Each node is bound to the first one that comes with a valid certificate.
/// Nor is it known what was revoked since (decision 47), nor what was placed,
/// lost or promised: nothing of a node that holds leases is started elsewhere
/// before it has been heard from, or was removed (decision 50).
pub async fn adopt_restored_store(store: Arc<dyn Store>, how: &AdoptOptions) -> Result<usize> {
    let operations = Operations::new(store.clone(), Registry::new());
    let forgotten = operations.delete_unfinished().await;
    let forgotten = forgotten.map_err(|error| operation_failed(&error))?;
    let mut change = Transaction::new().delete(POOL);
    if !how.take_over {
        change = change.delete(keys::RUN);
    }
    for role in &how.revoke {
        let record = revoked_role(*role);
        change = change.put(keys::revoked_role(*role), encode(&record)?);
    }
    store.commit(change).await.map_err(public)?;
    restore_nodes(store.as_ref()).await?;
    restore_instances(store.as_ref()).await?;
    Ok(forgotten)
}

/// Where instances are now is not known before all nodes have reported.
async fn restore_instances(store: &dyn Store) -> Result<()> {
    let instances = store.list(keys::INSTANCES).await.map_err(public)?;
    for entry in instances.entries {
        let Ok(mut instance) = decode::<Instance>(&entry.key, &entry.value) else {
            continue;
        };
        if std::mem::replace(&mut instance.restored, true) {
            continue;
        }
        let text = encode_over(&entry.value, &instance)?;
        let put = Transaction::new().put(entry.key, text);
        store.commit(put).await.map_err(public)?;
    }
    Ok(())
}

/// All certificates of a role until a second ago: what the server issues when
/// it starts, a moment after this, is issued later.
fn revoked_role(role: Role) -> RevocationRecord {
    let until = Timestamp::now() - SignedDuration::from_secs(1);
    let why = "the state was restored from a backup: what was revoked since is not known";
    RevocationRecord::new(Revocation::Role { role, until }, REVOKED_BY, why, None)
}

/// Takes revocations of certificates over from a later copy of the records of
/// the same control plane, and says how many were new; none where it is
/// another one's. Records that an earlier release wrote stay as they are.
pub async fn carry_revocations(
    from: &dyn Store,
    to: &dyn Store,
    same_ca: bool,
) -> Result<Option<usize>> {
    let id = |found: Option<strata_store::Entry>| found.map(|entry| entry.value);
    let of_from = id(from.get(keys::RUN).await.map_err(public)?);
    let of_to = id(to.get(keys::RUN).await.map_err(public)?);
    if !same_ca && (of_from.is_none() || of_from != of_to) {
        return Ok(None);
    }
    let mut count = 0;
    for entry in from.list(keys::REVOCATIONS).await.map_err(public)?.entries {
        let known = to.get(&entry.key).await.map_err(public)?;
        if known.is_none_or(|known| known.value != entry.value) {
            let put = Transaction::new().put(entry.key, entry.value);
            to.commit(put).await.map_err(public)?;
            count += 1;
        }
    }
    Ok(Some(count))
}

async fn restore_nodes(store: &dyn Store) -> Result<()> {
    let nodes = store.list(keys::NODES).await.map_err(public)?;
    for entry in nodes.entries {
        let Ok(mut node) = decode::<Node>(&entry.key, &entry.value) else {
            tracing::warn!(
                key = entry.key,
                "node record cannot be read: kept unchanged"
            );
            continue;
        };
        node.keys.clear();
        // The operation that expected it was removed.
        node.expected_by.clear();
        if node.holds_leases {
            // As far as is known it runs what it had, under whatever lease and
            // witnesses it was last given; it reports them when it connects.
            node.lease_waived = true;
            node.witnesses = Some(BTreeSet::new());
        }
        node.unheard = node.follows;
        // It was lost, off or declared gone at the time of the backup.
        (node.reported_down, node.declared_gone) = (false, false);
        let text = encode_over(&entry.value, &node)?;
        let put = Transaction::new().put(entry.key, text);
        store.commit(put).await.map_err(public)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use strata_store::Memory;

    use super::*;

    #[tokio::test]
    async fn restored_node_is_bound_to_its_current_key() {
        let store = Arc::new(Memory::new());
        let record = serde_json::json!({
            "name": "n1", "subnet": "10.42.1.0/24", "condition": "ready",
            "createdAtMs": 0, "changedAtMs": 0, "keys": ["k1"], "expectedBy": "op",
        });
        let key = keys::node("n1");
        let put = Transaction::new().put(&*key, record.to_string());
        store.commit(put).await.unwrap();
        let how = AdoptOptions {
            take_over: true,
            revoke: vec![Role::Admin],
        };
        adopt_restored_store(store.clone(), &how).await.unwrap();
        let entry = store.get(&key).await.unwrap().unwrap();
        let node: Node = decode(&key, &entry.value).unwrap();
        assert!(node.keys.is_empty() && node.expected_by.is_empty());
        assert_eq!(node.subnet, "10.42.1.0/24");
    }

    #[tokio::test]
    async fn restored_node_that_holds_leases_keeps_what_it_has_until_it_is_heard_from() {
        let store = Arc::new(Memory::new());
        for (name, holds_leases) in [("n1", true), ("old", false)] {
            let record = serde_json::json!({
                "name": name, "subnet": "10.42.1.0/24", "condition": "lost",
                "createdAtMs": 0, "changedAtMs": 0, "holdsLeases": holds_leases,
                "witnesses": ["n2"], "reportedDown": true, "declaredGone": true,
            });
            let put = Transaction::new().put(keys::node(name), record.to_string());
            store.commit(put).await.unwrap();
        }
        adopt_restored_store(store.clone(), &AdoptOptions::default())
            .await
            .unwrap();
        for (name, waived) in [("n1", true), ("old", false)] {
            let key = keys::node(name);
            let entry = store.get(&key).await.unwrap().unwrap();
            let node: Node = decode(&key, &entry.value).unwrap();
            assert_eq!(node.lease_waived, waived, "{name}");
            assert_eq!(node.witnesses.unwrap().is_empty(), waived, "{name}");
            assert!(!node.reported_down && !node.declared_gone, "{name}");
        }
    }

    #[tokio::test]
    async fn roles_are_revoked_until_the_restore_and_no_others() {
        let store = Arc::new(Memory::new());
        let how = AdoptOptions {
            take_over: false,
            revoke: vec![Role::Admin, Role::Viewer],
        };
        adopt_restored_store(store.clone(), &how).await.unwrap();
        let stored = store.list(keys::REVOCATIONS).await.unwrap().entries;
        let revoked = stored
            .iter()
            .map(|entry| decode::<RevocationRecord>(&entry.key, &entry.value).unwrap());
        let now = Timestamp::now();
        let roles: Vec<Role> = revoked
            .map(|record| match record.what {
                Revocation::Role { role, until } if until < now => role,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(roles, [Role::Admin, Role::Viewer]);
    }

    #[tokio::test]
    async fn revocations_come_from_later_records_of_the_same_control_plane() {
        let (later, to) = (Memory::new(), Memory::new());
        let put = |key: &str, value: &str| Transaction::new().put(key, value.to_owned());
        let one = keys::revoked_serial("aa");
        later.commit(put(&one, "{}")).await.unwrap();
        later.commit(put(keys::RUN, "run-1")).await.unwrap();
        to.commit(put(keys::RUN, "run-2")).await.unwrap();
        let carried = carry_revocations(&later, &to, false).await.unwrap();
        assert_eq!(carried, None, "another's");
        assert_eq!(to.get(&one).await.unwrap().map(|e| e.value), None);
        to.commit(put(keys::RUN, "run-1")).await.unwrap();
        let carry = || carry_revocations(&later, &to, false);
        assert_eq!(carry().await.unwrap(), Some(1));
        assert_eq!(carry().await.unwrap(), Some(0));
        assert!(to.get(&one).await.unwrap().is_some());
    }
}

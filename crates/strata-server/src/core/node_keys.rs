//! Which key is a node's. A node's record is bound to the key that joined, and
//! no other key authenticates as that node, whatever the name in its
//! certificate.
//!
//! ```text
//! join, new name ──▶ no record yet; the first Follow registers it with its key
//! join, --replace ─▶ bound to the new key, all older certificates revoked
//! create of a machine ─▶ record is expected by the operation: only a join with
//!                        the token of that operation binds it
//! renewal ─────────▶ [key, next key]; the first use of the next drops the other
//! no key ──────────▶ records from before keys were kept: the first valid
//!                    certificate of the name binds it, which is logged
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use strata_identity::{CertificateId, JoinBinding, Name};
use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceState, RunPolicy};
use strata_types::{Error, ErrorKind, Result, Role};

use super::certificates::{Certificate, Certificates, MAX_ATTEMPTS};
use super::node_labels::LabelGrant;
use super::record::{Node, NodeCondition, encode};
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Registration, keys};

/// What is to be done so that a key authenticates a node.
#[derive(Debug, PartialEq, Eq)]
enum KeyMatch {
    Known,
    /// It is written into the record as the only one.
    Bind,
}

/// Whether `key` authenticates the node of this record.
fn match_key(node: &Node, key: &str) -> Result<KeyMatch> {
    let name = &node.name;
    match node.keys.as_slice() {
        [] if !node.expected_by.is_empty() => {
            let why = format!("node {name} is expected by the operation that brings it up");
            Err(Error::new(ErrorKind::PermissionDenied, why)
                .with_hint("it joins with the token that its machine is given, and with no other"))
        }
        [] => Ok(KeyMatch::Bind),
        // The next one stays known until it is used: the answer that has it
        // may still be on its way.
        [current, ..] if current == key => Ok(KeyMatch::Known),
        all if all.iter().any(|known| known == key) => Ok(KeyMatch::Bind),
        _ => {
            let why = format!("node {name} has another key than this certificate");
            Err(Error::new(ErrorKind::PermissionDenied, why).with_hint(
                "a node that takes its place joins with a token of \
                 `strata token create --join --replace`",
            ))
        }
    }
}

/// Whether a node may join under the name of a record. `may_run`: what the node
/// had that is lost may still run there.
fn may_join(node: &Node, binding: Option<&JoinBinding>, may_run: bool) -> Result<()> {
    let name = &node.name;
    let expected = |operation: &String| !operation.is_empty() && *operation == node.expected_by;
    let operation = binding.and_then(|binding| binding.operation.as_ref());
    if operation.is_some_and(expected) {
        return Ok(());
    }
    let taken = |why: String, hint: &str| {
        Error::already_exists(why)
            .in_field("node_name")
            .with_hint(hint)
    };
    if !binding.is_some_and(|binding| binding.replaces) {
        return Err(taken(
            format!("there is a node {name} already"),
            "join under another name, remove that node first, or take its place with a token of \
             `strata token create --join --replace`",
        ));
    }
    if node.condition == NodeCondition::Ready {
        return Err(taken(
            format!("node {name} is there; only one that is gone can be replaced"),
            "stop it and wait until it is lost, or remove it",
        ));
    }
    if !node.expected_by.is_empty() {
        return Err(taken(
            format!("node {name} is of a machine that is being brought up"),
            "wait until that has ended: strata operation list",
        ));
    }
    if may_run {
        return Err(taken(
            format!(
                "instances of node {name} may still run: its lease was waived, or its peers may \
                 have extended it"
            ),
            &format!(
                "switch its machine off, declare that with `strata node remove {name}`, and join \
                 once it is not listed any more"
            ),
        ));
    }
    Ok(())
}

/// Refuses another name than the one a join token is for.
pub(crate) fn check_binding(binding: Option<&JoinBinding>, name: &Name) -> Result<()> {
    match binding {
        Some(binding) if binding.node != *name => {
            let why = format!("the token is for node {}, not for {name}", binding.node);
            Err(Error::new(ErrorKind::PermissionDenied, why)
                .in_field("node_name")
                .with_hint("join without a name, or make a token for this one"))
        }
        _ => Ok(()),
    }
}

impl Core {
    /// Whether a node may join under a name with a token of this binding, and
    /// until when certificates of that name are refused then.
    pub fn check_join(
        &self,
        name: &Name,
        binding: Option<&JoinBinding>,
    ) -> Result<Option<Timestamp>> {
        match self.node(name.as_str()) {
            Ok(node) => {
                may_join(&node, binding, self.may_still_run(&node))?;
                Ok(Some(self.certificates().revoked_until(name, Role::Node)))
            }
            Err(_) => Ok(self
                .certificates()
                .revocations()
                .refused_until(Role::Node, name)),
        }
    }

    /// Whether a lost node may still run exclusive instances that the records have
    /// there: a machine that took its place would be assigned them, or confirm
    /// that they are gone. After a restore nodes come back by the same tokens
    /// as machines that replace them, and report what they run.
    fn may_still_run(&self, node: &Node) -> bool {
        let is_extended = node.witnesses.as_ref().is_some_and(|all| !all.is_empty());
        let is_proven = node.reported_down || node.declared_gone || node.unheard;
        if is_proven {
            return false;
        }
        let has_lease_without_end = node.lease_waived || is_extended;
        let tables = self.tables();
        let on = tables.on_node.get(&node.name).into_iter().flatten();
        let leaving = tables.leaving.get(&node.name).into_iter().flatten();
        let records = on.chain(leaving).filter_map(|id| tables.instances.get(id));
        let mut exclusive = records.filter(|one| one.spec.placement.runs == RunPolicy::Exclusive);
        exclusive.any(|one| {
            if one.leaves(&node.name).is_some_and(|from| from.unleased) {
                return true;
            }
            let is_here = one.node.as_deref() == Some(&*node.name);
            let is_stopped = is_here && one.state == InstanceState::Stopped;
            // Its next node started it after the end of the lease.
            let runs_elsewhere = !is_here && one.is_up();
            has_lease_without_end && !is_stopped && !runs_elsewhere
        })
    }

    /// Records that a node has joined: the node that had the name before is
    /// out. `until` is what [`Core::check_join`] has answered.
    pub async fn node_joined(
        &self,
        id: &CertificateId,
        binding: Option<&JoinBinding>,
        until: Option<Timestamp>,
        issued_by: &str,
    ) -> Result<()> {
        let (name, key) = (id.name.as_str(), keys::node(id.name.as_str()));
        for _ in 0..MAX_ATTEMPTS {
            let grant = LabelGrant::of(binding);
            let mut record = Certificate::first(id, issued_by);
            let transaction = match self.node(name) {
                Err(_) => {
                    record.label_grant = grant;
                    Transaction::new().if_absent(&*key)
                }
                Ok(node) => {
                    may_join(&node, binding, self.may_still_run(&node))?;
                    let mut next = node.record.clone();
                    next.keys = vec![id.key.clone()];
                    grant.apply(&mut next);
                    let put = Transaction::new()
                        .if_unchanged(&*key, node.revision)
                        .put(&*key, encode(&next)?);
                    // It came meanwhile: nothing was signed with that in mind.
                    let until = until.ok_or_else(|| {
                        Error::unavailable(format!("a node {name} has just come"))
                    })?;
                    let why = "another node joined in its place";
                    Certificates::revoke_name(put, &id.name, Role::Node, until, issued_by, why)?
                }
            };
            let transaction = self.certificates().put(transaction, &record)?;
            match self.commit(transaction).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("node {name} changes too fast")))
    }

    /// The record of the node that calls with this certificate; refused for a
    /// certificate of another key. `register` makes a record where there is
    /// none, on the condition that the certificate is not revoked by then.
    pub(crate) async fn authenticate_node(
        &self,
        id: &CertificateId,
        register: Option<Registration>,
    ) -> Result<Arc<Versioned<Node>>> {
        let name = id.name.as_str();
        if let Some(registration) = &register {
            self.register_bound(registration, Some(id)).await?;
        }
        for _ in 0..MAX_ATTEMPTS {
            let node = self.node(name).map_err(|_| {
                Error::wrong_state(format!("{name} is not registered"))
                    .with_hint("call Register first")
            })?;
            if match_key(&node, &id.key)? == KeyMatch::Known {
                return Ok(node);
            }
            let mut next = node.record.clone();
            next.keys = vec![id.key.clone()];
            let key = keys::node(name);
            let transaction = Transaction::new()
                .if_unchanged(&*key, node.revision)
                .put(&*key, encode(&next)?);
            let transaction = self.certificates().unless_revoked(transaction, id)?;
            match self.commit(transaction).await {
                Ok(_) if node.keys.is_empty() => {
                    tracing::warn!(
                        node = name,
                        key = id.key,
                        serial = id.serial,
                        "node record without a key bound to the key of its certificate"
                    );
                }
                Ok(_) => tracing::info!(node = name, key = id.key, "node uses its renewed key"),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("node {name} changes too fast")))
    }

    /// Adds to the transaction of a renewal that the node's next key is known.
    pub(super) fn follow_key(
        &self,
        transaction: Transaction,
        parent: &CertificateId,
        child: &CertificateId,
    ) -> Result<Transaction> {
        let key = keys::node(parent.name.as_str());
        let Ok(node) = self.node(parent.name.as_str()) else {
            // Not registered yet, or it left by itself.
            return Ok(transaction.if_absent(key));
        };
        match_key(&node, &parent.key)?;
        let mut next = node.record.clone();
        next.keys = vec![parent.key.clone()];
        if child.key != parent.key {
            next.keys.push(child.key.clone());
        }
        Ok(transaction
            .if_unchanged(&*key, node.revision)
            .put(key, encode(&next)?))
    }

    /// An operation expects the node of its machine: no node joins under that
    /// name but with a token of the operation. None: it expects it no more.
    pub async fn expect_join(&self, name: &str, operation: Option<&str>) -> Result<()> {
        self.change_node(name, super::Precondition::default(), |now| {
            let mut next = now.clone();
            operation
                .unwrap_or_default()
                .clone_into(&mut next.expected_by);
            next
        })
        .await
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(keys: &[&str], expected_by: &str, condition: NodeCondition) -> Node {
        let text = serde_json::json!({
            "name": "n1", "subnet": "10.42.1.0/24", "condition": condition,
            "createdAtMs": 0, "changedAtMs": 0, "keys": keys, "expectedBy": expected_by,
        });
        serde_json::from_value(text).unwrap()
    }

    fn binding(replaces: bool, operation: Option<&str>) -> JoinBinding {
        JoinBinding {
            node: "n1".parse().unwrap(),
            replaces,
            operation: operation.map(str::to_owned),
            labels: Default::default(),
            accepts_labels: false,
        }
    }

    #[test]
    fn renewed_node_key_replaces_the_old_at_first_use() {
        let ready = NodeCondition::Ready;
        let bound = node(&["k1"], "", ready);
        assert_eq!(match_key(&bound, "k1").unwrap(), KeyMatch::Known);
        assert!(match_key(&bound, "k2").is_err());
        let renewed = node(&["k1", "k2"], "", ready);
        assert_eq!(match_key(&renewed, "k1").unwrap(), KeyMatch::Known);
        assert_eq!(match_key(&renewed, "k2").unwrap(), KeyMatch::Bind);
        assert!(match_key(&renewed, "k3").is_err());
    }

    #[test]
    fn node_record_without_a_key_is_bound_to_the_first() {
        let old = node(&[], "", NodeCondition::Lost);
        assert_eq!(match_key(&old, "k1").unwrap(), KeyMatch::Bind);
        let expected = node(&[], "op-1", NodeCondition::Registered);
        assert!(match_key(&expected, "k1").is_err());
    }

    #[test]
    fn only_a_replacement_token_takes_over_a_lost_node() {
        let (lost, ready) = (NodeCondition::Lost, NodeCondition::Ready);
        let gone = node(&["k1"], "", lost);
        assert!(may_join(&gone, None, false).is_err());
        assert!(may_join(&gone, Some(&binding(false, None)), false).is_err());
        assert!(may_join(&gone, Some(&binding(true, None)), false).is_ok());
        let replacing = binding(true, None);
        let refused = may_join(&gone, Some(&replacing), true).unwrap_err();
        assert!(refused.to_string().contains("may still run"), "{refused}");
        let there = node(&["k1"], "", ready);
        assert!(may_join(&there, Some(&binding(true, None)), false).is_err());
    }

    #[test]
    fn expected_machine_joins_only_with_the_token_of_its_operation() {
        let expected = node(&[], "op-1", NodeCondition::Registered);
        assert!(may_join(&expected, Some(&binding(false, Some("op-1"))), false).is_ok());
        for other in [
            None,
            Some(binding(false, None)),
            Some(binding(true, None)),
            Some(binding(false, Some("op-2"))),
        ] {
            assert!(
                may_join(&expected, other.as_ref(), false).is_err(),
                "{other:?}"
            );
        }
        // Nor is the token of an operation good for a node of no operation.
        let other = node(&["k1"], "", NodeCondition::Lost);
        assert!(may_join(&other, Some(&binding(false, Some("op-1"))), false).is_err());
        assert!(may_join(&other, Some(&binding(false, Some(""))), false).is_err());
    }
}

//! What people have set for a node that left by itself. Such a node comes back
//! by the certificate it has, and its record is another one then: it gets back
//! its labels, its limits and its drain, so that a node that was taken over
//! sheds nothing by leaving. What its join token granted is granted once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_api::rest::NodeLimits;
use strata_store::Transaction;
use strata_types::{Result, Role};

use super::certificates::Certificate;
use super::node_labels::LabelGrant;
use super::record::{Node, decode, encode};
use super::store_watch::public;
use super::{Core, keys};

/// What is kept of a node that left by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DepartedNode {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    own_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "NodeLimits::is_none")]
    limits: NodeLimits,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draining: bool,
}

impl DepartedNode {
    fn of(node: &Node) -> Self {
        Self {
            own_labels: node.own_labels.clone(),
            limits: node.limits,
            draining: node.draining && !node.closed_itself,
        }
    }
}

impl Core {
    /// Adds to the transaction that deletes the record of a node what is kept
    /// of it. Of one that was removed nothing is: it joins as a new one.
    pub(super) fn depart(
        &self,
        transaction: Transaction,
        node: &Node,
        removed: bool,
    ) -> Result<Transaction> {
        let key = keys::departed_node(&node.name);
        let departed = DepartedNode::of(node);
        if removed || departed == DepartedNode::default() {
            return self.without_grants(transaction.delete(key), node);
        }
        let transaction = transaction.put(key, encode(&departed)?);
        self.without_grants(transaction, node)
    }

    /// Its record has what its join token granted, as far as people left it
    /// that.
    fn without_grants(&self, transaction: Transaction, node: &Node) -> Result<Transaction> {
        let tables = self.tables();
        let of = tables.certificates.values().filter(|one| {
            one.role == Role::Node && one.name.as_str() == node.name && !one.label_grant.is_none()
        });
        of.cloned().try_fold(transaction, |transaction, one| {
            let key = keys::certificate(&one.serial);
            let next = Certificate {
                label_grant: LabelGrant::default(),
                ..one.record.clone()
            };
            Ok(transaction
                .if_unchanged(&*key, one.revision)
                .put(key, encode(&next)?))
        })
    }

    /// Gives the record of a node that comes what is kept of it, and adds to the
    /// transaction that it is not kept any longer.
    pub(super) async fn take_back(
        &self,
        transaction: Transaction,
        node: &mut Node,
    ) -> Result<Transaction> {
        let key = keys::departed_node(&node.name);
        let Some(entry) = self.0.store.get(&key).await.map_err(public)? else {
            return Ok(transaction.if_absent(key));
        };
        let departed: DepartedNode = decode(&key, &entry.value)?;
        node.own_labels = departed.own_labels;
        node.limits = departed.limits;
        node.draining = departed.draining;
        Ok(transaction.if_unchanged(&*key, entry.changed).delete(key))
    }
}

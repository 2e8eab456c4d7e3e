//! Records that this release cannot read: of a later release, or damaged.
//!
//! Such a record is held as it is. It keeps its name, what it is on and what
//! it is of, as far as its text says so: nothing else takes its name, its
//! node keeps what it has of it, and nothing writes over it. People list these
//! records, and delete one that is not needed.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use strata_store::record::{self, Unknown};
use strata_store::{Entry, Revision, Transaction};
use strata_types::instance::InstanceId;
use strata_types::{Error, Result};

use super::store_watch::public;
use super::{Core, Principal, keys};

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its key in the store: what it is, and its id.
    pub key: String,
    /// As far as its text says.
    pub name: Option<String>,
    /// The project it is in.
    pub project: Option<String>,
    /// The node it is on.
    pub node: Option<String>,
    /// The workload it is of.
    pub workload: Option<String>,
    /// Why it cannot be read.
    pub why: String,
    /// When it was last written.
    pub revision: Revision,
}

impl Unreadable {
    pub(super) fn new(entry: &Entry, why: &Error) -> Self {
        let text: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let field = |name: &str| text.get(name)?.as_str().map(str::to_owned);
        Self {
            key: entry.key.clone(),
            name: field("name"),
            project: field("project"),
            node: field("node"),
            workload: field("workload"),
            why: why.to_string(),
            revision: entry.changed,
        }
    }

    /// The instance that it is of.
    pub(crate) fn instance(&self) -> Option<InstanceId> {
        self.key.strip_prefix(keys::INSTANCES)?.parse().ok()
    }

    /// Whether a node keeps what it has of it: it is there, or nothing says
    /// where it is.
    pub(crate) fn may_be_on(&self, node: &str) -> bool {
        self.node.as_deref().is_none_or(|on| on == node)
    }
}

/// What of a record this release does not know, and the text that it is of.
#[derive(Clone, Debug)]
pub(super) struct Remainder {
    pub(super) text: Bytes,
    pub(super) unknown: Unknown,
}

/// Reads the record of a node also when one of its fields cannot be read: a
/// node without a record is sent nothing, and would stop what it runs.
pub(super) fn without_one_field<T: DeserializeOwned>(text: &[u8]) -> Option<(T, Unknown)> {
    let whole: Value = serde_json::from_slice(text).ok()?;
    let fields = whole.as_object()?;
    fields.keys().find_map(|name| {
        let mut rest = fields.clone();
        rest.remove(name);
        record::decode(Value::Object(rest).to_string().as_bytes()).ok()
    })
}

impl Core {
    /// The records that cannot be read, by their keys.
    pub fn unreadable(&self, principal: &Principal) -> Result<Vec<Unreadable>> {
        principal.require_all_projects()?;
        let tables = self.tables();
        Ok(tables.unreadable.values().cloned().collect())
    }

    /// The instances that a node keeps as they are, because their records
    /// cannot be read.
    pub(crate) fn unreadable_on(&self, node: &str) -> Vec<InstanceId> {
        let tables = self.tables();
        let on = tables.unreadable.values();
        let on = on.filter(|one| one.may_be_on(node));
        on.filter_map(Unreadable::instance).collect()
    }

    /// Deletes a record that cannot be read, and the name that it holds. What
    /// a node has of it is stopped then, and destroyed after a while.
    pub async fn delete_unreadable(&self, principal: &Principal, key: &str) -> Result<()> {
        principal.require_all_projects()?;
        let found = self.tables().unreadable.get(key).cloned();
        let found = found.ok_or_else(|| {
            let key: String = key.chars().take(140).collect();
            Error::not_found(format!("there is no unreadable record {key}"))
                .with_hint("list them: strata store unreadable")
        })?;
        let mut gone = Transaction::new()
            .if_unchanged(key, found.revision)
            .delete(key);
        for held in self.names_of(key).await? {
            gone = gone.delete(held);
        }
        self.commit(gone).await.map(drop).map_err(public)
    }

    /// The keys that hold a name for the thing of this key.
    async fn names_of(&self, key: &str) -> Result<Vec<String>> {
        let (prefix, id) = match key.split_once('/') {
            Some(("instance", id)) => ("instance-name/", id),
            Some(("workload", id)) => ("workload-name/", id),
            _ => return Ok(Vec::new()),
        };
        let all = self.store().list(prefix).await.map_err(public)?;
        let its = all.entries.into_iter().filter(|it| it.value == id);
        Ok(its.map(|it| it.key).collect())
    }
}

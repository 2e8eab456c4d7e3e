//! The schema of a store: which release's records it has, and which releases
//! may read them. It holds a number for each kind of record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_store::{Store, StoreError, Transaction};
use strata_types::{Error, Result};

use super::keys;
use super::keys::RecordKind;
use super::record::{decode, encode, encode_over};
use super::store_watch::public;

/// The version of the records that this server reads and writes.
const SCHEMA: u32 = 1;

/// What is kept of it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Schema {
    version: u32,
    /// The oldest version whose servers may be used with these records.
    /// Default: `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_reader: Option<u32>,
    /// By the prefix of its keys, the version of each kind of record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    kinds: BTreeMap<String, KindSchema>,
}

/// The version of one kind of record. A field that is added does not change
/// it: records are read leniently (`strata_store::record`).
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KindSchema {
    version: u32,
    /// The oldest version whose servers may use such records.
    min_reader: u32,
}

/// The version of a kind of record that this server reads and writes.
const fn kind_version(kind: RecordKind) -> u32 {
    match kind {
        RecordKind::Instance
        | RecordKind::Workload
        | RecordKind::Node
        | RecordKind::Project
        | RecordKind::Secret
        | RecordKind::Machine
        | RecordKind::Cluster
        | RecordKind::Certificate
        | RecordKind::Revocation => 1,
    }
}

impl Schema {
    fn current() -> Self {
        let kind = |kind: RecordKind| {
            let version = kind_version(kind);
            let schema = KindSchema {
                version,
                min_reader: version,
            };
            (kind.prefix().to_owned(), schema)
        };
        Self {
            version: SCHEMA,
            min_reader: Some(SCHEMA),
            kinds: RecordKind::ALL.into_iter().map(kind).collect(),
        }
    }

    /// Refuses records that this server may not touch.
    fn check(&self) -> Result<()> {
        let refused = |what: &str, found: u32, known: u32| {
            Error::wrong_state(format!(
                "the store's {what} are of version {found}, and this server supports {known}"
            ))
            .with_hint("run the version of the server that wrote them, or a later one")
        };
        // Migrations of older records go here, one arm each.
        if self.min_reader.unwrap_or(self.version) > SCHEMA {
            return Err(refused("records", self.version, SCHEMA));
        }
        for kind in RecordKind::ALL {
            let known = kind_version(kind);
            match self.kinds.get(kind.prefix()) {
                Some(found) if found.min_reader > known => {
                    let what = format!("records {}", kind.prefix());
                    return Err(refused(&what, found.version, known));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Marks an empty store as ours; refuses one that only later releases may use,
/// and names the kinds of records in one that did not name them.
pub(super) async fn check_schema(store: &dyn Store) -> Result<()> {
    let unfinished = store.get(strata_store::IMPORT_KEY).await.map_err(public)?;
    if unfinished.is_some() {
        return Err(
            Error::wrong_state("an import into this store was not finished")
                .with_hint("run strata store import again, to the end"),
        );
    }
    let found = store.get(keys::SCHEMA).await.map_err(public)?;
    let mark = Transaction::new();
    let mark = match found {
        None => mark
            .if_absent(keys::SCHEMA)
            .put(keys::SCHEMA, encode(&Schema::current())?),
        Some(entry) => {
            let mut schema: Schema = decode(keys::SCHEMA, &entry.value)?;
            schema.check()?;
            let current = Schema::current().kinds.into_iter();
            let new: Vec<_> = current
                .filter(|(prefix, _)| !schema.kinds.contains_key(prefix))
                .collect();
            if new.is_empty() {
                return Ok(());
            }
            schema.kinds.extend(new);
            mark.if_unchanged(keys::SCHEMA, entry.changed)
                .put(keys::SCHEMA, encode_over(&entry.value, &schema)?)
        }
    };
    match store.commit(mark).await {
        // Another server was first.
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(public(error)),
    }
}

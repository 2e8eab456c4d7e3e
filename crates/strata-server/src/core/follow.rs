//! Follows the store: reads all, then takes in every change; when the watch
//! ends, reads all again and tells what is different.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use strata_store::{Change, Revision, Store, StoreError, Transaction};
use strata_types::{Error, Result};
use tokio_util::sync::CancellationToken;

use super::record::{decode, encode};
use super::tables::Changed;
use super::{Core, keys};

/// The version of the records that this server reads and writes.
const SCHEMA: u32 = 1;
/// Between attempts to read from a store that does not answer.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Serialize, Deserialize)]
struct Schema {
    version: u32,
}

/// Marks an empty store as ours; refuses one of a later version, and brings
/// one of an earlier version up to date.
pub(super) async fn check_schema(store: &dyn Store) -> Result<()> {
    let unfinished = store.get(strata_store::IMPORT_KEY).await.map_err(public)?;
    if unfinished.is_some() {
        return Err(
            Error::wrong_state("an import into this store was not finished")
                .with_hint("run strata store import again, to the end"),
        );
    }
    let found = store.get(keys::SCHEMA).await.map_err(public)?;
    let Some(entry) = found else {
        let mark = encode(&Schema { version: SCHEMA })?;
        let mark = Transaction::new()
            .if_absent(keys::SCHEMA)
            .put(keys::SCHEMA, mark);
        return match store.commit(mark).await {
            // Another server was first.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(public(error)),
        };
    };
    let schema: Schema = decode(keys::SCHEMA, &entry.value)?;
    match schema.version {
        SCHEMA => Ok(()),
        // Migrations of older records go here, one arm each.
        other => Err(Error::wrong_state(format!(
            "the store's records are of version {other}, and this server knows {SCHEMA}"
        ))
        .with_hint("run the version of the server that wrote them, or a later one")),
    }
}

impl Core {
    /// Reads all records, and answers the revision they are of.
    pub(super) async fn load(&self) -> Result<Revision> {
        let listing = self.0.store.list("").await.map_err(public)?;
        let mut gone: HashSet<String> = self.keys();
        for entry in listing.entries {
            gone.remove(&entry.key);
            self.take_in(Change::Put(entry));
        }
        for key in gone {
            self.take_in(Change::Deleted { key });
        }
        self.0.applied.send_replace(listing.revision);
        Ok(listing.revision)
    }

    fn keys(&self) -> HashSet<String> {
        let tables = self.tables();
        let instances = tables.instances.keys().map(keys::instance);
        let workloads = tables.workloads.keys().map(keys::workload);
        let nodes = tables.nodes.keys().map(|name| keys::node(name));
        let projects = tables.projects.keys().map(keys::project);
        let machines = tables.machines.keys().map(keys::machine);
        instances
            .chain(workloads)
            .chain(nodes)
            .chain(projects)
            .chain(machines)
            .collect()
    }

    /// Follows the store until the end of this server.
    pub(super) async fn follow(self, mut from: Revision, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            tokio::select! {
                () = shutdown.cancelled() => return,
                ended = self.follow_once(from) => tracing::warn!(why = %ended, "the watch of the store ended"),
            }
            loop {
                match self.load().await {
                    Ok(revision) => break from = revision,
                    Err(error) => tracing::warn!(%error, "the store cannot be read"),
                }
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }

    async fn follow_once(&self, from: Revision) -> StoreError {
        let mut watch = match self.0.store.watch("", from).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        while let Some(next) = watch.next().await {
            match next {
                Ok(changes) => {
                    for change in changes.changes {
                        self.take_in(change);
                    }
                    self.0.applied.send_replace(changes.revision);
                }
                Err(error) => return error,
            }
        }
        StoreError::Unavailable("it ended without a word".into())
    }

    /// Into the tables, and on to whoever waits.
    fn take_in(&self, change: Change) {
        let applied = {
            let mut tables = self
                .0
                .tables
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if let Change::Put(entry) = &change
                && tables.revision_of(&entry.key) == Some(entry.changed)
            {
                return;
            }
            tables.apply(change)
        };
        match applied {
            Ok(Some(changed)) => {
                if let Changed::Instance(turn) = &changed
                    && let (Some(before), None) = (&turn.before, &turn.after)
                {
                    self.0.live.forget_instance(&before.id);
                }
                self.0.events.note(&changed);
                self.0.subscriptions.tell(&changed);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "a record is left out"),
        }
    }

    /// Waits until the tables are as of `revision`.
    pub(super) async fn settle(&self, revision: Revision) {
        let mut applied = self.0.applied.subscribe();
        let _ = applied.wait_for(|now| *now >= revision).await;
    }
}

/// The public error: by what the caller can do about it.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(crate) fn public(error: StoreError) -> Error {
    match &error {
        StoreError::Conflict { .. } => {
            Error::new(strata_types::ErrorKind::Aborted, error.to_string())
                .with_hint("look at it again, then repeat the request")
        }
        StoreError::Unavailable(_) => Error::unavailable(error.to_string()),
        StoreError::Broken(_) => {
            Error::unavailable(error.to_string()).with_hint("see the server's log and its disk")
        }
        _ => Error::internal(error.to_string()),
    }
}

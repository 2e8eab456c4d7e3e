//! Which of several servers leads: whoever holds the key `leader`, which goes
//! with a lease that it keeps alive. What only the leader may write is written
//! on the condition that the key is still its own, so one that was cut off
//! and does not know it yet writes nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_store::{Change, Condition, LeaseId, Store, StoreError, Transaction};
use tokio_util::sync::CancellationToken;

use crate::core::{Core, Lead};

const KEY: &str = "leader";
/// How long a silent leader leads.
const TTL: Duration = Duration::from_secs(5);
/// How often it says that it is there.
const KEEP: Duration = Duration::from_millis(1500);
const PAUSE: Duration = Duration::from_millis(500);

/// Stands for election until `shutdown`. `address` is where nodes and people
/// reach this server.
pub fn start(core: Core, store: Arc<dyn Store>, address: String, shutdown: CancellationToken) {
    tokio::spawn(async move {
        let mut lease = None;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = stand(&core, &store, &address, &mut lease) => {}
        }
        core.set_lead(Lead::Following(None));
        // So that the next need not wait.
        if let Some(lease) = lease {
            let _ = store.revoke(lease).await;
        }
    });
}

async fn stand(core: &Core, store: &Arc<dyn Store>, address: &str, held: &mut Option<LeaseId>) {
    loop {
        if let Err(error) = stand_once(core, store, address, held).await {
            tracing::warn!(%error, "cannot stand for leader");
        }
        core.set_lead(Lead::Following(None));
        tokio::time::sleep(PAUSE).await;
    }
}

async fn stand_once(
    core: &Core,
    store: &Arc<dyn Store>,
    address: &str,
    held: &mut Option<LeaseId>,
) -> Result<(), StoreError> {
    let lease = store.grant(TTL).await?;
    *held = Some(lease);
    let claim = Transaction::new()
        .if_absent(KEY)
        .put_with(KEY, address.to_owned(), Some(lease));
    match store.commit(claim).await {
        Ok(revision) => {
            tracing::info!("this server leads");
            let condition = Condition::Unchanged(KEY.to_owned(), revision);
            core.set_lead(Lead::Leading(Some(condition)));
            keep(store, lease).await
        }
        Err(StoreError::Conflict { .. }) => {
            store.revoke(lease).await?;
            *held = None;
            wait_for_end(core, store).await
        }
        Err(error) => Err(error),
    }
}

/// Leads until the lease cannot be kept.
async fn keep(store: &Arc<dyn Store>, lease: LeaseId) -> Result<(), StoreError> {
    let mut last = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(KEEP).await;
        let asked = tokio::time::Instant::now();
        match tokio::time::timeout(TTL, store.keep_alive(lease)).await {
            Ok(Ok(())) => last = asked,
            Ok(Err(error @ StoreError::NoSuchLease(_))) => return Err(error),
            Ok(Err(error)) => tracing::warn!(%error, "the lead cannot be kept"),
            Err(_) => tracing::warn!("the store takes too long to keep the lead"),
        }
        if last.elapsed() >= TTL {
            return Err(StoreError::Unavailable(
                "for longer than the lead lasts".into(),
            ));
        }
    }
}

/// Follows another until its lead ends.
async fn wait_for_end(core: &Core, store: &Arc<dyn Store>) -> Result<(), StoreError> {
    let Some(entry) = store.get(KEY).await? else {
        return Ok(());
    };
    let leader = String::from_utf8_lossy(&entry.value).into_owned();
    tracing::info!(leader, "another server leads");
    core.set_lead(Lead::Following(Some(leader)));
    let mut watch = store.watch(KEY, entry.changed).await?;
    while let Some(changes) = watch.next().await {
        let gone = |change: &Change| matches!(change, Change::Deleted { key } if key == KEY);
        if changes?.changes.iter().any(gone) {
            return Ok(());
        }
    }
    Ok(())
}

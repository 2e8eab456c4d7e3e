//! Which of several servers leads: whoever holds the key `leader`, which goes
//! with a lease that it keeps alive. What only the leader may write is written
//! on the condition that the key is still its own, so one that was cut off
//! and does not know it yet writes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use strata_store::{Change, Condition, LeaseId, Store, StoreError, Transaction};
use tokio_util::sync::CancellationToken;

use crate::core::{Core, Lead, keys};

const KEY: &str = "leader";
/// How long a silent leader leads at most, and at least.
const LONGEST: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_secs(2);
/// How much earlier than the store a leader takes its lead for over: clocks
/// differ, and acting on it takes a moment.
const MARGIN: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);
/// How long a server is listed that does not renew its entry.
const LISTED: Duration = Duration::from_secs(30);

/// How long a silent leader leads: half of what nodes are given, so that
/// another takes over before they stop what they run.
fn ttl(core: &Core) -> Duration {
    let half = core.settings().lease / 2;
    // The store counts whole seconds.
    Duration::from_secs(half.clamp(SHORTEST, LONGEST).as_secs())
}

/// Stands for election until `shutdown`. `address` is where nodes and people
/// reach this server.
pub fn start(core: Core, store: Arc<dyn Store>, address: String, shutdown: CancellationToken) {
    let listing = list_self(core.clone(), store.clone(), address.clone());
    let ending = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = ending.cancelled() => {}
            () = listing => {}
        }
    });
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

/// Keeps this server among those that nodes are given.
async fn list_self(core: Core, store: Arc<dyn Store>, address: String) {
    loop {
        let listed = async {
            let lease = store.grant(LISTED).await?;
            let key = format!("{}{address}", keys::SERVERS);
            let entry = Transaction::new().put_with(key, String::new(), Some(lease));
            core.commit(entry).await?;
            loop {
                tokio::time::sleep(LISTED / 3).await;
                store.keep_alive(lease).await?;
            }
        };
        let ended: Result<(), StoreError> = listed.await;
        if let Err(error) = ended {
            tracing::debug!(%error, "this server is not listed");
        }
        tokio::time::sleep(PAUSE).await;
    }
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
    let (asked, ttl) = (Instant::now(), ttl(core));
    let lease = store.grant(ttl).await?;
    *held = Some(lease);
    let claim = Transaction::new()
        .if_absent(KEY)
        .put_with(KEY, address.to_owned(), Some(lease));
    match store.commit(claim).await {
        Ok(revision) => {
            tracing::info!("this server leads");
            let condition = Condition::Unchanged(KEY.to_owned(), revision);
            core.renew_lead(asked + ttl - MARGIN);
            core.set_lead(Lead::Leading(Some(condition)));
            keep(core, store, lease, ttl, asked).await
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
async fn keep(
    core: &Core,
    store: &Arc<dyn Store>,
    lease: LeaseId,
    ttl: Duration,
    granted: Instant,
) -> Result<(), StoreError> {
    let mut last = granted;
    loop {
        tokio::time::sleep(ttl / 4).await;
        let asked = Instant::now();
        match tokio::time::timeout(ttl / 3, store.keep_alive(lease)).await {
            Ok(Ok(())) => {
                last = asked;
                core.renew_lead(asked + ttl - MARGIN);
            }
            Ok(Err(error @ StoreError::NoSuchLease(_))) => return Err(error),
            Ok(Err(error)) => tracing::warn!(%error, "the lead cannot be kept"),
            Err(_) => tracing::warn!("the store takes too long to keep the lead"),
        }
        if last.elapsed() >= ttl - MARGIN {
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

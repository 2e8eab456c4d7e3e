//! Which of several servers leads: the holder of the key `leader`, which goes
//! with a lease that it keeps alive. What only the leader may write is written
//! on the condition that the key is still its own, so a server that was cut off
//! and does not know it yet writes nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_store::{Change, Condition, LeaseId, Store, StoreError, Transaction};
use strata_tasks::TaskGroup;
use tokio_util::sync::CancellationToken;

use crate::core::{BootInstant, Core, Lead, keys};

const KEY: &str = "leader";
/// How long a silent leader leads at most, and at least.
const MAX_TTL: Duration = Duration::from_secs(5);
const MIN_TTL: Duration = Duration::from_secs(2);
/// How much earlier than the store a leader takes its lead for over: clocks
/// differ, and acting on it takes a moment.
const MARGIN: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long a server is listed that does not renew its entry.
const SERVER_LIST_TTL: Duration = Duration::from_secs(30);

/// How long a silent leader leads: half of what nodes are given, so that
/// another takes over before they stop what they run.
fn ttl(core: &Core) -> Duration {
    let half = core.settings().lease / 2;
    // The store counts whole seconds.
    Duration::from_secs(half.clamp(MIN_TTL, MAX_TTL).as_secs())
}

/// Stands for election until the group is stopped. `address` is where nodes and people
/// reach this server.
pub fn start(core: Core, store: Arc<dyn Store>, address: String, tasks: &TaskGroup) {
    let (listed, records, own) = (core.clone(), store.clone(), address.clone());
    tasks.restart("server-registration", move || {
        list_self(listed.clone(), records.clone(), own.clone())
    });
    let shutdown = tasks.shutdown().clone();
    // The lease of a run that panicked ends by itself; until then no server
    // leads, as after the death of this one.
    tasks.restart_until_done("leadership", move || {
        core.set_lead(Lead::Following(None));
        let (core, store, address) = (core.clone(), store.clone(), address.clone());
        lead_until(core, store, address, shutdown.clone())
    });
}

async fn lead_until(
    core: Core,
    store: Arc<dyn Store>,
    address: String,
    shutdown: CancellationToken,
) {
    let mut lease = None;
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = campaign(&core, &store, &address, &mut lease) => {}
    }
    core.set_lead(Lead::Following(None));
    // So that the next need not wait.
    if let Some(lease) = lease {
        let _ = store.revoke(lease).await;
    }
}

/// Keeps this server among those that nodes are given.
async fn list_self(core: Core, store: Arc<dyn Store>, address: String) {
    loop {
        let listed = async {
            let lease = store.grant(SERVER_LIST_TTL).await?;
            let key = format!("{}{address}", keys::SERVERS);
            let entry = Transaction::new().put_with(key, String::new(), Some(lease));
            core.commit(entry).await?;
            loop {
                tokio::time::sleep(SERVER_LIST_TTL / 3).await;
                store.keep_alive(lease).await?;
            }
        };
        let ended: Result<(), StoreError> = listed.await;
        if let Err(error) = ended {
            tracing::debug!(server = address, %error, "server not registered");
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn campaign(core: &Core, store: &Arc<dyn Store>, address: &str, held: &mut Option<LeaseId>) {
    loop {
        if let Err(error) = campaign_once(core, store, address, held).await {
            tracing::warn!(server = address, %error, "leader election failed");
        }
        core.set_lead(Lead::Following(None));
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn campaign_once(
    core: &Core,
    store: &Arc<dyn Store>,
    address: &str,
    held: &mut Option<LeaseId>,
) -> Result<(), StoreError> {
    let (asked, ttl) = (BootInstant::now(), ttl(core));
    let lease = store.grant(ttl).await?;
    *held = Some(lease);
    let claim = Transaction::new()
        .if_absent(KEY)
        .put_with(KEY, address.to_owned(), Some(lease));
    match store.commit(claim).await {
        Ok(revision) => {
            // What the leader before wrote last precedes the claim: without it in
            // the tables, nodes would be sent what was true then.
            let within = ttl.saturating_sub(asked.elapsed()) / 2;
            let shown = tokio::time::timeout(within, core.wait_until_applied(revision)).await;
            if !matches!(shown, Ok(Ok(()))) {
                store.revoke(lease).await?;
                *held = None;
                return Err(StoreError::Unavailable(format!(
                    "elected at revision {revision}, which this server does not see in time: \
                     another may lead"
                )));
            }
            tracing::info!(server = address, "this server leads");
            let condition = Condition::Unchanged(KEY.to_owned(), revision);
            core.renew_lead_from(asked, ttl - MARGIN);
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
    granted: BootInstant,
) -> Result<(), StoreError> {
    let mut last = granted;
    loop {
        tokio::time::sleep(ttl / 4).await;
        let asked = BootInstant::now();
        match tokio::time::timeout(ttl / 3, store.keep_alive(lease)).await {
            Ok(Ok(())) => {
                last = asked;
                core.renew_lead_from(asked, ttl - MARGIN);
            }
            Ok(Err(error @ StoreError::NoSuchLease(_))) => return Err(error),
            Ok(Err(error)) => tracing::warn!(%error, "leadership lease not renewed"),
            Err(_) => tracing::warn!("leadership lease renewal timed out"),
        }
        if last.elapsed() >= ttl - MARGIN {
            return Err(StoreError::Unavailable(
                "for longer than the leadership lease".into(),
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

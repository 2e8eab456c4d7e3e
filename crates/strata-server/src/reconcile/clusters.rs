//! Observes clusters: how each stands, what died and is to be replaced, which
//! snapshot is due, whose credentials are over.

use std::time::Duration;

use futures_util::StreamExt as _;
use strata_tasks::TaskGroup;

use crate::core::{AccessGrant, Cluster, Lead, Principal, Versioned, Work, now_ms};
use crate::operations::{
    ClusterObservation, Clusters, CreateClusterInput, DeleteCluster, DeleteClusterInput,
    HealCluster, HealInput, RenewCluster, RenewInput, SnapshotCluster, SnapshotInput, user_name,
};

/// How often it runs when nothing wakes it.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(5);
/// How many clusters are observed at once.
const MAX_CONCURRENT: usize = 8;
/// How long one may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Certificates are checked that often.
const RENEWAL_INTERVAL_MS: i64 = 12 * 3600 * 1000;
/// Until a failed cure is tried again.
const FAILURE_COOLDOWN_MS: i64 = 2 * 60 * 1000;
/// A user that is granted access again after the expiry gets another name. The
/// expiry is seen by clocks of several servers, so no grant is revoked before
/// all agree.
const STALE_AFTER_MS: i64 = 60 * 1000;
const OWNER: &str = "clusters";

/// Starts the reconciler of clusters. Every server observes; the leader acts.
pub fn start(clusters: Clusters, tasks: impl Into<TaskGroup>) {
    tasks.into().restart("cluster-reconciler", move || {
        let clusters = clusters.clone();
        async move { run(&clusters).await }
    });
}

async fn run(own: &Clusters) {
    // Soon after the start too: it is not recorded when it was last done.
    // Machines that were started together with this server come up first, or
    // die and are replaced.
    let settled = 2 * own.settings.max_wait;
    let settled_ms = i64::try_from(settled.as_millis()).unwrap_or(RENEWAL_INTERVAL_MS);
    let mut renewed_ms = now_ms() - RENEWAL_INTERVAL_MS + settled_ms.min(RENEWAL_INTERVAL_MS);
    loop {
        reconcile(own).await;
        if now_ms() - renewed_ms > RENEWAL_INTERVAL_MS && leads(own) {
            renewed_ms = now_ms();
            renew(own).await;
        }
        tokio::select! {
            () = tokio::time::sleep(RECONCILE_INTERVAL) => {}
            () = own.observations.refresh_requested() => {}
        }
    }
}

fn leads(own: &Clusters) -> bool {
    matches!(own.core.lead(), Lead::Leading(_))
}

/// Reconciles all clusters once.
pub async fn reconcile(own: &Clusters) {
    let all = own.core.clusters();
    if leads(own)
        && !all.is_empty()
        && let Err(error) = own.unblock_deletions().await
    {
        tracing::warn!(%error, "deletions blocked by leftovers of failed operations");
    }
    let looked = futures_util::stream::iter(all).map(|cluster| async move {
        let name = cluster.name.clone();
        if tokio::time::timeout(2 * REQUEST_TIMEOUT, reconcile_one(own, &cluster))
            .await
            .is_err()
        {
            tracing::warn!(cluster = %name, "cluster reconcile timed out");
        }
    });
    looked
        .buffer_unordered(MAX_CONCURRENT)
        .collect::<Vec<()>>()
        .await;
}

async fn reconcile_one(own: &Clusters, cluster: &Versioned<Cluster>) {
    let name = cluster.name.as_str();
    if leads(own) && cluster.work == Work::Creating {
        match cluster.operation.is_empty() {
            true => resume(own, cluster).await,
            false => own.release_unstarted(cluster).await,
        }
    }
    if leads(own) {
        own.reconcile_accepted(cluster).await;
    }
    if leads(own)
        && let Err(error) = own.clear_stale(cluster).await
    {
        tracing::warn!(cluster = name, %error, "stale operation of the cluster not cleared");
    }
    if leads(own) && cluster.work == Work::Deleting && !own.is_busy(name).await {
        delete_on(own, cluster).await;
    }
    if cluster.work == Work::Deleting {
        return;
    }
    if !cluster.members.iter().any(|member| member.joined) {
        // What was seen while it was built, or before it was released, is
        // not so any more.
        own.observations.remove(name);
        return;
    }
    let Ok(facts) = own.facts(name).await else {
        return;
    };
    let before = own.observations.get(name, &cluster.id);
    let away = before.map(|observation| observation.memory.lost.len());
    let observation = own.observe(cluster, &facts).await;
    // A machine that was away missed changes of the members; after a start of
    // this server that may hold for every machine.
    let returned = away.is_none_or(|away| observation.memory.lost.len() < away);
    if leads(own) && cluster.work == Work::Idle {
        if returned && let Err(error) = own.driver.update_peers(&facts).await {
            tracing::warn!(cluster = name, %error, "peer lists of the cluster not yet updated");
        }
        remediate(own, cluster, &observation).await;
        keep(own, cluster, &observation).await;
        revoke_expired(own, cluster).await;
    }
}

/// A caller wrote the record and died before the operation was there.
async fn resume(own: &Clusters, cluster: &Cluster) {
    let machines = cluster
        .members
        .iter()
        .map(|member| member.machine.to_string());
    let input = CreateClusterInput {
        cluster: cluster.name.to_string(),
        id: cluster.id.clone(),
        machines: machines.collect(),
    };
    if let Err(error) = own.begin_create(&cluster.asked_by, &input).await {
        tracing::warn!(cluster = %cluster.name, %error, "cluster creation not started");
    }
}

/// A deletion ends, whatever became of the operation that began it.
async fn delete_on(own: &Clusters, cluster: &Cluster) {
    let input = DeleteClusterInput {
        cluster: cluster.name.to_string(),
        id: cluster.id.clone(),
    };
    let principal = Principal::server(OWNER);
    if let Err(error) = own.begin::<DeleteCluster>(&principal, &input).await {
        tracing::warn!(cluster = %cluster.name, %error, "cluster deletion not started");
    }
}

/// Whether something of a cluster failed a moment ago.
fn is_cooling_down(cluster: &Cluster) -> bool {
    let failure = cluster.failure.as_ref();
    failure.is_some_and(|failure| now_ms() - failure.at_ms < FAILURE_COOLDOWN_MS)
}

/// Has what died replaced.
async fn remediate(own: &Clusters, cluster: &Cluster, observation: &ClusterObservation) {
    // A cure that failed is not tried again at once.
    // Nor is anything cured without its API.
    if is_cooling_down(cluster) || !observation.observed.serves {
        return;
    }
    // What cannot be done now is tried again: machines may be free then.
    let remediation = match own.plan_remediation(cluster, observation) {
        Ok(remediation) => remediation,
        Err(error) => {
            tracing::warn!(cluster = %cluster.name, %error, "remediation of the cluster not planned");
            return;
        }
    };
    if remediation.is_empty() && own.stale_members(cluster, &observation.observed).is_empty() {
        return;
    }
    if own.is_busy(cluster.name.as_str()).await {
        return;
    }
    for machine in &remediation.remove {
        let why = remediation
            .why
            .get(machine)
            .map_or("it has not joined", |why| why);
        tracing::warn!(cluster = %cluster.name, machine, why, "cluster member replaced");
    }
    let input = HealInput {
        cluster: cluster.name.to_string(),
        dead: remediation.remove,
    };
    if let Err(error) = own
        .begin::<HealCluster>(&Principal::server(OWNER), &input)
        .await
    {
        tracing::warn!(cluster = %cluster.name, %error, "remediation of the cluster not started");
    }
}

/// Has its state kept when that is due.
async fn keep(own: &Clusters, cluster: &Cluster, observation: &ClusterObservation) {
    let every = i64::try_from(own.settings.snapshot_every.as_millis()).unwrap_or(i64::MAX);
    if every == 0 || !observation.observed.serves || is_cooling_down(cluster) {
        return;
    }
    let Ok(all) = own.driver.snapshots(&cluster.name) else {
        return;
    };
    let last = all.last().map_or(cluster.created_at_ms, |it| it.at_ms);
    if now_ms() - last < every || own.is_busy(cluster.name.as_str()).await {
        return;
    }
    let input = SnapshotInput {
        cluster: cluster.name.to_string(),
        reason: "schedule".into(),
    };
    if let Err(error) = own
        .begin::<SnapshotCluster>(&Principal::server(OWNER), &input)
        .await
    {
        tracing::warn!(cluster = %cluster.name, %error, "scheduled cluster snapshot not started");
    }
}

/// Those whose last certificate is over.
async fn revoke_expired(own: &Clusters, cluster: &Cluster) {
    for (principal, admission) in &cluster.access_grants {
        if !admission.is_over(STALE_AFTER_MS) {
            continue;
        }
        let name = cluster.name.as_str();
        let Ok(facts) = own.facts(name).await else {
            return;
        };
        let user = user_name(principal, admission.generation);
        let out = own.driver.grant_access(&facts, &user, None);
        if matches!(tokio::time::timeout(REQUEST_TIMEOUT, out).await, Ok(Ok(()))) {
            let over = |it: &AccessGrant| it.is_over(STALE_AFTER_MS);
            let gone = own.drop_grant(name, principal, admission.generation, over);
            drop(gone.await);
        }
    }
}

/// Has certificates checked, and renewed where they end soon.
async fn renew(own: &Clusters) {
    for cluster in own.core.clusters() {
        let name = cluster.name.as_str();
        if cluster.work != Work::Idle || own.is_busy(name).await {
            continue;
        }
        let input = RenewInput {
            cluster: name.to_owned(),
        };
        if let Err(error) = own
            .begin::<RenewCluster>(&Principal::server(OWNER), &input)
            .await
        {
            tracing::warn!(cluster = name, %error, "cluster certificate renewal not started");
        }
    }
}

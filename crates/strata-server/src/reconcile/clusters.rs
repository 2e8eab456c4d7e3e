//! Looks at clusters: how each stands, what died and is to be replaced, which
//! snapshot is due, whose credentials are over.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::core::{Admission, Cluster, Kept, Lead, Who, Work, now_ms};
use crate::operations::{
    Clusters, CreateClusterInput, DeleteCluster, DeleteClusterInput, HealCluster, HealInput,
    RenewCluster, RenewInput, Seen, SnapshotCluster, SnapshotInput, user_name,
};

/// How often it looks when nothing wakes it.
const TICK: Duration = Duration::from_secs(5);
/// How many clusters are looked at at once.
const AT_ONCE: usize = 8;
/// How long one may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Certificates are looked at that often.
const RENEWING_MS: i64 = 12 * 3600 * 1000;
/// Until a failed cure is tried again.
const SORE_MS: i64 = 2 * 60 * 1000;
/// Whoever is let in again after their time gets another name. That it is over
/// is seen by clocks of several servers, so nobody is let out before all agree.
const OVER_MS: i64 = 60 * 1000;
const OWNER: &str = "clusters";

/// Starts to look after clusters. Every server looks; the one that leads acts.
pub fn start(clusters: Clusters, shutdown: CancellationToken) {
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = run(&clusters) => {}
        }
    });
}

async fn run(own: &Clusters) {
    // Soon after the start too: nobody knows when it was last done. Whoever
    // was started with it comes up first: machines, or dies and is replaced.
    let settled = 2 * own.settings.patience;
    let settled_ms = i64::try_from(settled.as_millis()).unwrap_or(RENEWING_MS);
    let mut renewed_ms = now_ms() - RENEWING_MS + settled_ms.min(RENEWING_MS);
    loop {
        look(own).await;
        if now_ms() - renewed_ms > RENEWING_MS && leads(own) {
            renewed_ms = now_ms();
            renew(own).await;
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = own.sight.woken() => {}
        }
    }
}

fn leads(own: &Clusters) -> bool {
    matches!(own.core.lead(), Lead::Leading(_))
}

/// Looks once at all.
pub async fn look(own: &Clusters) {
    let all = own.core.clusters();
    if leads(own)
        && !all.is_empty()
        && let Err(error) = own.unblock_deletions().await
    {
        tracing::warn!(%error, "a deletion may wait for what cannot be undone");
    }
    let looked = futures_util::stream::iter(all).map(|cluster| async move {
        let name = cluster.name.clone();
        if tokio::time::timeout(2 * PATIENCE, look_at(own, &cluster))
            .await
            .is_err()
        {
            tracing::warn!(cluster = %name, "it takes too long to look at it");
        }
    });
    looked.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn look_at(own: &Clusters, cluster: &Kept<Cluster>) {
    let name = cluster.name.as_str();
    if leads(own) && cluster.work == Work::Creating {
        match cluster.operation.is_empty() {
            true => begin_again(own, cluster).await,
            false => own.call_off(cluster).await,
        }
    }
    if leads(own) {
        own.see_to_accepted(cluster).await;
    }
    if leads(own)
        && let Err(error) = own.clear_abandoned(cluster).await
    {
        tracing::warn!(cluster = name, %error, "what was given up still marks it");
    }
    if leads(own) && cluster.work == Work::Deleting && !own.is_busy(name).await {
        delete_on(own, cluster).await;
    }
    if cluster.work == Work::Deleting {
        return;
    }
    if !cluster.members.iter().any(|member| member.joined) {
        // What was seen while it was built, or before it was given back, is
        // not so any more.
        own.sight.forget(name);
        return;
    }
    let Ok(facts) = own.facts(name).await else {
        return;
    };
    let before = own.sight.get(name, &cluster.id);
    let away = before.map(|seen| seen.memory.lost.len());
    let seen = own.look_at(cluster, &facts).await;
    // Who was away has not heard who came and went; nor has anybody of whom
    // this server, just started, cannot know.
    let returned = away.is_none_or(|away| seen.memory.lost.len() < away);
    if leads(own) && cluster.work == Work::Idle {
        if returned && let Err(error) = own.driver.introduce(&facts).await {
            tracing::warn!(cluster = name, %error, "not everybody knows the others yet");
        }
        heal(own, cluster, &seen).await;
        keep(own, cluster, &seen).await;
        let_out(own, cluster).await;
    }
}

/// Somebody wrote the record and died before the operation was there.
async fn begin_again(own: &Clusters, cluster: &Cluster) {
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
        tracing::warn!(cluster = %cluster.name, %error, "it is not being built yet");
    }
}

/// A deletion ends, whatever became of the operation that began it.
async fn delete_on(own: &Clusters, cluster: &Cluster) {
    let input = DeleteClusterInput {
        cluster: cluster.name.to_string(),
        id: cluster.id.clone(),
    };
    let who = Who::server(OWNER);
    if let Err(error) = own.begin::<DeleteCluster>(&who, &input).await {
        tracing::warn!(cluster = %cluster.name, %error, "it is not deleted yet");
    }
}

/// Whether something of a cluster failed a moment ago.
fn is_sore(cluster: &Cluster) -> bool {
    let failure = cluster.failure.as_ref();
    failure.is_some_and(|failure| now_ms() - failure.at_ms < SORE_MS)
}

/// Has what died replaced.
async fn heal(own: &Clusters, cluster: &Cluster, seen: &Seen) {
    // A cure that failed is not tried again at once.
    // Nor is anything cured without its API.
    if is_sore(cluster) || !seen.observed.serves {
        return;
    }
    // What cannot be done now is looked at again: machines may be free then.
    let cure = match own.cure(cluster, seen) {
        Ok(cure) => cure,
        Err(error) => {
            tracing::warn!(cluster = %cluster.name, %error, "what died is not replaced");
            return;
        }
    };
    if cure.is_nothing() && own.ghosts(cluster, &seen.observed).is_empty() {
        return;
    }
    if own.is_busy(cluster.name.as_str()).await {
        return;
    }
    for machine in &cure.bury {
        let why = cure.why.get(machine).map_or("it has not joined", |why| why);
        tracing::warn!(cluster = %cluster.name, machine, why, "it is replaced");
    }
    let input = HealInput {
        cluster: cluster.name.to_string(),
        dead: cure.bury,
    };
    if let Err(error) = own.begin::<HealCluster>(&Who::server(OWNER), &input).await {
        tracing::warn!(cluster = %cluster.name, %error, "what died is not replaced yet");
    }
}

/// Has its state kept when that is due.
async fn keep(own: &Clusters, cluster: &Cluster, seen: &Seen) {
    let every = i64::try_from(own.settings.snapshot_every.as_millis()).unwrap_or(i64::MAX);
    if every == 0 || !seen.observed.serves || is_sore(cluster) {
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
        .begin::<SnapshotCluster>(&Who::server(OWNER), &input)
        .await
    {
        tracing::warn!(cluster = %cluster.name, %error, "its state is not kept yet");
    }
}

/// Those whose last certificate is over.
async fn let_out(own: &Clusters, cluster: &Cluster) {
    for (who, admission) in &cluster.admissions {
        if !admission.is_over(OVER_MS) {
            continue;
        }
        let name = cluster.name.as_str();
        let Ok(facts) = own.facts(name).await else {
            return;
        };
        let user = user_name(who, admission.generation);
        let out = own.driver.admit(&facts, &user, None);
        if matches!(tokio::time::timeout(PATIENCE, out).await, Ok(Ok(()))) {
            let over = |it: &Admission| it.is_over(OVER_MS);
            let gone = own.forget_user(name, who, admission.generation, over);
            drop(gone.await);
        }
    }
}

/// Has certificates looked at, and renewed where they end soon.
async fn renew(own: &Clusters) {
    for cluster in own.core.clusters() {
        let name = cluster.name.as_str();
        if cluster.work != Work::Idle || own.is_busy(name).await {
            continue;
        }
        let input = RenewInput {
            cluster: name.to_owned(),
        };
        if let Err(error) = own.begin::<RenewCluster>(&Who::server(OWNER), &input).await {
            tracing::warn!(cluster = name, %error, "its certificates are not looked at");
        }
    }
}

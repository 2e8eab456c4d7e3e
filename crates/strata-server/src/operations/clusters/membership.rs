//! Members join and leave a cluster: the steps that creation, scaling and
//! remediation share while a machine is up.

use std::time::Duration;

use futures_util::future::try_join_all;
use strata_clusters::Drained;
use strata_types::ErrorKind;
use strata_types::cluster::{ClusterRole, Member};
use strata_workflow::{Kind, StepContext, StepError};

use super::{Clusters, StepProgress, UpgradeCluster, driver_failed, members};
use crate::core::HeldDrain;
use crate::operations::step_failed;

/// After so many tries, a cluster that does not answer is left as it is.
const JOIN_ATTEMPTS: u32 = 4;
/// Between two checks of a node that is being drained.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Installs what members need, on all at once, and the images.
pub(super) async fn prepare<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    install(progress, cluster, machines).await?;
    images(progress, cluster, machines).await
}

/// Puts images on the machines of members, on all at once.
pub(super) async fn images<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let own = &progress.ctx.context;
    let all = members(&*own.core.cluster(cluster).map_err(step_failed)?, machines);
    let imported = all.iter().map(|member| async move {
        let id = member.machine.as_str();
        let tell = |text: String| progress.set(id, &text);
        let done = own.driver.images(member, &tell).await;
        done.map_err(driver_failed)
    });
    tokio::select! {
        done = try_join_all(imported) => done.map(drop),
        () = progress.ctx.cancelled() => Err(StepError::Cancelled),
    }
}

/// Installs what members need but the images, on all at once.
pub(super) async fn install<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let (ctx, own) = (&progress.ctx, &progress.ctx.context);
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let all = members(&*own.core.cluster(cluster).map_err(step_failed)?, machines);
    let installed = all.iter().map(|member| {
        let facts = &facts;
        async move {
            let id = member.machine.as_str();
            let tell = |text: String| progress.set(id, &text);
            let done = own.driver.install(facts, member, &tell).await;
            done.map_err(driver_failed)?;
            Ok(())
        }
    });
    tokio::select! {
        done = try_join_all(installed) => done.map(drop),
        () = ctx.cancelled() => Err(StepError::Cancelled),
    }
}

/// Joins members: those that control one after the other, workers all at once
/// and beside them.
pub(super) async fn join<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let (ctx, own) = (&progress.ctx, &progress.ctx.context);
    // The machine that joins must know where the API is.
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    own.driver
        .update_peers(&facts)
        .await
        .map_err(driver_failed)?;
    let all = members(&*own.core.cluster(cluster).map_err(step_failed)?, machines);
    let (control, workers): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(|member| !member.joined)
        .partition(|member| member.role == ClusterRole::ControlPlane);
    let one_by_one = async {
        for member in &control {
            join_one(progress, cluster, member).await?;
        }
        Ok(())
    };
    let at_once = try_join_all(
        workers
            .iter()
            .map(|member| join_one(progress, cluster, member)),
    );
    let work = async { futures_util::try_join!(one_by_one, at_once).map(drop) };
    tokio::select! {
        done = work => done?,
        () = ctx.cancelled() => return Err(StepError::Cancelled),
    }
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    own.driver.update_peers(&facts).await.map_err(driver_failed)
}

async fn join_one<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    member: &Member,
) -> Result<(), StepError> {
    let own = &progress.ctx.context;
    let id = member.machine.as_str();
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let tell = |text: String| progress.set(id, &text);
    let joined = own.driver.join(&facts, member, &tell).await;
    joined.map_err(driver_failed)?;
    let ready = own.driver.ready(&facts, member, &tell).await;
    ready.map_err(driver_failed)?;
    own.set_member(cluster, id, |member| member.joined = true)
        .await?;
    progress.set(id, "ready");
    Ok(())
}

/// Has the cluster remove members that are to go. They stay in the record.
pub(super) async fn remove_member<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let own = &ctx.context;
    for id in machines {
        let facts = own.facts(cluster).await.map_err(step_failed)?;
        let Some(member) = facts.member(id).cloned() else {
            continue;
        };
        ctx.progress(format!("{id}: leaving the cluster"));
        let forgotten = own.driver.remove_member(&facts, &member).await;
        forgotten.map_err(driver_failed)?;
        own.set_member(cluster, id, |member| member.joined = false)
            .await?;
    }
    Ok(())
}

/// Has the cluster remove machines that are not its any more.
pub(super) async fn remove_stale_members<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
) -> Result<(), StepError> {
    let own = &ctx.context;
    let now = own.core.cluster(cluster).map_err(step_failed)?;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let observation = own.driver.observe(&facts).await;
    for ghost in own.stale_members(&now, &observation) {
        ctx.progress(format!(
            "{}: it is not of this cluster any more",
            ghost.machine
        ));
        let gone = own.driver.remove_member(&facts, &ghost).await;
        gone.map_err(driver_failed)?;
    }
    Ok(())
}

/// Removes members on the rollback. A cluster that does not answer cannot
/// remove a member, and must not keep machines for that.
pub(super) async fn unjoin<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let gone = remove_member(ctx, cluster, machines).await;
    ignore_silent(ctx, cluster, gone).await?;
    for id in machines {
        let left = ctx.context.set_member(cluster, id, |it| it.joined = false);
        left.await?;
    }
    Ok(())
}

/// What failed only since the cluster has not answered for a while.
async fn ignore_silent<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    done: Result<(), StepError>,
) -> Result<(), StepError> {
    let own = &ctx.context;
    if done.is_err() && ctx.attempt() >= JOIN_ATTEMPTS {
        let facts = own.facts(cluster).await.map_err(step_failed)?;
        if !own.driver.observe(&facts).await.serves {
            tracing::warn!(
                cluster,
                "cluster does not answer: removed member not deregistered"
            );
            return Ok(());
        }
    }
    done
}

/// Members that are not there any more: the machines are free.
pub(super) async fn release<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let own = &ctx.context;
    let released = own.core.lead_cluster(cluster, |now| {
        let mut next = now.clone();
        let goes = |member: &Member| machines.iter().any(|id| id == member.machine.as_str());
        next.members.retain(|member| !goes(member));
        Ok(next)
    });
    match released.await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => drop(other.map_err(step_failed)?),
    }
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let told = own.driver.update_peers(&facts).await;
    if let Err(error) = told {
        tracing::warn!(cluster, %error, "peer lists not updated after member removal");
    }
    Ok(())
}

/// Whether the cluster has no node of a member that has not joined.
pub(super) async fn is_unregistered<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    node: &str,
) -> Result<bool, StepError> {
    let own = &ctx.context;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    if facts.member(node).is_none_or(|member| member.joined) {
        return Ok(false);
    }
    let observation = own.driver.observe(&facts).await;
    Ok(observation.serves && !observation.nodes.iter().any(|it| it.name == node))
}

/// Moves everything off a node that can be moved. What a disruption budget
/// keeps is waited for, until the operation is cancelled; the cluster's record
/// says so meanwhile.
pub(super) async fn drain_member<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let emptied = evict_all(ctx, cluster, node).await;
    ctx.context.set_drain_blocked(cluster, None).await?;
    emptied
}

async fn evict_all<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let own = &ctx.context;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    ctx.progress(format!("{node}: cordoned"));
    let closed = own.driver.cordon(&facts, node, true).await;
    closed.map_err(driver_failed)?;
    loop {
        ctx.safe_point()?;
        if own.is_lost_member(cluster, node) {
            ctx.progress(format!("{node} is lost: no pods to evict"));
            return Ok(());
        }
        ctx.progress(format!("{node}: evicting pods"));
        let drained = tokio::select! {
            drained = own.driver.drain(&facts, node) => drained.map_err(driver_failed)?,
            () = ctx.cancelled() => return Err(StepError::Cancelled),
        };
        let Drained::Waiting(pods) = drained else {
            return Ok(());
        };
        let shown = pods.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        ctx.progress(format!("{node}: waiting for {} pods: {shown}", pods.len()));
        let held = HeldDrain {
            node: node.to_owned(),
            why: drain_blocker(node, &pods, &shown, &ways_out(ctx, cluster, node)),
        };
        own.set_drain_blocked(cluster, Some(held)).await?;
        tokio::select! {
            () = ctx.cancelled() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

/// How a drain that is held can be given up: [`Clusters::abandon_held`] and
/// [`Clusters::upgrade`] do it.
fn ways_out<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    node: &str,
) -> String {
    let now = ctx.context.core.cluster(cluster).ok();
    let member = now.as_ref().and_then(|now| now.member(node));
    let pool = member.map_or(String::new(), |member| format!(" {}", member.pool));
    let in_spec = |pool: &str| {
        let mut pools = now.iter().flat_map(|now| &now.spec.pools);
        pools.any(|one| one.name == pool)
    };
    let cancel = format!("with: strata operation cancel {}", ctx.operation());
    match (K::NAME == UpgradeCluster::NAME, member) {
        (true, Some(member)) => format!(
            "give the upgrade up by upgrading the cluster to {}, which the node has, by scaling \
             pool{pool}, or {cancel}",
            member.version
        ),
        // A pool that is being deleted is in the specification no more.
        (false, Some(member)) if !in_spec(&member.pool) => {
            format!("give the change up by adding pool{pool} again or {cancel}")
        }
        _ => format!("give the change up by scaling pool{pool} again or {cancel}"),
    }
}

/// What keeps a node from being drained, and what to do.
fn drain_blocker(node: &str, pods: &[String], shown: &str, ways_out: &str) -> String {
    let (count, more) = (pods.len(), if pods.len() > 3 { ", …" } else { "" });
    let words = if count == 1 { "pod is" } else { "pods are" };
    format!(
        "node {node} cannot be drained: {count} {words} not evicted, as a PodDisruptionBudget or \
         their own shutdown keeps them ({shown}{more}); see kubectl get pdb -A, or {ways_out}"
    )
}

/// A node that stays takes pods again.
pub(super) async fn uncordon<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let own = &ctx.context;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let opened = own.driver.cordon(&facts, node, false).await;
    opened.map_err(driver_failed)
}

/// The same on the rollback, if the cluster answers.
pub(super) async fn uncordon_on_undo<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let there = ctx.context.core.cluster(cluster);
    match there {
        Ok(now) if now.member(node).is_some_and(|member| member.joined) => {}
        // One that is on its way out stays closed.
        _ => return Ok(()),
    }
    let opened = uncordon(ctx, cluster, node).await;
    ignore_silent(ctx, cluster, opened).await
}

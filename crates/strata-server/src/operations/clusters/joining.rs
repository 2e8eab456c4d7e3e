//! Members made part of a cluster, and taken out of it again: what creating,
//! scaling and healing have in common while a machine is up.

use std::time::Duration;

use futures_util::future::try_join_all;
use strata_clusters::Drained;
use strata_types::ErrorKind;
use strata_types::cluster::{ClusterRole, Member};
use strata_workflow::{At, Kind, StepError};

use super::{Board, Clusters, driver_failed, members};
use crate::core::HeldDrain;
use crate::operations::step_failed;

/// After so many tries, a cluster that does not answer is left as it is.
const TRIED: u32 = 4;
/// Between two looks at a node that is being emptied.
const LOOK: Duration = Duration::from_secs(2);

/// Installs what members need, on all at once, and the images.
pub(super) async fn prepare<K: Kind<Context = Clusters>>(
    board: &Board<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    install(board, cluster, machines).await?;
    images(board, cluster, machines).await
}

/// Puts images on the machines of members, on all at once.
pub(super) async fn images<K: Kind<Context = Clusters>>(
    board: &Board<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let own = &board.at.context;
    let all = members(&*own.core.cluster(cluster).map_err(step_failed)?, machines);
    let imported = all.iter().map(|member| async move {
        let id = member.machine.as_str();
        let tell = |text: String| board.tell(id, &text);
        let done = own.driver.images(member, &tell).await;
        done.map_err(driver_failed)
    });
    tokio::select! {
        done = try_join_all(imported) => done.map(drop),
        () = board.at.cancelled() => Err(StepError::Cancelled),
    }
}

/// Installs what members need but the images, on all at once.
pub(super) async fn install<K: Kind<Context = Clusters>>(
    board: &Board<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let (at, own) = (&board.at, &board.at.context);
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let all = members(&*own.core.cluster(cluster).map_err(step_failed)?, machines);
    let installed = all.iter().map(|member| {
        let facts = &facts;
        async move {
            let id = member.machine.as_str();
            let tell = |text: String| board.tell(id, &text);
            let done = own.driver.install(facts, member, &tell).await;
            done.map_err(driver_failed)?;
            Ok(())
        }
    });
    tokio::select! {
        done = try_join_all(installed) => done.map(drop),
        () = at.cancelled() => Err(StepError::Cancelled),
    }
}

/// Joins members: those that control one after the other, workers all at once
/// and beside them.
pub(super) async fn join<K: Kind<Context = Clusters>>(
    board: &Board<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let (at, own) = (&board.at, &board.at.context);
    // Whoever joins must know where the API is.
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    own.driver.introduce(&facts).await.map_err(driver_failed)?;
    let all = members(&*own.core.cluster(cluster).map_err(step_failed)?, machines);
    let (control, workers): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(|member| !member.joined)
        .partition(|member| member.role == ClusterRole::ControlPlane);
    let one_by_one = async {
        for member in &control {
            join_one(board, cluster, member).await?;
        }
        Ok(())
    };
    let at_once = try_join_all(
        workers
            .iter()
            .map(|member| join_one(board, cluster, member)),
    );
    let work = async { futures_util::try_join!(one_by_one, at_once).map(drop) };
    tokio::select! {
        done = work => done?,
        () = at.cancelled() => return Err(StepError::Cancelled),
    }
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    own.driver.introduce(&facts).await.map_err(driver_failed)
}

async fn join_one<K: Kind<Context = Clusters>>(
    board: &Board<K>,
    cluster: &str,
    member: &Member,
) -> Result<(), StepError> {
    let own = &board.at.context;
    let id = member.machine.as_str();
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let tell = |text: String| board.tell(id, &text);
    let joined = own.driver.join(&facts, member, &tell).await;
    joined.map_err(driver_failed)?;
    let ready = own.driver.ready(&facts, member, &tell).await;
    ready.map_err(driver_failed)?;
    own.set_member(cluster, id, |member| member.joined = true)
        .await?;
    board.tell(id, "ready");
    Ok(())
}

/// Has the cluster forget members that are to go. They stay in the record.
pub(super) async fn forget<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let own = &at.context;
    for id in machines {
        let facts = own.facts(cluster).await.map_err(step_failed)?;
        let Some(member) = facts.member(id).cloned() else {
            continue;
        };
        at.progress(format!("{id}: leaving the cluster"));
        let forgotten = own.driver.forget(&facts, &member).await;
        forgotten.map_err(driver_failed)?;
        own.set_member(cluster, id, |member| member.joined = false)
            .await?;
    }
    Ok(())
}

/// Has the cluster forget machines that are not its any more.
pub(super) async fn forget_ghosts<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
) -> Result<(), StepError> {
    let own = &at.context;
    let now = own.core.cluster(cluster).map_err(step_failed)?;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let seen = own.driver.observe(&facts).await;
    for ghost in own.ghosts(&now, &seen) {
        at.progress(format!(
            "{}: it is not of this cluster any more",
            ghost.machine
        ));
        let gone = own.driver.forget(&facts, &ghost).await;
        gone.map_err(driver_failed)?;
    }
    Ok(())
}

/// Has it forget members on the way back. A cluster that does not answer cannot forget
/// anybody, and must not keep machines for that.
pub(super) async fn unjoin<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let gone = forget(at, cluster, machines).await;
    unless_silent(at, cluster, gone).await?;
    for id in machines {
        let left = at.context.set_member(cluster, id, |it| it.joined = false);
        left.await?;
    }
    Ok(())
}

/// What failed only since the cluster has not answered for a while.
async fn unless_silent<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    done: Result<(), StepError>,
) -> Result<(), StepError> {
    let own = &at.context;
    if done.is_err() && at.attempt() >= TRIED {
        let facts = own.facts(cluster).await.map_err(step_failed)?;
        if !own.driver.observe(&facts).await.serves {
            tracing::warn!(cluster, "it does not answer, and keeps what is gone");
            return Ok(());
        }
    }
    done
}

/// Members that are not there any more: the machines are free.
pub(super) async fn release<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let own = &at.context;
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
    let told = own.driver.introduce(&facts).await;
    if let Err(error) = told {
        tracing::warn!(cluster, %error, "the others are not told yet who left");
    }
    Ok(())
}

/// Whether the cluster has no node of a member that has not joined.
pub(super) async fn is_stranger<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    node: &str,
) -> Result<bool, StepError> {
    let own = &at.context;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    if facts.member(node).is_none_or(|member| member.joined) {
        return Ok(false);
    }
    let seen = own.driver.observe(&facts).await;
    Ok(seen.serves && !seen.nodes.iter().any(|it| it.name == node))
}

/// Moves everything off a node that can be moved. What a disruption budget
/// keeps is waited for, until the operation is cancelled; the cluster's record
/// says so meanwhile.
pub(super) async fn empty<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let emptied = evict_all(at, cluster, node).await;
    at.context.set_held(cluster, None).await?;
    emptied
}

async fn evict_all<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let own = &at.context;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    at.progress(format!("{node}: nothing new is put on it"));
    let closed = own.driver.cordon(&facts, node, true).await;
    closed.map_err(driver_failed)?;
    loop {
        at.safe_point()?;
        if own.is_dead(cluster, node) {
            at.progress(format!("{node} is lost: there is nothing to move"));
            return Ok(());
        }
        at.progress(format!("{node}: moving pods off it"));
        let drained = tokio::select! {
            drained = own.driver.drain(&facts, node) => drained.map_err(driver_failed)?,
            () = at.cancelled() => return Err(StepError::Cancelled),
        };
        let Drained::Waiting(pods) = drained else {
            return Ok(());
        };
        let shown = pods.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        at.progress(format!("{node}: waiting for {} pods: {shown}", pods.len()));
        let held = HeldDrain {
            node: node.to_owned(),
            why: held(node, &pods, &shown, &at.operation().to_string()),
        };
        own.set_held(cluster, Some(held)).await?;
        tokio::select! {
            () = at.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// What keeps a node from being drained, and what to do.
fn held(node: &str, pods: &[String], shown: &str, operation: &str) -> String {
    let (count, more) = (pods.len(), if pods.len() > 3 { ", …" } else { "" });
    let words = if count == 1 { "pod is" } else { "pods are" };
    format!(
        "node {node} cannot be drained: {count} {words} not evicted, as a PodDisruptionBudget or \
         their own shutdown keeps them ({shown}{more}); see kubectl get pdb -A, or give the change \
         up by scaling the pool again or with: strata operation cancel {operation}"
    )
}

/// A node that stays takes pods again.
pub(super) async fn reopen<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let own = &at.context;
    let facts = own.facts(cluster).await.map_err(step_failed)?;
    let opened = own.driver.cordon(&facts, node, false).await;
    opened.map_err(driver_failed)
}

/// The same on the way back, if the cluster answers.
pub(super) async fn reopen_again<K: Kind<Context = Clusters>>(
    at: &At<K>,
    cluster: &str,
    node: &str,
) -> Result<(), StepError> {
    let there = at.context.core.cluster(cluster);
    match there {
        Ok(now) if now.member(node).is_some_and(|member| member.joined) => {}
        // One that is on its way out stays closed.
        _ => return Ok(()),
    }
    let opened = reopen(at, cluster, node).await;
    unless_silent(at, cluster, opened).await
}

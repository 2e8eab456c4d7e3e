//! Machines of members brought up and taken down: what creating, scaling and
//! remediation have in common before a machine is part of a cluster, and after.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{join_all, try_join_all};
use strata_types::cluster::Member;
use strata_types::machine::MachinePhase;
use strata_types::{Error, ErrorKind};
use strata_workflow::{Kind, OperationId, Retry, State, StepContext, StepError};
use tokio_util::sync::CancellationToken;

use super::{Clusters, StepProgress};
use crate::core::Cluster;
use crate::operations::hypervisors::{
    CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, SwitchInput, SwitchMachine,
};
use crate::operations::step_failed;

/// Machines are brought up by operations that try for themselves; what is tried
/// again here is what this server could not write, and the rollback.
pub(super) const BOOT_RETRY: Retry = Retry {
    attempts: 3,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(30),
};

/// Brings machines up, all at once.
pub(super) async fn bring_up<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let progress = StepProgress::new(ctx);
    // All are waited for, also when one fails: nothing may still come up when
    // the rollback begins. The others are cancelled, to have that soon.
    let failed = CancellationToken::new();
    let up = machines.iter().map(|id| async {
        let up = bring_one_up(&progress, cluster, id, &failed).await;
        if up.is_err() {
            failed.cancel();
        }
        up
    });
    let up = join_all(up).await;
    let (calls_off, fails): (Vec<_>, Vec<_>) = up
        .into_iter()
        .filter_map(Result::err)
        .partition(|error| matches!(error, StepError::Cancelled));
    let first = fails.into_iter().chain(calls_off).next();
    first.map_or(Ok(()), Err)
}

async fn bring_one_up<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    machine: &str,
    failed: &CancellationToken,
) -> Result<(), StepError> {
    let (ctx, own) = (&progress.ctx, &progress.ctx.context);
    let now = own.core.machine(machine).map_err(step_failed)?;
    crate::operations::is_for(&now, cluster).map_err(step_failed)?;
    if now.phase != MachinePhase::Up {
        let input = CreateInput {
            machine: machine.to_owned(),
            cluster: cluster.to_owned(),
        };
        let begun = own.operations().map_err(step_failed)?;
        let owner = owner(cluster);
        let begun = begun.submit::<CreateHypervisor>(&input, &owner, None);
        let id = begun
            .await
            .map_err(|error| step_failed(crate::operations::public(&error)))?;
        follow(progress, id, machine, Some(failed)).await?;
    }
    // Where others reach it is known from here on.
    let node = own.core.node(machine).map_err(step_failed)?;
    let address = node.address.clone();
    ctx.safe_point()?;
    own.set_member(cluster, machine, |member| {
        address.clone_into(&mut member.address);
    })
    .await
}

/// Takes machines down, all at once. One that cannot be wiped does not keep the
/// others: its error is returned at the end.
pub(super) async fn take_down<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    cluster: &str,
    machines: &[String],
) -> Result<(), StepError> {
    let progress = StepProgress::new(ctx);
    let gone = machines
        .iter()
        .map(|id| take_one_down(&progress, cluster, id));
    let gone = join_all(gone).await;
    gone.into_iter().collect()
}

async fn take_one_down<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    cluster: &str,
    machine: &str,
) -> Result<(), StepError> {
    let own = &progress.ctx.context;
    match own.core.machine(machine) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(step_failed(error)),
        // It was released before, and may be another's by now.
        Ok(now) if crate::operations::is_for(&now, cluster).is_err() => return Ok(()),
        Ok(now) if now.phase == MachinePhase::Available && own.core.node(machine).is_err() => {
            return Ok(());
        }
        Ok(_) => {}
    }
    let input = DestroyInput::of_cluster(machine, cluster);
    let begun = own.operations().map_err(step_failed)?;
    let owner = owner(cluster);
    let begun = begun.submit::<DestroyHypervisor>(&input, &owner, None);
    let id = begun
        .await
        .map_err(|error| step_failed(crate::operations::public(&error)))?;
    follow(progress, id, machine, None).await
}

/// Switches machines off, all at once: nothing runs on them any more.
pub(super) async fn switch_off<K: Kind<Context = Clusters>>(
    ctx: &StepContext<K>,
    machines: &[String],
) -> Result<(), StepError> {
    let progress = StepProgress::new(ctx);
    let off = machines.iter().map(|id| switch_one_off(&progress, id));
    try_join_all(off).await.map(drop)
}

async fn switch_one_off<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    machine: &str,
) -> Result<(), StepError> {
    let own = &progress.ctx.context;
    match own.core.machine(machine) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(step_failed(error)),
        // It never came up, or is on its way down.
        Ok(now) if now.phase != MachinePhase::Up => return Ok(()),
        Ok(_) => {}
    }
    let input = SwitchInput {
        machine: machine.to_owned(),
        power: strata_api::rest::PowerAction::Off,
    };
    let begun = own.operations().map_err(step_failed)?;
    let begun = begun.submit::<SwitchMachine>(&input, "clusters", None);
    let id = begun
        .await
        .map_err(|error| step_failed(crate::operations::public(&error)))?;
    follow(progress, id, machine, None).await
}

/// The owner for which machines are brought up and down.
fn owner(cluster: &str) -> String {
    format!("cluster {cluster}")
}

/// Waits for another operation and shows how far it is. It is cancelled with
/// the operation that waits for it, or when `failed_beside` is cancelled, if
/// given.
async fn follow<K: Kind<Context = Clusters>>(
    progress: &StepProgress<K>,
    id: OperationId,
    machine: &str,
    failed_beside: Option<&CancellationToken>,
) -> Result<(), StepError> {
    let operations = progress.ctx.context.operations().map_err(step_failed)?;
    let failed = |error| step_failed(crate::operations::public(&error));
    let mut snapshots = operations.watch(id).await.map_err(failed)?;
    let mut asked = false;
    let called_off = async {
        match failed_beside {
            Some(failed) => tokio::select! {
                () = progress.ctx.cancelled() => {}
                () = failed.cancelled() => {}
            },
            None => std::future::pending().await,
        }
    };
    tokio::pin!(called_off);
    loop {
        let something = async {
            tokio::select! {
                next = snapshots.next() => Some(next),
                () = &mut called_off, if !asked => None,
            }
        };
        let Some(next) = progress.ctx.wait_for(something).await else {
            asked = true;
            let _ = operations.cancel(id, "its cluster").await;
            continue;
        };
        let now = match next {
            Some(Ok(now)) => now,
            Some(Err(error)) => return Err(failed(error)),
            None => operations.get(id).await.map_err(failed)?,
        };
        match &now.state {
            State::Completed { .. } => {
                progress.set(machine, "done");
                return Ok(());
            }
            State::Failed { .. } if asked => return Err(StepError::Cancelled),
            State::Failed { reason, .. } => {
                return Err(StepError::permanent(format!("{machine}: {reason}")));
            }
            _ => {
                let step = now.steps.last();
                let text = step.map(|step| match &step.progress() {
                    Some(progress) => progress.text.clone(),
                    None => step.name.clone(),
                });
                progress.set(machine, &text.unwrap_or_else(|| "waiting".into()));
            }
        }
    }
}

/// Those that were chosen, and with which nothing was begun yet.
pub(super) fn chosen(cluster: &Cluster) -> Vec<String> {
    let fresh = |member: &&Member| !member.joined && member.address.is_empty();
    let fresh = cluster.members.iter().filter(fresh);
    fresh.map(|member| member.machine.to_string()).collect()
}

/// The error of a cluster that has gone meanwhile.
pub(super) fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

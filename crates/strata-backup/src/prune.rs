//! Deleting backups, and freeing what only they had.
//!
//! A death at any moment leaves everything that is not deleted whole: snapshots
//! go first; what is partly needed is written again; the new index is written
//! before the old one is removed; packs are removed when no index names them
//! any more. What is left over goes with the next prune.

use rustic_core::repofile::SnapshotId;
use rustic_core::{LimitOption, OpenStatus, PruneOptions, Repository};
use strata_types::backup::Retention;

use crate::error::Result;
use crate::progress::Phase;
use crate::retention::{self, Candidate, PrunePlan};
use crate::session::Session;
use crate::snapshot;

/// What a prune did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The backups that are gone.
    pub forgotten: Vec<String>,
    /// How much smaller the repository is.
    pub freed_bytes: u64,
}

/// What it would delete. Only backups that we made are considered: other users
/// of the repository have rules of their own. Each host's backups are counted
/// on their own.
pub(crate) fn plan(session: &Session, keep: &Retention) -> Result<PrunePlan> {
    let repository = session.open()?;
    plan_in(session, &repository, keep)
}

fn plan_in(
    session: &Session,
    repository: &Repository<OpenStatus>,
    keep: &Retention,
) -> Result<PrunePlan> {
    // What an unreadable one needs is not known, so nothing can be removed.
    let snapshots = session.snapshots(repository)?.all()?;
    let ours = snapshots.iter().filter(|one| snapshot::is_ours(one));
    let candidates = ours.map(|one| {
        let candidate = Candidate {
            id: one.id.to_hex().to_string(),
            taken_at_ms: one.time.timestamp().as_millisecond(),
        };
        (one.hostname.clone(), candidate)
    });
    Ok(retention::plan_by_host(candidates.collect(), keep))
}

pub(crate) fn run(session: &Session, keep: &Retention) -> Result<Pruned> {
    let repository = session.open()?;
    let _lock = session.lock(&repository, true)?;
    let plan = plan_in(session, &repository, keep)?;
    let ids = plan.forget.iter().map(|id| id.parse::<SnapshotId>());
    let ids = session.told("forgetting", ids.collect::<Result<Vec<_>, _>>())?;
    session.told("forgetting", repository.delete_snapshots(&ids))?;
    let freed_bytes = free(session, &repository)?;
    session.store.sweep()?;
    Ok(Pruned {
        forgotten: plan.forget,
        freed_bytes,
    })
}

fn free(session: &Session, repository: &Repository<OpenStatus>) -> Result<u64> {
    session.reporter.enter(Phase::Planning, None);
    let mut options = PruneOptions::default();
    // We have the repository alone, so nothing that is not named now will be
    // named by another's snapshot soon.
    options.instant_delete = true;
    options.max_repack = LimitOption::Unlimited;
    options.keep_pack = jiff::Span::new();
    options.keep_delete = jiff::Span::new();
    let plan = session.told(
        "finding what is not needed",
        repository.prune_plan(&options),
    )?;
    let sizes = plan.stats.size_sum();
    let freed = sizes.remove + sizes.repackrm + plan.stats.size_unref;
    session.reporter.enter(Phase::Freeing, Some(sizes.repack));
    session.told("freeing space", repository.prune(&options, plan))?;
    session.gate.settle()?;
    session.reporter.done();
    Ok(freed)
}

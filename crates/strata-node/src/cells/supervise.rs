//! Executables that the daemon supervises: one that ends is restarted according
//! to its policy, after a delay that grows with each attempt, until it is
//! stopped or its cell goes.
//!
//! What one run hands on to the next is in its own record, so the latest run of
//! a name holds all state: what was requested, how it went, how often it was
//! tried, and whether a caller requested its end. A daemon that was away reads
//! that and goes on. Unlike other records of a node these must outlive the
//! machine too, so they are waited for until they are on the disk.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use strata_cell::RunRecord;
use strata_types::{BackoffPolicy, Result};
use tokio_util::sync::CancellationToken;

use super::cell::{Cell, guard, internal};
use super::executable::{Executable, RunEnd, Supervision};
use super::runs::LaunchOptions;
use super::{Cells, Phase};
use crate::blocking::blocking;
use crate::clock::{ms, now_ms};

/// Whether the cells of a node are supervised now.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    /// All that was there has been found again.
    begun: AtomicBool,
    /// The daemon ends: whatever ends from now on is the next one's business.
    closing: CancellationToken,
}

impl Cells {
    /// Begins to see to what was found again. What ended with the machine
    /// comes back at once, in the order in which it was first started.
    pub(crate) fn resume(&self) {
        self.shared.supervisor.begun.store(true, Ordering::SeqCst);
        let mut lost = Vec::new();
        for cell in self.list(None) {
            let is_dead = matches!(cell.phase(), Phase::Dead(_));
            for run in cell.latest_runs() {
                match run.view().is_waiting() {
                    true if is_dead => lost.push((cell.clone(), run)),
                    true => cell.start_later(&run),
                    false => {}
                }
            }
        }
        lost.sort_by_key(|(_, run)| run.supervision().since);
        let tasks = self.shared.tasks.clone();
        tasks.detached("executable-recovery", bring_back(lost));
    }

    /// Starts nothing again from now on.
    pub(crate) fn close(&self) {
        self.shared.supervisor.closing.cancel();
    }
}

/// The end of the machine is no end of their own: nothing is counted.
async fn bring_back(lost: Vec<(Arc<Cell>, Arc<Executable>)>) {
    for (cell, run) in lost {
        let since = run.supervision().since;
        run.supervise(|next| next.backoff = Default::default());
        tracing::info!(cell = %cell.spec.name, executable = %run.spec.name, since, "executable restarted after recovery");
        if cell.try_again(&run, run.supervision()).await.is_err() {
            cell.start_later(&run);
        }
    }
}

impl Cell {
    /// When a run that ended so is started again; none when it stays ended.
    pub(super) fn next_start(&self, run: &Arc<Executable>, end: RunEnd) -> Option<i64> {
        let wanted = run.spec.restart.wants_restart(end.ending) && !run.is_told_to_end();
        if !wanted || self.is_going() || !self.is_latest(run) {
            return None;
        }
        let mut wait = Duration::ZERO;
        run.supervise(|next| {
            wait = next
                .backoff
                .after_run(BackoffPolicy::EXECUTABLES, end.lived);
        });
        Some(ms(end.ended_ns).saturating_add(millis(wait)))
    }

    fn is_latest(&self, run: &Arc<Executable>) -> bool {
        let runs = guard(&self.runs);
        let latest = runs.latest_of(&run.spec.name);
        latest.is_some_and(|latest| Arc::ptr_eq(latest, run))
    }

    /// Starts a run that waits again when its time has come.
    pub(super) fn start_later(self: &Arc<Self>, run: &Arc<Executable>) {
        let Ok(shared) = self.shared() else { return };
        let supervisor = &shared.supervisor;
        if supervisor.begun.load(Ordering::SeqCst) {
            let closing = supervisor.closing.clone();
            let (cell, run) = (Arc::downgrade(self), run.clone());
            shared.tasks.restart("executable-restart", move || {
                again(cell.clone(), run.clone(), closing.clone())
            });
        }
    }

    /// Starts what follows a run that waits, in a cell that is alive again if
    /// it was not. When that fails, the next try is put off.
    async fn try_again(self: &Arc<Self>, run: &Arc<Executable>, next: Supervision) -> Result<()> {
        let tried = match self.upgrade_cells() {
            Some(cells) => match cells.ensure_ready(self).await {
                Ok(()) => self.follow(run, next).await,
                Err(error) => Err(error),
            },
            None => return Ok(()),
        };
        match tried {
            // Nothing comes into it any more.
            Err(_) if self.is_going() => {
                run.set_at_rest(false);
                Ok(())
            }
            Err(error) => {
                let mut wait = Duration::ZERO;
                run.supervise(|next| {
                    wait = next
                        .backoff
                        .after_run(BackoffPolicy::EXECUTABLES, Duration::ZERO);
                });
                tracing::warn!(cell = %self.spec.name, executable = %run.spec.name, %error, ?wait,
                    "executable restart failed");
                let trouble = format!("could not be started again: {error}");
                run.put_off(trouble, now_ms().saturating_add(millis(wait)));
                Err(error)
            }
            done => done,
        }
    }

    async fn follow(self: &Arc<Self>, run: &Arc<Executable>, next: Supervision) -> Result<()> {
        let _starting = self.starting.lock().await;
        // Stopped, or started by a caller meanwhile.
        if !run.view().is_waiting() || run.is_told_to_end() {
            return Ok(());
        }
        self.require_ready()?;
        let launched = blocking(|| self.launch(run.spec.clone(), LaunchOptions::PLAIN, next))?;
        self.keep(launched);
        run.set_at_rest(true);
        Ok(())
    }

    /// Ends the supervision of an executable permanently; returns the run that
    /// is left to end, if one is.
    pub(super) async fn let_go(&self, run: Arc<Executable>) -> Result<Arc<Executable>> {
        if !run.spec.is_supervised() {
            return Ok(run);
        }
        // A start under way becomes known first; none begins after it.
        let _starting = self.starting.lock().await;
        let run = self.executable(&run.spec.name)?;
        blocking(|| {
            RunRecord::write_told_to_end(&run.dir)?;
            RunRecord::sync(&run.dir)
        })
        .map_err(|e| internal("write down that it is to end", e))?;
        run.set_told_to_end();
        Ok(run)
    }

    /// The same for all of them. Their cell goes: what cannot be written down
    /// goes with it.
    pub(super) async fn let_go_of_all(&self) {
        for run in self.latest_runs() {
            if let Err(error) = self.let_go(run).await {
                tracing::warn!(cell = %self.spec.name, %error, "stopped; desired state not saved");
            }
        }
    }

    /// Whether something in it is supervised.
    pub(super) fn is_kept(&self) -> bool {
        let runs = self.latest_runs();
        runs.iter().any(|run| {
            let is_over = run.view().is_at_rest();
            run.spec.is_supervised() && !run.is_told_to_end() && !is_over
        })
    }

    /// Waits until a run's record, and all that leads to it, is on the disk.
    pub(super) fn make_lasting(&self, root: &Path, run_dir: &Path) {
        let synced = RunRecord::sync(run_dir).and_then(|()| sync_up(root, run_dir));
        if let Err(error) = synced {
            tracing::warn!(cell = %self.spec.name, %error,
                "executable record not synced");
        }
    }
}

/// Waits for its time, then starts it; and again, while that fails.
async fn again(cell: Weak<Cell>, run: Arc<Executable>, closing: CancellationToken) {
    loop {
        let wait = run.view().next_start_at_ms.saturating_sub(now_ms());
        // A clock that was set back must not keep it waiting for hours.
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        let wait = wait.min(BackoffPolicy::EXECUTABLES.longest);
        tokio::select! {
            biased;
            () = closing.cancelled() => return,
            waited = tokio::time::timeout(wait, run.at_rest()) => {
                if waited.is_ok() {
                    return;
                }
            }
        }
        let Some(cell) = cell.upgrade() else { return };
        let now = run.supervision();
        let next = Supervision {
            restarts: now.restarts.saturating_add(1),
            ..now
        };
        if cell.try_again(&run, next).await.is_ok() {
            return;
        }
    }
}

/// A run, its cell, the cells around it: their directories and records.
fn sync_up(root: &Path, run_dir: &Path) -> io::Result<()> {
    for dir in run_dir.ancestors() {
        match File::open(dir.join("cell.json")) {
            Ok(record) => record.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        File::open(dir)?.sync_all()?;
        if dir == root {
            break;
        }
    }
    Ok(())
}

fn millis(wait: Duration) -> i64 {
    i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
}

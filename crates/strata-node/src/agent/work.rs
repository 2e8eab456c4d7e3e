//! The worker of one instance: observes, decides, does one thing, observes
//! again, until nothing is left to do. What fails is tried again according to
//! the instance's restart policy; what cannot be had here is refused.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use strata_types::pod::PodState;
use strata_types::{BackoffPolicy, Ending, Error, ErrorKind, Result};
use tokio::time::Instant;

use super::assigned_spec::{AssignedSpec, UnitName};
use super::instances::{Instance, Instances, State};
use super::plan::{NextStep, PlanInput, decide};
use super::state::{Assigned, Progress};
use crate::blocking::blocking;
use crate::vms::VmBoot;

/// How often it is reported how far a pull is.
const PULL_REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// How long what others are about to give back is waited for.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often an assignment is written again that the disk has not taken.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How often a unit is killed that has not ended since: a start that was under
/// way may have come between.
const KILL_INTERVAL: Duration = Duration::from_millis(500);
/// How soon a unit is destroyed again that could not be.
const DESTROY_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Works until nothing is left to do.
pub(super) async fn work(instances: Instances, instance: Arc<Instance>) {
    loop {
        instances.write(&mut instance.state());
        let (assigned, step, wait) = look(&instances, &instance);
        if step == NextStep::Nothing || instances.0.closing.is_cancelled() {
            {
                let mut state = instance.state();
                if instances.0.closing.is_cancelled() || !(state.again || state.unwritten) {
                    state.working = false;
                    return;
                }
                if state.again {
                    continue;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(WRITE_RETRY_INTERVAL) => {}
                () = instance.news.notified() => {}
                () = instances.0.closing.cancelled() => {}
            }
            continue;
        }
        if let Some(until) = wait {
            tokio::select! {
                () = tokio::time::sleep_until(until) => instance.state().retry_at = None,
                () = instance.news.notified() => {}
                () = instances.0.closing.cancelled() => {}
            }
            continue;
        }
        // What ends must not wait behind what is being fetched: a lease may run
        // out meanwhile. The semaphore is never closed.
        let place = match step {
            NextStep::Create | NextStep::Start => instances.0.places.acquire().await.ok(),
            _ => None,
        };
        let worker = Worker {
            instances: &instances,
            instance: &instance,
            assigned,
        };
        let over = worker.take(step).await;
        drop(place);
        if over {
            return;
        }
    }
}

/// What is assigned, what is to be done, and until when that has to wait.
fn look(instances: &Instances, instance: &Instance) -> (Assigned, NextStep, Option<Instant>) {
    let (assigned, going, fenced, retry_at, hold_until, refusing) = {
        let mut state = instance.state();
        state.again = false;
        let assigned = state.assigned.clone();
        // What no server knows rests as what is fenced does.
        let fenced = state.fenced || state.orphaned_until.is_some();
        let State {
            going,
            retry_at,
            hold_until,
            ..
        } = *state;
        let refusing = state.refusing.clone().filter(|_| !going && !fenced);
        (assigned, going, fenced, retry_at, hold_until, refusing)
    };
    let seen = instances.0.unit_runtime.look(&assigned.unit_spec.unit());
    let step = decide(&PlanInput {
        assigned: &assigned,
        going,
        fenced,
        seen: seen.as_ref(),
    });
    let step = refusing.map_or(step, NextStep::Refuse);
    if let Some(address) = seen.and_then(|seen| seen.address) {
        instance.state().address = Some(address);
    }
    let begins = matches!(step, NextStep::Create | NextStep::Start);
    let hold_until = hold_until.filter(|_| begins);
    let wait = retry_at.max(hold_until);
    (assigned, step, wait.filter(|at| *at > Instant::now()))
}

/// One step of one instance.
struct Worker<'a> {
    instances: &'a Instances,
    instance: &'a Arc<Instance>,
    /// As it was when the step was decided.
    assigned: Assigned,
}

impl Worker<'_> {
    /// Takes a step; whether it was the last.
    async fn take(&self, step: NextStep) -> bool {
        let unit_runtime = &self.instances.0.unit_runtime;
        let unit = self.assigned.unit_spec.unit();
        let starts = self.assigned.starts;
        let done = match &step {
            NextStep::Nothing => Ok(()),
            NextStep::Create => self.create().await,
            NextStep::Start => {
                let started = unit_runtime.start(&unit).await;
                started.map(|()| self.note(Progress::Started(starts)))
            }
            NextStep::Stop => {
                // Before it is: a daemon that dies meanwhile would find it
                // started and stopped by another, and leave it so.
                self.note(Progress::Stopped);
                self.until_ended(&unit, unit_runtime.stop(&unit, self.grace()))
                    .await
            }
            NextStep::Note(progress) => {
                self.note(*progress);
                Ok(())
            }
            NextStep::Destroy => {
                let grace = self.is_killed().then_some(Duration::ZERO);
                self.until_ended(&unit, unit_runtime.destroy(&unit, grace))
                    .await
            }
            NextStep::RemoveSuperseded(old) => {
                let grace = self.is_killed().then_some(Duration::ZERO);
                let destroyed = unit_runtime.destroy(old, grace);
                let destroyed = self.until_ended(old, destroyed).await;
                destroyed.map(|()| {
                    self.change(|assigned| assigned.superseded.retain(|unit| unit != old));
                })
            }
            NextStep::Forget => return self.forget(),
            NextStep::Refuse(reason) => return self.refuse(reason.clone()).await,
        };
        match done {
            Ok(()) => false,
            Err(error) => self.failed(&step, &error).await,
        }
    }

    fn is_killed(&self) -> bool {
        self.instance.state().kill
    }

    /// Awaits the end of a unit, which may take its grace period. If another
    /// node may start it meanwhile, it is killed.
    async fn until_ended(
        &self,
        unit: &UnitName,
        ending: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let mut ending = std::pin::pin!(ending);
        loop {
            let kills = self.is_killed();
            tokio::select! {
                ended = &mut ending => return ended,
                // What else changes is found after this step.
                () = self.instance.news.notified(), if !kills => {}
                () = tokio::time::sleep(KILL_INTERVAL), if kills => {}
            }
            if self.is_killed()
                && let Err(error) = self.instances.0.unit_runtime.kill(unit)
            {
                let id = &self.assigned.id;
                tracing::warn!(id, %error, "unit of a withdrawn instance not killed; tried again");
            }
        }
    }

    /// Makes its unit, at the address it had if that is still to be had.
    async fn create(&self) -> Result<()> {
        let unit_runtime = &self.instances.0.unit_runtime;
        let address = self.instance.state().address;
        let unit_spec = self.assigned.unit_spec.clone();
        let making = unit_runtime.create(unit_spec.clone().at(address));
        let moved = match self.reporting_pulls(making).await {
            Err(error) if address.is_some() && is_about_address(&error) => true,
            made => {
                made?;
                false
            }
        };
        if moved {
            self.reporting_pulls(unit_runtime.create(unit_spec)).await?;
        }
        self.change(|assigned| {
            assigned.failure = None;
            // Whatever became of an earlier one, this one was never started.
            assigned.progress = Progress::Fresh;
            assigned.has_run = false;
        });
        Ok(())
    }

    /// Reports how far the pull of its image is while it is made.
    async fn reporting_pulls<T>(&self, making: impl Future<Output = T>) -> T {
        let shared = &self.instances.0;
        let mut making = std::pin::pin!(making);
        let mut reported = None;
        loop {
            tokio::select! {
                made = &mut making => return made,
                () = tokio::time::sleep(PULL_REPORT_INTERVAL) => {}
            }
            let now = shared.unit_runtime.pull_progress(&self.assigned.unit_spec);
            if now != reported {
                reported = now;
                shared.outbox.instance(&self.assigned.id);
            }
        }
    }

    /// How long it may take to end: as it requests, unless it may run elsewhere
    /// soon.
    fn grace(&self) -> Option<Duration> {
        let grace = self.instances.0.fence_grace.lock();
        let grace = *grace.unwrap_or_else(PoisonError::into_inner);
        let fenced = self.instance.state().fenced;
        fenced.then(|| grace.min(self.assigned.unit_spec.stop_grace()))
    }

    fn note(&self, progress: Progress) {
        {
            let mut state = self.instance.state();
            state.retry_at = None;
            state.short_since = None;
            if matches!(progress, Progress::Started(_)) {
                state.backoff = Default::default();
            }
        }
        self.change(|assigned| {
            assigned.progress = progress;
            assigned.has_run |= matches!(progress, Progress::Started(_));
            assigned.failure = None;
        });
    }

    /// Changes what is kept, unless the server has sent something else by now.
    /// It holds also if the disk is full: what is not written is found again
    /// by the next daemon.
    fn change(&self, change: impl FnOnce(&mut Assigned)) {
        let mut state = self.instance.state();
        if state.assigned.generation != self.assigned.generation {
            return;
        }
        let mut next = state.assigned.clone();
        change(&mut next);
        if next != state.assigned {
            state.assigned = next;
            state.unwritten = true;
            self.instances.write(&mut state);
        }
    }

    /// Whether the unit that is here was started before. What it has written
    /// goes with it: it is not given up because the disk is full, or a port is
    /// taken, when it is started again.
    fn has_run(&self) -> bool {
        let runtime = &self.instances.0.unit_runtime;
        let seen = runtime.look(&self.assigned.unit_spec.unit());
        seen.is_some_and(|seen| match self.assigned.progress {
            Progress::Started(_) => true,
            // Written by an earlier release, or never started at all.
            Progress::Stopped => self.assigned.has_run || seen.state != PodState::Created,
            Progress::Fresh | Progress::GivenUp => self.assigned.has_run,
        })
    }

    /// Something went wrong: it is refused, tried again, or given up.
    async fn failed(&self, step: &NextStep, error: &Error) -> bool {
        let id = &self.assigned.id;
        let begins = matches!(step, NextStep::Create | NextStep::Start);
        let others = self.instances.0.others.load(Ordering::Relaxed);
        let lacks_image = || others && blocking(|| lacks_image(&self.assigned.unit_spec));
        if begins && (is_of_this_node(step, error) || lacks_image()) {
            if self.resources_pending_release() {
                return false;
            }
            if !self.has_run() {
                return self.refuse(error.to_string()).await;
            }
        }
        let policy = self.assigned.unit_spec.restart();
        let unschedulable = error.kind() == ErrorKind::Invalid;
        let again = !begins || (policy.wants_restart(Ending::Code(1)) && !unschedulable);
        let reason = {
            let mut state = self.instance.state();
            if again {
                let wait = match begins {
                    true => state
                        .backoff
                        .after_run(BackoffPolicy::UNITS, Duration::ZERO),
                    false => Duration::from_secs(1),
                };
                state.retry_at = Some(Instant::now() + wait);
                format!("{error}; tried again in {} s", wait.as_secs())
            } else {
                error.to_string()
            }
        };
        tracing::warn!(id, ?step, reason, "instance step failed");
        if begins {
            let has_run = self.has_run();
            self.change(|assigned| {
                assigned.failure = Some(reason);
                assigned.has_run = has_run;
                assigned.progress = match again {
                    true => Progress::Fresh,
                    false => Progress::GivenUp,
                };
            });
            self.instances.0.outbox.instance(id);
        }
        false
    }

    /// Whether other instances are on their way out: what this one lacks may be
    /// what they have, so it is tried again soon.
    fn resources_pending_release(&self) -> bool {
        if self.instances.0.leaving.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let now = Instant::now();
        let mut state = self.instance.state();
        let since = *state.short_since.get_or_insert(now);
        let waits = now.duration_since(since) < RELEASE_TIMEOUT;
        state.retry_at = waits.then_some(now + Duration::from_millis(100));
        waits
    }

    /// Another node is to have it, once nothing of it is here.
    async fn refuse(&self, reason: String) -> bool {
        let shared = &self.instances.0;
        let (id, unit) = (&self.assigned.id, self.assigned.unit_spec.unit());
        {
            let mut state = self.instance.state();
            if state.going || state.assigned.generation != self.assigned.generation {
                return false;
            }
            state.refusing = Some(reason.clone());
        }
        let own = |seen: &super::host::UnitStatus| seen.instance.as_deref() == Some(id.as_str());
        if shared.unit_runtime.look(&unit).as_ref().is_some_and(own)
            && let Err(error) = self
                .until_ended(&unit, shared.unit_runtime.destroy(&unit, None))
                .await
        {
            tracing::error!(id, %error, "unit of a refused instance not removed; tried again");
            let mut state = self.instance.state();
            state.retry_at = Some(Instant::now() + DESTROY_RETRY_INTERVAL);
            return false;
        }
        let going = self.instance.state().going;
        if going || !self.instances.remove_instance(self.instance) {
            return false;
        }
        tracing::warn!(id, reason, "instance refused");
        let (generation, epoch) = (self.assigned.generation, self.assigned.epoch);
        shared.outbox.refused(id, generation, epoch, reason);
        true
    }

    /// Nothing of it is left.
    fn forget(&self) -> bool {
        let id = &self.assigned.id;
        let mut state = self.instance.state();
        if let Some(next) = state.next.take() {
            (state.going, state.kill) = (false, false);
            let epoch = std::mem::replace(&mut state.assigned, next).epoch;
            state.unwritten = true;
            self.instances.write(&mut state);
            state.address = None;
            drop(state);
            self.left(id, epoch);
            return false;
        }
        let epoch = state.assigned.epoch;
        drop(state);
        if !self.instances.remove_instance(self.instance) {
            return false;
        }
        self.left(id, epoch);
        true
    }

    fn left(&self, id: &str, epoch: u64) {
        let shared = &self.instances.0;
        shared.leaving.fetch_sub(1, Ordering::Relaxed);
        shared.outbox.gone(id, self.assigned.generation, epoch);
    }
}

fn is_about_address(error: &Error) -> bool {
    let field = error.field().unwrap_or_default();
    matches!(field, "pod.address" | "vm.address")
}

/// Whether another node could have what this one cannot: it is out of
/// something, something here is in the way, or something is missing here.
fn is_of_this_node(step: &NextStep, error: &Error) -> bool {
    let field = error.field().unwrap_or_default();
    match error.kind() {
        ErrorKind::Exhausted | ErrorKind::AlreadyExists => true,
        ErrorKind::Invalid => {
            is_about_address(error) || field == "pod.ports" || field == "vm.ports"
        }
        ErrorKind::WrongState => *step == NextStep::Create,
        _ => false,
    }
}

/// Whether it is made from a file of the node's own disk that is not there:
/// another node may have it.
fn lacks_image(unit_spec: &AssignedSpec) -> bool {
    match unit_spec {
        AssignedSpec::Pod(spec) => is_missing(&spec.image),
        AssignedSpec::Vm(unit_spec) => match &unit_spec.boot {
            VmBoot::Image { path, .. } => !path.exists(),
            VmBoot::Kernel { .. } => false,
        },
    }
}

/// Whether an image is named by a path, with or without a tag, and nothing is
/// there.
fn is_missing(image: &str) -> bool {
    let prefixes = ["oci:", "docker-archive:"];
    let Some(path) = prefixes.iter().find_map(|one| image.strip_prefix(one)) else {
        return false;
    };
    let untagged = path.rsplit_once(':').map_or(path, |(path, _)| path);
    !Path::new(path).exists() && !Path::new(untagged).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_a_path_is_missing_where_nothing_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().display();
        for there in [
            format!("oci:{here}"),
            format!("oci:{here}:v1"),
            format!("docker-archive:{here}"),
            "registry.example/web:1".to_owned(),
        ] {
            assert!(!is_missing(&there), "{there}");
        }
        assert!(is_missing(&format!("oci:{here}/none:v1")));
        assert!(is_missing(&format!("docker-archive:{here}/none.tar")));
    }

    #[test]
    fn node_local_errors_are_distinguished_from_general_ones() {
        let table = [
            (
                NextStep::Create,
                Error::exhausted("no address is left"),
                true,
            ),
            (
                NextStep::Start,
                Error::already_exists("x").in_field("pod.ports"),
                true,
            ),
            (
                NextStep::Create,
                Error::invalid("pod.address", "not ours"),
                true,
            ),
            (NextStep::Create, Error::wrong_state("no QEMU"), true),
            (
                NextStep::Start,
                Error::wrong_state("QEMU ended at once"),
                false,
            ),
            (
                NextStep::Create,
                Error::invalid("pod.entrypoint", "no such file"),
                false,
            ),
            (NextStep::Create, Error::not_found("no such image"), false),
            (NextStep::Create, Error::unavailable("the registry"), false),
        ];
        for (step, error, refused) in table {
            assert_eq!(is_of_this_node(&step, &error), refused, "{error}");
        }
    }
}

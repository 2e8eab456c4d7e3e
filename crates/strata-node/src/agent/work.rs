//! The worker of one instance: looks, decides, does one thing, looks again,
//! until nothing is left to do. What fails is tried again as the instance's
//! restart policy says; what cannot be had here is refused.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use strata_types::{Ending, Error, ErrorKind, Pace, Result};
use tokio::time::Instant;

use super::ask::Ask;
use super::instances::{Instance, Instances, State};
use super::plan::{Facts, Step, decide};
use super::state::{Assigned, Progress};
use crate::blocking::blocking;
use crate::vms::VmBoot;

/// How often it is reported how far a pull is.
const REPORT_PULLS: Duration = Duration::from_secs(2);
/// How long what others are about to give back is waited for.
const SOON: Duration = Duration::from_secs(60);

/// Works until nothing is left to do.
pub(super) async fn work(instances: Instances, instance: Arc<Instance>) {
    loop {
        let (assigned, step, wait) = look(&instances, &instance);
        if step == Step::Nothing || instances.0.closing.is_cancelled() {
            let mut state = instance.state();
            if !state.again || instances.0.closing.is_cancelled() {
                state.working = false;
                return;
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
            Step::Create | Step::Start => instances.0.places.acquire().await.ok(),
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
fn look(instances: &Instances, instance: &Instance) -> (Assigned, Step, Option<Instant>) {
    let (assigned, going, fenced, retry_at, hold_until) = {
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
        (assigned, going, fenced, retry_at, hold_until)
    };
    let seen = instances.0.hosting.look(&assigned.ask.unit());
    let step = decide(&Facts {
        assigned: &assigned,
        going,
        fenced,
        seen: seen.as_ref(),
    });
    if let Some(address) = seen.and_then(|seen| seen.address) {
        instance.state().address = Some(address);
    }
    let begins = matches!(step, Step::Create | Step::Start);
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
    async fn take(&self, step: Step) -> bool {
        let hosting = &self.instances.0.hosting;
        let unit = self.assigned.ask.unit();
        let starts = self.assigned.starts;
        let done = match &step {
            Step::Nothing => Ok(()),
            Step::Create => self.create().await,
            Step::Start => match hosting.start(&unit).await {
                Ok(()) => self.note(Progress::Started(starts)),
                Err(error) => Err(error),
            },
            Step::Stop => match hosting.stop(&unit, self.grace()).await {
                Ok(()) => self.note(Progress::Stopped),
                Err(error) => Err(error),
            },
            Step::Note(progress) => self.note(*progress),
            Step::Destroy => hosting.destroy(&unit).await,
            Step::DropOutgrown(old) => match hosting.destroy(old).await {
                Ok(()) => self.change(|assigned| assigned.outgrown.retain(|unit| unit != old)),
                Err(error) => Err(error),
            },
            Step::Forget => return self.forget(),
            Step::Refuse(reason) => return self.refuse(reason.clone()).await,
        };
        match done {
            Ok(()) => false,
            Err(error) => self.failed(&step, &error).await,
        }
    }

    /// Makes its unit, at the address it had if that is still to be had.
    async fn create(&self) -> Result<()> {
        let hosting = &self.instances.0.hosting;
        let address = self.instance.state().address;
        let ask = self.assigned.ask.clone();
        let making = hosting.create(ask.clone().at(address));
        let moved = match self.reporting_pulls(making).await {
            Err(error) if address.is_some() && is_about_address(&error) => true,
            made => {
                made?;
                false
            }
        };
        if moved {
            self.reporting_pulls(hosting.create(ask)).await?;
        }
        self.change(|assigned| {
            assigned.failure = None;
            // Whatever became of an earlier one, this one was never started.
            assigned.progress = Progress::Fresh;
        })
    }

    /// Reports how far the pull of its image is while it is made.
    async fn reporting_pulls<T>(&self, making: impl Future<Output = T>) -> T {
        let shared = &self.instances.0;
        let mut making = std::pin::pin!(making);
        let mut reported = None;
        loop {
            tokio::select! {
                made = &mut making => return made,
                () = tokio::time::sleep(REPORT_PULLS) => {}
            }
            let now = shared.hosting.pull_progress(&self.assigned.ask);
            if now != reported {
                reported = now;
                shared.outbox.instance(&self.assigned.id);
            }
        }
    }

    /// How long it may take to end: as it asks for, unless it may run
    /// elsewhere soon.
    fn grace(&self) -> Option<Duration> {
        let grace = self.instances.0.fence_grace.lock();
        let grace = *grace.unwrap_or_else(PoisonError::into_inner);
        let fenced = self.instance.state().fenced;
        fenced.then(|| grace.min(self.assigned.ask.stop_grace()))
    }

    fn note(&self, progress: Progress) -> Result<()> {
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
            assigned.failure = None;
        })
    }

    /// Changes what is kept, unless the server has said something else by now.
    fn change(&self, change: impl FnOnce(&mut Assigned)) -> Result<()> {
        let mut state = self.instance.state();
        if state.assigned.generation != self.assigned.generation {
            return Ok(());
        }
        let mut next = state.assigned.clone();
        change(&mut next);
        if next != state.assigned {
            blocking(|| self.instances.0.kept.write(&next))?;
            state.assigned = next;
        }
        Ok(())
    }

    /// Something went wrong: it is refused, tried again, or given up.
    async fn failed(&self, step: &Step, error: &Error) -> bool {
        let id = &self.assigned.id;
        let begins = matches!(step, Step::Create | Step::Start);
        let others = self.instances.0.others.load(Ordering::Relaxed);
        let lacks_image = || others && blocking(|| lacks_image(&self.assigned.ask));
        if begins && (is_of_this_node(step, error) || lacks_image()) {
            if self.others_leave() {
                return false;
            }
            return self.refuse(error.to_string()).await;
        }
        let policy = self.assigned.ask.restart();
        let hopeless = error.kind() == ErrorKind::Invalid;
        let again = !begins || (policy.wants_restart(Ending::Code(1)) && !hopeless);
        let reason = {
            let mut state = self.instance.state();
            if again {
                let wait = match begins {
                    true => state.backoff.after_run(Pace::UNITS, Duration::ZERO),
                    false => Duration::from_secs(1),
                };
                state.retry_at = Some(Instant::now() + wait);
                format!("{error}; tried again in {} s", wait.as_secs())
            } else {
                error.to_string()
            }
        };
        tracing::warn!(id, ?step, reason, "an instance is not as it should be");
        if begins {
            let written = self.change(|assigned| {
                assigned.failure = Some(reason);
                assigned.progress = match again {
                    true => Progress::Fresh,
                    false => Progress::GivenUp,
                };
            });
            if let Err(error) = written {
                tracing::error!(id, %error, "it is not remembered why");
                self.instance.state().retry_at = Some(Instant::now() + Duration::from_secs(10));
            }
            self.instances.0.outbox.instance(id);
        }
        false
    }

    /// Whether other instances are on their way out: what this one lacks may be
    /// what they have, so it is tried again soon.
    fn others_leave(&self) -> bool {
        if self.instances.0.leaving.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let now = Instant::now();
        let mut state = self.instance.state();
        let since = *state.short_since.get_or_insert(now);
        let soon = now.duration_since(since) < SOON;
        state.retry_at = soon.then_some(now + Duration::from_millis(100));
        soon
    }

    /// Another node is to have it.
    async fn refuse(&self, reason: String) -> bool {
        let shared = &self.instances.0;
        let (id, unit) = (&self.assigned.id, self.assigned.ask.unit());
        let own = |seen: &super::hosting::Seen| seen.instance.as_deref() == Some(id.as_str());
        if shared.hosting.look(&unit).as_ref().is_some_and(own)
            && let Err(error) = shared.hosting.destroy(&unit).await
        {
            tracing::error!(id, %error, "what was refused could not be cleared");
        }
        let going = self.instance.state().going;
        if going || !self.instances.drop_out(self.instance) {
            return false;
        }
        tracing::warn!(id, reason, "an instance is refused");
        shared.outbox.refused(id, self.assigned.generation, reason);
        true
    }

    /// Nothing of it is left.
    fn forget(&self) -> bool {
        let shared = &self.instances.0;
        let id = &self.assigned.id;
        let mut state = self.instance.state();
        if let Some(next) = state.next.take() {
            state.going = false;
            if let Err(error) = blocking(|| shared.kept.write(&next)) {
                tracing::error!(id, %error, "an instance is not remembered");
            }
            let epoch = std::mem::replace(&mut state.assigned, next).epoch;
            state.address = None;
            drop(state);
            self.left(id, epoch);
            return false;
        }
        let epoch = state.assigned.epoch;
        drop(state);
        if !self.instances.drop_out(self.instance) {
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
fn is_of_this_node(step: &Step, error: &Error) -> bool {
    let field = error.field().unwrap_or_default();
    match error.kind() {
        ErrorKind::Exhausted | ErrorKind::AlreadyExists => true,
        ErrorKind::Invalid => {
            is_about_address(error) || field == "pod.ports" || field == "vm.ports"
        }
        ErrorKind::WrongState => *step == Step::Create,
        _ => false,
    }
}

/// Whether it is made from a file of the node's own disk that is not there:
/// another node may have it.
fn lacks_image(ask: &Ask) -> bool {
    match ask {
        Ask::Pod(spec) => is_missing(&spec.image),
        Ask::Vm(ask) => match &ask.boot {
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
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().display();
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
    fn what_is_of_this_node_alone_is_told_from_what_is_everywhere() {
        let table = [
            (Step::Create, Error::exhausted("no address is left"), true),
            (
                Step::Start,
                Error::already_exists("x").in_field("pod.ports"),
                true,
            ),
            (
                Step::Create,
                Error::invalid("pod.address", "not ours"),
                true,
            ),
            (Step::Create, Error::wrong_state("no QEMU"), true),
            (Step::Start, Error::wrong_state("QEMU ended at once"), false),
            (
                Step::Create,
                Error::invalid("pod.entrypoint", "no such file"),
                false,
            ),
            (Step::Create, Error::not_found("no such image"), false),
            (Step::Create, Error::unavailable("the registry"), false),
        ];
        for (step, error, refused) in table {
            assert_eq!(is_of_this_node(&step, &error), refused, "{error}");
        }
    }
}

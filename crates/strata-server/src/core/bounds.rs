//! What callers may put into the store, so that no single one fills it: a
//! project has so many instances and workloads, and so many bytes of them and
//! of secrets, and so many answers are kept for one caller that repeats its requests.
//!
//! The numbers for projects hold for callers that are limited to projects, and
//! where a quota says nothing else. A caller that is limited to none is trusted
//! with the whole installation already. They bound the store and are no quota:
//! of requests at the same moment a few more may pass.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_types::{Error, Label, Result};

use super::{Core, Principal};

/// The most bytes of answers that are kept for one caller.
const MAX_STORED_BYTES: usize = 64 << 20;

/// How much may be in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBounds {
    /// Instances of one project, where its quota names no number.
    pub instances: u32,
    /// Workloads of one project.
    pub workloads: u32,
    /// Bytes of the instances, workloads and secrets of one project.
    pub project_bytes: usize,
    /// Answers kept for one caller.
    pub kept_answers: u32,
}

impl Default for StoreBounds {
    fn default() -> Self {
        Self {
            instances: 10_000,
            workloads: 1000,
            project_bytes: 64_000_000,
            kept_answers: 10_000,
        }
    }
}

impl Core {
    /// Refuses a record of so many bytes, in place of the one with this key,
    /// where the project has as much as it may. What becomes smaller passes.
    pub(super) fn check_bytes(
        &self,
        principal: &Principal,
        project: &Label,
        key: &str,
        bytes: usize,
    ) -> Result<()> {
        if principal.projects.is_none() {
            return Ok(());
        }
        let most = self.settings().bounds.project_bytes;
        let tables = self.tables();
        let before = tables.stored.of_record(key);
        let has = tables.stored.of_project(project);
        if bytes <= before || has - before + bytes <= most {
            return Ok(());
        }
        let why = format!(
            "the instances, workloads and secrets of project {project} take {has} bytes; {most} is the most"
        );
        Err(Error::exhausted(why).with_hint(
            "delete some, or give instances what is large by a volume instead of their specification",
        ))
    }

    /// Refuses one more instance in a project that is full.
    pub(super) fn check_instances(&self, principal: &Principal, project: &Label) -> Result<()> {
        if principal.projects.is_none() {
            return Ok(());
        }
        if let Some(_quota) = self.projects().record(project)?.settings.quota.instances {
            return Ok(());
        }
        let most = i64::from(self.settings().bounds.instances);
        let has = self
            .tables()
            .uses
            .get(project)
            .map_or(0, |used| used.instances);
        if has < most {
            return Ok(());
        }
        Err(full(project, has, "instances")
            .with_hint("delete some, or have an admin give the project a quota of instances"))
    }

    /// Refuses one more workload in a project that is full.
    pub(super) fn check_workloads(&self, principal: &Principal, project: &Label) -> Result<()> {
        let most = usize::try_from(self.settings().bounds.workloads).unwrap_or(usize::MAX);
        if principal.projects.is_none() {
            return Ok(());
        }
        let tables = self.tables();
        let all = tables.workloads.values();
        let has = all.filter(|one| one.project == *project).take(most).count();
        if has < most {
            return Ok(());
        }
        let has = i64::try_from(has).unwrap_or(i64::MAX);
        Err(full(project, has, "workloads").with_hint("delete those that are not needed"))
    }
}

fn full(project: &Label, has: i64, what: &str) -> Error {
    Error::exhausted(format!(
        "project {project} has {has} {what}, and may have no more"
    ))
}

/// What is kept of answers, by caller.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<HashMap<String, Tally>>);

/// When each answer was kept, in Unix milliseconds, and its size.
pub(super) type Entry = (i64, usize);

#[derive(Debug, Default)]
struct Tally {
    /// The oldest first.
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Tally {
    fn expire_before(&mut self, timestamp: i64) {
        while let Some((at, bytes)) = self.entries.front().copied()
            && at < timestamp
        {
            self.entries.pop_front();
            self.bytes -= bytes;
        }
    }

    fn add(&mut self, (at, bytes): Entry) {
        self.entries.push_back((at, bytes));
        self.bytes += bytes;
    }
}

impl Tallies {
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is known what is kept for this caller.
    pub(super) fn knows(&self, caller: &str) -> bool {
        self.guard().contains_key(caller)
    }

    /// What the store keeps for a caller.
    pub(super) fn learn(&self, caller: &str, mut entries: Vec<Entry>) {
        entries.sort_unstable();
        let mut all = self.guard();
        let tally = all.entry(caller.to_owned()).or_default();
        if tally.entries.is_empty() {
            entries.into_iter().for_each(|entry| tally.add(entry));
        }
    }

    /// One more answer is kept.
    pub(super) fn add(&self, caller: &str, entry: Entry) {
        let mut all = self.guard();
        all.entry(caller.to_owned()).or_default().add(entry);
    }

    /// Refuses a caller for which as much is kept as may be. What was kept
    /// before `timestamp` is gone.
    pub(super) fn check(&self, caller: &str, most: u32, timestamp: i64) -> Result<()> {
        let mut all = self.guard();
        let Some(tally) = all.get_mut(caller) else {
            return Ok(());
        };
        tally.expire_before(timestamp);
        let many = u32::try_from(tally.entries.len()).unwrap_or(u32::MAX);
        if many < most && tally.bytes < MAX_STORED_BYTES {
            return Ok(());
        }
        let why = format!("{many} answers are kept for {caller}, each for a day, and no more are");
        Err(Error::exhausted(why)
            .in_field("Idempotency-Key")
            .with_hint("send the request without a key, or wait until older answers are dropped"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_responses_are_counted_by_caller_and_expire() {
        let tallies = Tallies::default();
        tallies.learn("ci", vec![(20, 5), (10, 5)]);
        tallies.learn("ci", vec![(10, 5)]);
        assert!(tallies.check("ci", 3, 0).is_ok());
        tallies.add("ci", (30, 5));
        assert!(tallies.check("ci", 3, 0).is_err());
        assert!(tallies.check("other", 3, 0).is_ok());
        assert!(tallies.check("ci", 3, 11).is_ok(), "the oldest is gone");
    }

    #[test]
    fn few_large_answers_are_too_much_as_well() {
        let tallies = Tallies::default();
        tallies.add("ci", (1, MAX_STORED_BYTES));
        let refused = tallies.check("ci", 1000, 0).unwrap_err();
        assert_eq!(refused.kind(), strata_types::ErrorKind::Exhausted);
        assert!(tallies.check("ci", 1000, 2).is_ok());
    }
}

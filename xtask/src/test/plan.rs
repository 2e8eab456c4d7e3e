//! Which tests run, in which order: a pure function of what is known of them.
//!
//! The longest expected test starts first, so that none of them is left alone
//! at the end; a short one fills whatever slot is free.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::test::SOAK;
use crate::test::discovery::Test;
use crate::test::suites::{Durations, Rule, Suites};

/// What the caller selected.
pub(crate) struct Selection<'a> {
    pub(crate) suites: &'a [String],
    /// Parts of ids, of which one has to match; all tests if empty.
    pub(crate) filter: &'a [String],
    /// How many run at once; as `tests/suites.toml` says if none.
    pub(crate) slots: Option<u32>,
}

/// A test to run, with what it may take.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) test: Test,
    pub(crate) rule: Rule,
    /// How many of the plan's slots it takes.
    pub(crate) slots: u32,
    pub(crate) expected: Duration,
}

impl Selection<'_> {
    /// What a duration is recorded under: campaigns have two lengths.
    pub(crate) fn key(&self, id: &str) -> String {
        match self.suites.iter().any(|suite| suite == "soak") {
            true => format!("{SOAK}{id}"),
            false => id.to_owned(),
        }
    }
}

/// The queue of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    pub(crate) slots: u32,
    /// How many tests of each group run at once.
    pub(crate) groups: BTreeMap<String, u32>,
    /// How many tests of which suite stay out.
    pub(crate) left_out: Vec<(String, usize)>,
}

impl Plan {
    pub(crate) fn make(
        tests: Vec<Test>,
        suites: &Suites,
        durations: &Durations,
        selection: &Selection<'_>,
        cpus: u32,
    ) -> Self {
        let slots = selection.slots.unwrap_or(suites.slots(cpus));
        let mut jobs = Vec::new();
        let mut left_out: Vec<(String, usize)> =
            suites.suite.keys().map(|name| (name.clone(), 0)).collect();
        for test in tests {
            let id = test.id();
            let rule = suites.rule(&id);
            for (name, count) in &mut left_out {
                let is_left_out = !selection.suites.contains(name) && rule.suites.contains(name);
                *count += usize::from(is_left_out);
            }
            let in_suite = rule.suites.iter().any(|it| selection.suites.contains(it));
            let named = |part: &String| id.contains(part);
            if in_suite && (selection.filter.is_empty() || selection.filter.iter().any(named)) {
                let expected = durations.of(&selection.key(&id));
                let slots = if rule.exclusive { slots } else { 1 };
                jobs.push(Job {
                    test,
                    rule,
                    slots,
                    expected,
                });
            }
        }
        // Those that have the host alone begin: later they would have to wait
        // until everything else is over.
        jobs.sort_by_key(|job| std::cmp::Reverse((job.rule.exclusive, job.expected)));
        left_out.retain(|(_, count)| *count > 0);
        Self {
            jobs,
            slots,
            groups: suites.groups(cpus),
            left_out,
        }
    }

    /// How long the run will take on a machine like the reference: never less
    /// than its longest test, or than the tests of one group.
    pub(crate) fn forecast(&self) -> Duration {
        let area = |job: &Job| job.expected * job.slots;
        let total: Duration = self.jobs.iter().map(area).sum();
        let longest = self.jobs.iter().map(|job| job.expected).max();
        let of_group = |(name, at_once): (&String, &u32)| -> Duration {
            let member = |job: &&Job| job.rule.group.as_ref() == Some(name);
            let jobs = self.jobs.iter().filter(member);
            jobs.map(|job| job.expected).sum::<Duration>() / *at_once
        };
        let groups = self.groups.iter().map(of_group).max();
        (total / self.slots.max(1))
            .max(longest.unwrap_or_default())
            .max(groups.unwrap_or_default())
    }
}

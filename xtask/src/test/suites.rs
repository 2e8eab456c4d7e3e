//! What is known of tests before they run: the suite, slots and deadline of
//! each by rule, and how long each took on the reference machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::test::Error;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Durations below this are not worth a line of the file.
const RECORDED_FROM: Duration = Duration::from_millis(300);

/// `tests/suites.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suites {
    slots_per_cpu: u32,
    pub(crate) suite: BTreeMap<String, Suite>,
    #[serde(default)]
    group: BTreeMap<String, Group>,
    #[serde(default)]
    rule: Vec<Rule>,
}

/// Tests that compete for the same thing, and how many of them run at once.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    at_once: u32,
    /// `at_once` counts for each processor of the host.
    #[serde(default)]
    per_cpu: bool,
}

/// What people need to know of a suite that is left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suite {
    pub(crate) about: String,
    pub(crate) target: String,
}

/// A rule for all tests whose id begins with a prefix. Of several rules, the
/// longest prefix decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    tests: String,
    /// A campaign is in two suites: shortened in `test`, at full length in `soak`.
    #[serde(default = "default_suites")]
    pub(crate) suites: Vec<String>,
    /// Nothing else runs at the same time.
    #[serde(default)]
    pub(crate) exclusive: bool,
    /// After this the test is killed and has failed. Default: 300 s, or five
    /// times the recorded duration if that is more.
    timeout_seconds: Option<u64>,
    /// No more tests of a group run at the same time than it allows.
    pub(crate) group: Option<String>,
}

fn default_suites() -> Vec<String> {
    vec!["test".to_owned()]
}

impl Rule {
    fn default() -> Self {
        Self {
            tests: String::new(),
            suites: default_suites(),
            exclusive: false,
            timeout_seconds: None,
            group: None,
        }
    }

    pub(crate) fn timeout(&self, expected: Duration) -> Duration {
        let default = || DEFAULT_TIMEOUT.max(expected * 5);
        self.timeout_seconds
            .map_or_else(default, Duration::from_secs)
    }
}

impl Suites {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        Ok(toml::from_str(&read(path)?)?)
    }

    /// Refuses names of suites and groups that do not exist.
    pub(crate) fn check(&self, names: &[String]) -> Result<(), Error> {
        let known = || self.suite.keys().cloned().collect::<Vec<_>>().join(", ");
        let ruled = self.rule.iter().flat_map(|rule| &rule.suites);
        let mut groups = self.rule.iter().filter_map(|rule| rule.group.as_ref());
        if let Some(name) = groups.find(|name| !self.group.contains_key(*name)) {
            return Err(Error::NoGroup(name.clone()));
        }
        match names
            .iter()
            .chain(ruled)
            .find(|name| !self.suite.contains_key(*name))
        {
            Some(name) => Err(Error::NoSuite(name.clone(), known())),
            None => Ok(()),
        }
    }

    /// Refuses a rule that no test matches: its tests were renamed, and would
    /// leave their suite unnoticed.
    pub(crate) fn check_rules(&self, ids: &BTreeSet<String>) -> Result<(), Error> {
        let is_dead = |rule: &&Rule| !ids.iter().any(|id| id.starts_with(&rule.tests));
        match self.rule.iter().find(is_dead) {
            Some(rule) => Err(Error::DeadRule(rule.tests.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn slots(&self, cpus: u32) -> u32 {
        self.slots_per_cpu * cpus
    }

    /// How many tests of each group run at once.
    pub(crate) fn groups(&self, cpus: u32) -> BTreeMap<String, u32> {
        let at_once = |group: &Group| match group.per_cpu {
            true => group.at_once * cpus,
            false => group.at_once,
        };
        let groups = self.group.iter();
        groups
            .map(|(name, group)| (name.clone(), at_once(group).max(1)))
            .collect()
    }

    pub(crate) fn rule(&self, id: &str) -> Rule {
        let matching = self.rule.iter().filter(|rule| id.starts_with(&rule.tests));
        matching
            .max_by_key(|rule| rule.tests.len())
            .cloned()
            .unwrap_or_else(Rule::default)
    }
}

/// `tests/durations.tsv`: how long tests took, for the order and the forecast.
/// A test that is not listed is quick.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    path: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl Durations {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let line = |line: &str| {
            let (seconds, id) = line.split_once('\t')?;
            Some((id.to_owned(), seconds.parse().ok()?))
        };
        Ok(Self {
            path: path.to_owned(),
            seconds: read(path)?.lines().filter_map(line).collect(),
        })
    }

    pub(crate) fn of(&self, id: &str) -> Duration {
        let seconds = self.seconds.get(id).copied().unwrap_or(0.05);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, id: &str, duration: Duration) {
        match duration >= RECORDED_FROM {
            true => self.seconds.insert(id.to_owned(), duration.as_secs_f64()),
            false => self.seconds.remove(id),
        };
    }

    /// Drops tests that no longer exist.
    pub(crate) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.seconds.retain(|id, _| exists(id));
    }

    pub(crate) fn write(&self) -> Result<(), Error> {
        let mut lines: Vec<_> = self.seconds.iter().collect();
        lines.sort_by(|a, b| b.1.total_cmp(a.1));
        let line = |(id, seconds): (&String, &f64)| format!("{seconds:.1}\t{id}\n");
        let text: String = lines.into_iter().map(line).collect();
        std::fs::write(&self.path, text).map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })
    }
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

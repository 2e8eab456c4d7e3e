//! A ledger that instances write themselves: each run appends a line ten times
//! a second to a file on the host, with the boot clock, ignores the signal to
//! end, and so shows when it really ran. Two runs of one instance that overlap
//! are seen whatever the daemons report, and also while they do not run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, TEST_TIMEOUT};
use crate::wait_for;

/// Where the ledger is in an instance.
const INSIDE: &str = "/ledger";
/// Writes lines until it is killed. `/proc/uptime` is the boot clock.
const SCRIPT: &str = "trap '' TERM; run=$(cat /proc/sys/kernel/random/uuid); \
    while :; do read -r up idle < /proc/uptime; echo \"$up $run\" >> /ledger/$WHO; sleep 0.1; done";

/// A directory with a file for each instance.
#[derive(Debug)]
pub struct Ledger(TempDir);

/// One run of an instance, from its first line to its last.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Which.
    pub run: String,
    /// Of the boot clock.
    pub first: Duration,
    /// Of the boot clock.
    pub last: Duration,
}

/// The boot clock now.
pub fn boot_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

impl Ledger {
    /// An empty one, which any user may write to.
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(dir.path(), open).expect("it can be opened to all");
        Self(dir)
    }

    /// Where it is on the host.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Creates an instance that writes to the ledger, and waits for its first
    /// line. Its id is `id-NAME`.
    ///
    /// # Panics
    /// When it is refused, or does not come to run.
    pub async fn create(&self, cluster: &Cluster, name: &str, more: Value) -> Run {
        let mut instance = json!({
            "id": format!("id-{name}"),
            "name": name,
            "uri": cluster.image,
            "environment": [format!("SCRIPT={SCRIPT}"), format!("WHO={name}")],
            "volumes": [format!("{}:{INSIDE}", self.path().display())],
            "resources": { "cpu": 10 },
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut instance, more) {
            all.extend(more);
        }
        let made = cluster.rest().call("PUT", "/instance", instance).await;
        assert!((200..300).contains(&made.status), "{made:?}");
        self.run(name, 1).await
    }

    /// Waits for the first line of the `number`th run of an instance.
    pub async fn run(&self, name: &str, number: usize) -> Run {
        wait_for("a run in the ledger", TEST_TIMEOUT, async || {
            let runs = self.runs(name);
            let found = runs.get(number - 1).cloned();
            found.ok_or_else(|| format!("{name} {number}: {runs:?}"))
        })
        .await
    }

    /// All runs of an instance, in the order in which they began.
    pub fn runs(&self, name: &str) -> Vec<Run> {
        let text = fs::read_to_string(self.path().join(name)).unwrap_or_default();
        let mut spans: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for line in text.lines() {
            let Some((up, run)) = line.split_once(' ') else {
                continue;
            };
            let Ok(up) = up.parse::<f64>() else { continue };
            let span = spans.entry(run).or_insert((up, up));
            *span = (span.0.min(up), span.1.max(up));
        }
        let seconds = Duration::from_secs_f64;
        let run = |(run, (first, last)): (&str, (f64, f64))| Run {
            run: run.to_owned(),
            first: seconds(first),
            last: seconds(last),
        };
        let mut runs: Vec<Run> = spans.into_iter().map(run).collect();
        runs.sort_by_key(|run| run.first);
        runs
    }

    /// For how long two runs of an instance were there at the same time.
    pub fn overlap(&self, name: &str) -> Duration {
        let runs = self.runs(name);
        let pairs = runs.iter().enumerate();
        let pairs = pairs.flat_map(|(i, one)| runs[i + 1..].iter().map(move |other| (one, other)));
        let overlap = pairs.map(|(one, other)| {
            let (begin, end) = (one.first.max(other.first), one.last.min(other.last));
            end.saturating_sub(begin)
        });
        overlap.max().unwrap_or_default()
    }

    /// That no two runs of these instances overlapped.
    ///
    /// # Panics
    /// When two did.
    #[track_caller]
    pub fn assert_exclusive(&self, names: &[&str]) {
        for name in names {
            let overlap = self.overlap(name);
            let runs = self.runs(name);
            assert_eq!(overlap, Duration::ZERO, "{name} ran twice: {runs:#?}");
        }
    }

    /// That an instance runs: it writes a line that begins after this call. A
    /// busy host may keep it from its turn for seconds, so the age of its last
    /// line says nothing.
    ///
    /// # Panics
    /// When it writes nothing more.
    pub async fn assert_running(&self, name: &str) {
        let asked = boot_time();
        wait_for("a further line in the ledger", TEST_TIMEOUT, async || {
            let runs = self.runs(name);
            // `/proc/uptime` is cut to hundredths.
            let continues = runs.iter().any(|run| run.last > asked);
            continues
                .then_some(())
                .ok_or_else(|| format!("{name}: {runs:?}"))
        })
        .await;
    }

    /// Whether no run of an instance wrote within the last second.
    pub fn is_silent(&self, name: &str) -> bool {
        let last = self.runs(name).into_iter().map(|run| run.last).max();
        last.is_none_or(|last| boot_time().saturating_sub(last) >= Duration::from_secs(1))
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_of_two_runs_is_seen() {
        let ledger = Ledger::new();
        let write = |text: &str| fs::write(ledger.path().join("web"), text).unwrap();
        write("1.0 a\n2.0 a\n3.0 b\n4.0 b\n");
        ledger.assert_exclusive(&["web"]);
        assert_eq!(ledger.runs("web").len(), 2);
        write("1.0 a\n2.0 a\n1.5 b\n4.0 b\n");
        assert_eq!(ledger.overlap("web"), Duration::from_millis(500));
    }
}

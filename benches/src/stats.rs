//! Figures as people read them: medians, for they shrug off a busy moment,
//! and ratios.

use std::time::Duration;

/// The times of many repetitions.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(0.5)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What this share of them stays below.
    pub(crate) fn at(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get((last as f64 * share).round() as usize)
            .copied()
            .unwrap_or_default()
    }

    #[allow(clippy::print_stdout)]
    pub(crate) fn row(&self, what: &str) {
        println!(
            "| {what} | {} | {} | {} |",
            milliseconds(self.median()),
            milliseconds(self.at(0.1)),
            milliseconds(self.at(0.95)),
        );
    }
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

#[allow(clippy::print_stdout)]
pub(crate) fn heading() {
    println!("| what | median | p10 | p95 |\n|---|---|---|---|");
}

/// The times of several ways that take turns, so that a busy moment of the
/// machine affects all of them.
#[derive(Default)]
pub(crate) struct Scoreboard(Vec<(String, Vec<Duration>)>);

impl Scoreboard {
    /// One more time of this way. Rows come in the order of their first time.
    pub(crate) fn add(&mut self, what: &str, time: Duration) {
        match self.0.iter_mut().find(|(known, _)| known == what) {
            Some((_, times)) => times.push(time),
            None => self.0.push((what.to_owned(), vec![time])),
        }
    }

    /// The latest time of a way.
    pub(crate) fn last(&self, what: &str) -> Option<Duration> {
        let (_, times) = self.0.iter().find(|(known, _)| known == what)?;
        times.last().copied()
    }

    /// The median of a way; none when it was not measured.
    pub(crate) fn median(&self, what: &str) -> Option<Duration> {
        self.at(what, 0.5)
    }

    /// What this share of the times of a way stays below.
    pub(crate) fn at(&self, what: &str, share: f64) -> Option<Duration> {
        let (_, times) = self.0.iter().find(|(known, _)| known == what)?;
        Some(Times::new(times.clone()).at(share))
    }

    #[allow(clippy::print_stdout)]
    pub(crate) fn print(&self) {
        heading();
        for (what, times) in &self.0 {
            Times::new(times.clone()).row(what);
        }
        println!();
    }

    /// The ratio of two medians; nothing when one was not measured.
    pub(crate) fn ratio(&self, ours: &str, theirs: &str, aim: &str) {
        if let (Some(our), Some(their)) = (self.median(ours), self.median(theirs)) {
            ratio(&format!("{ours} / {theirs}"), our, their, aim);
        }
    }
}

/// `ours / theirs`, with the aim beside it.
#[allow(clippy::print_stdout)]
pub(crate) fn ratio(what: &str, ours: Duration, theirs: Duration, aim: &str) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(f64::MIN_POSITIVE);
    println!("{what}: {ratio:.2} (aim {aim})");
}

/// Prints that something is not measured, and why.
#[allow(clippy::print_stdout)]
pub(crate) fn skipped(what: &str, why: impl std::fmt::Display) {
    println!("skipped: {what}: {why}");
}

/// How busy the machine was in the last minute: beside figures that others
/// disturb.
#[allow(clippy::print_stdout)]
pub(crate) fn load(when: &str) {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = text.split(' ').next().unwrap_or_default();
    println!("load average {when}: {minute}");
}

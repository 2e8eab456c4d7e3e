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

    fn at(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get((last as f64 * share) as usize)
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

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

#[allow(clippy::print_stdout)]
pub(crate) fn heading() {
    println!("| what | median | p10 | p95 |\n|---|---|---|---|");
}

/// `ours / theirs`, with the aim beside it.
#[allow(clippy::print_stdout)]
pub(crate) fn ratio(what: &str, ours: Duration, theirs: Duration, aim: &str) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(f64::MIN_POSITIVE);
    println!("{what}: {ratio:.2} (aim {aim})");
}

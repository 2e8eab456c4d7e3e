//! What people and CI see of a run.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::test::execution::{Event, Outcome, Verdict};
use crate::test::plan::{Plan, Selection};
use crate::test::suites::{Durations, Suites};

/// A test that takes this long gets a line of its own.
const SLOW: Duration = Duration::from_secs(5);
/// Without a terminal, a line of progress this often.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);
/// Prints what will run, how long it takes, and what stays out.
pub(crate) fn announce(plan: &Plan, suites: &Suites, selected: &[String]) {
    println!(
        "running {} tests ({}), {} at once, about {} where tests/durations.tsv was recorded (2 idle cores)",
        plan.jobs.len(),
        selected.join(", "),
        plan.slots,
        minutes(plan.forecast()),
    );
    for (name, count) in &plan.left_out {
        if let Some(suite) = suites.suite.get(name) {
            println!("left out: {count} of {}; `{}`", suite.about, suite.target);
        }
    }
}

/// The plan, one test a line.
pub(crate) fn list(plan: &Plan) {
    for job in &plan.jobs {
        println!("{:7.1} s  {}", job.expected.as_secs_f64(), job.test.id());
    }
}

/// The outcomes so far.
pub(crate) struct Report {
    began: Instant,
    total: usize,
    outcomes: Vec<Outcome>,
    last_progress: Instant,
    terminal: bool,
    /// Of the terminal, in characters.
    width: usize,
}

impl Report {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            began: Instant::now(),
            total,
            outcomes: Vec::new(),
            last_progress: Instant::now(),
            terminal: std::io::stdout().is_terminal(),
            width: rustix::termios::tcgetwinsize(std::io::stdout())
                .map_or(80, |size| usize::from(size.ws_col).max(1)),
        }
    }

    pub(crate) fn add(&mut self, event: Event) {
        match event {
            Event::Ended(outcome) => self.ended(outcome),
            Event::Tick(running) => self.progress(&running),
        }
    }

    fn ended(&mut self, mut outcome: Outcome) {
        let line = match &outcome.verdict {
            Verdict::Failed(why) => Some(format!("FAILED   {} ({why})", outcome.id)),
            Verdict::Skipped(why) => Some(format!("skipped  {} ({why})", outcome.id)),
            Verdict::Passed if outcome.duration >= SLOW => Some(format!("ok       {}", outcome.id)),
            Verdict::Passed => None,
        };
        if let Some(line) = line {
            let seconds = outcome.duration.as_secs_f64();
            self.print(&format!("{seconds:6.1} s  {line}"));
        }
        if matches!(outcome.verdict, Verdict::Failed(_)) {
            self.print(&format!(
                "--- output of {}\n{}\n--- end of output of {}",
                outcome.id,
                outcome.output.trim_end(),
                outcome.id
            ));
        }
        outcome.output = String::new();
        self.outcomes.push(outcome);
    }

    fn print(&self, line: &str) {
        match self.terminal {
            true => println!("\r\x1b[K{line}"),
            false => println!("{line}"),
        }
    }

    fn progress(&mut self, running: &[String]) {
        let text = format!(
            "[{}] {}/{} tests, {} failed; {} running: {}",
            clock(self.began.elapsed()),
            self.outcomes.len(),
            self.total,
            self.failed(),
            running.len(),
            running.first().map_or("", String::as_str),
        );
        if self.terminal {
            let fits: String = text.chars().take(self.width).collect();
            print!("\r\x1b[K{fits}");
            let _ = std::io::stdout().flush();
        } else if self.last_progress.elapsed() >= PROGRESS_INTERVAL {
            self.last_progress = Instant::now();
            println!("{text}");
        }
    }

    pub(crate) fn failed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.outcomes.iter().filter(|it| is(&it.verdict)).count()
    }

    /// Takes over what was measured of tests that passed.
    pub(crate) fn record(&self, durations: &mut Durations, selection: &Selection<'_>) {
        for outcome in &self.outcomes {
            if outcome.verdict == Verdict::Passed {
                durations.set(&selection.key(&outcome.id), outcome.duration);
            }
        }
    }

    /// The end: the slowest, the failed, and the line that counts them.
    pub(crate) fn finish(&mut self, listed: usize) {
        self.print("");
        self.outcomes
            .sort_by_key(|it| std::cmp::Reverse(it.duration));
        let work: Duration = self.outcomes.iter().map(|it| it.duration).sum();
        let computed: Duration = self.outcomes.iter().map(|it| it.processor_time).sum();
        println!(
            "{} for {} of tests, {} of processor time; the slowest, and what they computed:",
            minutes(self.began.elapsed()),
            minutes(work),
            minutes(computed)
        );
        for outcome in self.outcomes.iter().take(listed) {
            println!("{}", times(outcome));
        }
        self.outcomes
            .sort_by_key(|it| std::cmp::Reverse(it.processor_time));
        println!("those that computed most:");
        for outcome in self.outcomes.iter().take(listed) {
            println!("{}", times(outcome));
        }
        let failed: BTreeSet<&str> = self
            .outcomes
            .iter()
            .filter(|it| matches!(it.verdict, Verdict::Failed(_)))
            .map(|it| it.id.as_str())
            .collect();
        for id in &failed {
            println!("FAILED   {id}");
        }
        let skipped = self.count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        let passed = self.outcomes.len() - failed.len() - skipped;
        println!(
            "{passed} passed, {} failed, {skipped} skipped",
            failed.len()
        );
    }
}

fn times(outcome: &Outcome) -> String {
    format!(
        "{:7.1} s {:7.1} s  {}",
        outcome.duration.as_secs_f64(),
        outcome.processor_time.as_secs_f64(),
        outcome.id
    )
}

fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

//! Progress of an operation: on a terminal a redrawn line per step; else a line
//! per change. A step that works on several resources at once has a line for
//! each below it.

use std::collections::BTreeSet;

use strata_api::rest::{Operation, OperationStep};

use super::title;
use crate::printer::{Printer, terminal_size};

/// Progress of an operation as printed so far.
pub(super) struct OperationProgress {
    live: bool,
    lines: usize,
    told: BTreeSet<String>,
}

impl OperationProgress {
    pub(super) fn new(live: bool) -> Self {
        Self {
            live,
            lines: 0,
            told: BTreeSet::new(),
        }
    }

    pub(super) fn show(&mut self, printer: &mut Printer, now: &Operation) {
        let title = plain(&title(now));
        if self.live {
            let steps = now.steps.iter().flat_map(step_lines);
            let steps = steps.map(|line| format!("  {line}"));
            let lines: Vec<String> = std::iter::once(title)
                .chain(steps)
                .map(|line| short(&line))
                .collect();
            let lines = fitting(lines, terminal_size().1);
            printer.redraw(self.lines, &lines);
            self.lines = lines.len();
            return;
        }
        if now.message.is_empty() {
            return;
        }
        let lines: BTreeSet<String> = split_messages(&now.message)
            .into_iter()
            .map(|news| format!("{title}: {}", plain(&news)))
            .collect();
        for line in lines.difference(&self.told) {
            printer.note(line);
        }
        self.told = lines;
    }
}

/// `join: m1: waits\nm2: joins` is news of two machines in one step.
fn split_messages(message: &str) -> Vec<String> {
    let Some((first, rest)) = message.split_once('\n') else {
        return vec![message.to_owned()];
    };
    let step = first.split_once(": ").map_or("", |(step, _)| step);
    let others = rest.lines().map(|line| format!("{step}: {line}"));
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// A step in one line: `empty: running, 40%, 2 on it still: web, db`; or in
/// several, when it works at several things and is not done.
pub(super) fn step_lines(step: &OperationStep) -> Vec<String> {
    let mut line = format!("{}: {}", step.name, step.phase);
    // What is done is at its end, whatever was told last.
    let under_way = matches!(step.phase.as_str(), "running" | "undoing");
    if let (true, Some(fraction)) = (under_way, step.fraction) {
        line.push_str(&format!(", {:.0}%", fraction.clamp(0.0, 1.0) * 100.0));
    }
    let parts: Vec<&str> = step.progress.lines().collect();
    match parts.as_slice() {
        [] => vec![plain(&line)],
        [one] => vec![plain(&format!("{line}, {one}"))],
        _ if step.phase == "done" => vec![plain(&line)],
        several => {
            let below = several.iter().map(|part| format!("  {}", plain(part)));
            std::iter::once(plain(&line)).chain(below).collect()
        }
    }
}

/// What does not fit the terminal could not be drawn over: the last lines
/// count.
fn fitting(mut lines: Vec<String>, rows: usize) -> Vec<String> {
    let room = rows.saturating_sub(1).max(2);
    if lines.len() > room {
        let gone = lines.len() - room + 1;
        lines.splice(1..=gone, ["  …".to_owned()]);
    }
    lines
}

/// A line that wraps would not be drawn over as one.
fn short(line: &str) -> String {
    line.chars().take(78).collect()
}

/// Control characters are removed: remote text must not control the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_tells_how_far_it_is_while_it_runs() {
        let step = |phase: &str, progress: &str, fraction| OperationStep {
            name: "empty".into(),
            phase: phase.into(),
            progress: progress.into(),
            fraction,
        };
        let line = |phase: &str, progress: &str, fraction| {
            step_lines(&step(phase, progress, fraction)).join("\n")
        };
        assert_eq!(
            line("running", "1 left\u{1b}[2J", Some(0.4)),
            "empty: running, 40%, 1 left [2J"
        );
        assert_eq!(line("done", "", Some(1.0)), "empty: done");
        assert_eq!(line("running", "", None), "empty: running");
    }

    #[test]
    fn several_things_at_once_have_a_line_each() {
        let step = |phase: &str| OperationStep {
            name: "join".into(),
            phase: phase.into(),
            progress: "m1: installs\nm2: waits\u{1b}[2J".into(),
            fraction: None,
        };
        assert_eq!(
            step_lines(&step("running")),
            ["join: running", "  m1: installs", "  m2: waits [2J"]
        );
        assert_eq!(step_lines(&step("done")), ["join: done"]);
        assert_eq!(
            split_messages("join: m1: installs\nm2: waits"),
            ["join: m1: installs", "join: m2: waits"]
        );
        assert_eq!(split_messages("half of it"), ["half of it"]);
    }

    #[test]
    fn no_more_is_drawn_than_fits() {
        let lines: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(fitting(lines.clone(), 11), lines);
        assert_eq!(fitting(lines.clone(), 6), ["0", "  …", "7", "8", "9"]);
        assert_eq!(fitting(lines, 0).len(), 2);
    }
}

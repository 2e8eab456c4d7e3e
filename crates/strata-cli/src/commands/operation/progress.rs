//! How far a long action is: on a terminal a line for each step, drawn over as
//! it goes; else a line when there is something new to say.

use strata_api::rest::{Operation, OperationStep};

use super::title;
use crate::printer::Printer;

/// What has been shown of a long action.
pub(super) struct Shown {
    live: bool,
    lines: usize,
    told: String,
}

impl Shown {
    pub(super) fn new(live: bool) -> Self {
        Self {
            live,
            lines: 0,
            told: String::new(),
        }
    }

    pub(super) fn show(&mut self, printer: &mut Printer, now: &Operation) {
        let title = plain(&title(now));
        if self.live {
            let steps = now.steps.iter();
            let steps = steps.map(|step| format!("  {}", step_line(step)));
            let lines: Vec<String> = std::iter::once(title)
                .chain(steps)
                .map(|line| short(&line))
                .collect();
            printer.redraw(self.lines, &lines);
            self.lines = lines.len();
            return;
        }
        let line = match now.message.as_str() {
            "" => return,
            message => format!("{title}: {}", plain(message)),
        };
        if self.told != line {
            printer.note(&line);
            self.told = line;
        }
    }
}

/// A step in one line: `empty: running, 40%, 2 on it still: web, db`.
pub(super) fn step_line(step: &OperationStep) -> String {
    let mut line = format!("{}: {}", step.name, step.phase);
    // What is done is at its end, whatever was told last.
    let under_way = matches!(step.phase.as_str(), "running" | "undoing");
    if let (true, Some(fraction)) = (under_way, step.fraction) {
        line.push_str(&format!(", {:.0}%", fraction.clamp(0.0, 1.0) * 100.0));
    }
    if !step.progress.is_empty() {
        line.push_str(&format!(", {}", step.progress));
    }
    plain(&line)
}

/// A line that wraps would not be drawn over as one.
fn short(line: &str) -> String {
    line.chars().take(78).collect()
}

/// What others wrote must not steer the terminal.
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
        let line =
            |phase: &str, progress: &str, fraction| step_line(&step(phase, progress, fraction));
        assert_eq!(
            line("running", "1 left\u{1b}[2J", Some(0.4)),
            "empty: running, 40%, 1 left [2J"
        );
        assert_eq!(line("done", "", Some(1.0)), "empty: done");
        assert_eq!(line("running", "", None), "empty: running");
    }
}

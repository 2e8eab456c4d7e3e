//! All that is known of one thing, a line for each part of it.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::human;
use crate::printer::Style;

/// Labels and values. What has no value has no line.
pub(crate) struct Details {
    text: String,
    width: usize,
}

impl Details {
    /// Labels take so much room.
    pub(crate) fn new(width: usize) -> Self {
        Self {
            text: String::new(),
            width,
        }
    }

    /// A line, unless the value is empty.
    pub(crate) fn row(&mut self, label: &str, value: &str) {
        if !value.is_empty() {
            self.line(label, &plain(value));
        }
    }

    /// A line, unless there is no value.
    pub(crate) fn maybe(&mut self, label: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.row(label, &value.to_string());
        }
    }

    /// The state, and why it is so.
    pub(crate) fn state(&mut self, state: &str, reason: Option<&str>, style: Style, color: bool) {
        let state = match reason {
            Some(reason) => format!("{state} ({reason})"),
            None => state.to_owned(),
        };
        let painted = style.paint(&plain(&state), color);
        self.line("State", &painted);
    }

    /// A line with a moment and how long ago it was.
    pub(crate) fn moment(&mut self, label: &str, at: Option<Timestamp>, now: Timestamp) {
        if let Some(at) = at {
            self.row(label, &format!("{at} ({} ago)", human::age(Some(at), now)));
        }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, label: &str, value: &str) {
        let _ = writeln!(self.text, "{label:<width$}{value}", width = self.width);
    }
}

/// Control characters are removed: remote text must not control the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

//! The user's terminal when it is handed to a program elsewhere: every key
//! goes there as it is, and the terminal is given back as it was, whichever
//! way we leave.

mod input;

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use strata_api::strata::v1::TerminalSize;

pub(crate) use input::{Keyboard, keyboard};

/// The terminal on stdin in raw mode. Dropping it gives the terminal back:
/// on every way out, a panic among them, since a terminal that is left raw is
/// of no use to its owner.
#[derive(Debug)]
pub(crate) struct RawMode {
    saved: Termios,
}

impl RawMode {
    /// Takes the terminal on stdin.
    pub(crate) fn enter() -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        raw.make_raw();
        // What was typed before is for the program too: nothing is flushed.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { saved })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // First let out what was written under the other rules.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved);
    }
}

/// How large the terminal on stdin is.
pub(crate) fn size() -> TerminalSize {
    match tcgetwinsize(io::stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => TerminalSize {
            rows: size.ws_row.into(),
            columns: size.ws_col.into(),
        },
        _ => TerminalSize {
            rows: 24,
            columns: 80,
        },
    }
}

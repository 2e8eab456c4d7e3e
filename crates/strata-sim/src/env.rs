//! What all parts of a simulation share: time, the trace, and what was found.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::process::Process;

/// Lines that are shown with a failure.
const SHOWN_LINES: usize = 60;

/// Of one simulation.
pub(crate) struct Env {
    pub(crate) seed: u64,
    begin: Instant,
    state: Mutex<State>,
}

struct State {
    /// FNV-1a over all lines.
    hash: u64,
    lines: VecDeque<String>,
    prints: bool,
    violations: Vec<String>,
}

impl Env {
    pub(crate) fn new(seed: u64, prints: bool) -> Arc<Self> {
        Arc::new(Self {
            seed,
            begin: Instant::now(),
            state: Mutex::new(State {
                hash: 0xcbf2_9ce4_8422_2325,
                lines: VecDeque::new(),
                prints,
                violations: Vec::new(),
            }),
        })
    }

    /// A process for what belongs to no host and never fails.
    pub(crate) fn outside(self: &Arc<Self>) -> Arc<Process> {
        Process::new(self)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, line: fmt::Arguments<'_>) {
        let at = self.elapsed();
        let line = format!("{:>4}.{:06} {line}", at.as_secs(), at.subsec_micros());
        let mut state = self.state();
        for byte in line.bytes() {
            state.hash = (state.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        #[allow(clippy::print_stderr)]
        if state.prints {
            eprintln!("{line}");
        }
        state.lines.push_back(line);
        if state.lines.len() > SHOWN_LINES {
            state.lines.pop_front();
        }
    }

    /// Something that must never be so is so.
    pub(crate) fn violated(&self, what: String) {
        self.note(format_args!("VIOLATED {what}"));
        self.state().violations.push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.state().hash
    }

    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.state().lines.iter().cloned().collect()
    }
}

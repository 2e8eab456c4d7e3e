//! Gathers what many threads have done into a status, and reports it at a
//! bounded rate. The engine's progress bars end here too.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustic_core::{ProgressBars, ProgressType, RusticProgress};

use super::meter::Meter;
use super::{Phase, Progress, Status};

/// Between two reports lies at least so much time.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Reporter {
    told: Arc<dyn Progress>,
    files: AtomicU64,
    files_read: AtomicU64,
    bytes: AtomicU64,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    total: Option<u64>,
    meter: Meter,
    reported: Instant,
}

impl Reporter {
    pub(crate) fn new(told: Arc<dyn Progress>) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            told,
            files: AtomicU64::new(0),
            files_read: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            state: Mutex::new(State {
                phase: Phase::Opening,
                total: None,
                meter: Meter::new(now),
                reported: now,
            }),
        })
    }

    /// A new phase begins; counting begins again.
    pub(crate) fn enter(&self, phase: Phase, total: Option<u64>) {
        let mut state = self.state();
        for count in [&self.files, &self.files_read, &self.bytes] {
            count.store(0, Ordering::Relaxed);
        }
        state.phase = phase;
        state.total = total;
        state.meter = Meter::new(Instant::now());
        self.tell(&mut state);
    }

    /// There is so much in all, as is known by now.
    pub(crate) fn expect(&self, total: u64) {
        self.state().total = Some(total);
    }

    pub(crate) fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn file_read(&self) {
        self.files_read.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self, more: u64) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
        // Another thread reports already: that is enough.
        if let Ok(mut state) = self.state.try_lock()
            && state.reported.elapsed() >= REPORT_INTERVAL
        {
            self.tell(&mut state);
        }
    }

    /// The last word of a phase.
    pub(crate) fn done(&self) {
        self.tell(&mut self.state());
    }

    fn tell(&self, state: &mut State) {
        let now = Instant::now();
        let bytes = self.bytes.load(Ordering::Relaxed);
        state.meter.mark(now, bytes);
        state.reported = now;
        // A guess that was too low is no longer one.
        let total = state.total.map(|total| total.max(bytes));
        self.told.report(&Status {
            phase: state.phase,
            files: self.files.load(Ordering::Relaxed),
            files_read: self.files_read.load(Ordering::Relaxed),
            bytes,
            bytes_total: total,
            rate: state.meter.rate(),
            remaining: total.and_then(|total| state.meter.remaining(total)),
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}

/// Gives the engine its bars. Of these only those that count bytes show how far
/// we are.
#[derive(Debug)]
pub(crate) struct Bars(pub(crate) Arc<Reporter>);

impl ProgressBars for Bars {
    fn progress(&self, kind: ProgressType, _: &str) -> rustic_core::Progress {
        match kind {
            ProgressType::Bytes => rustic_core::Progress::new(Bar(self.0.clone())),
            ProgressType::Spinner | ProgressType::Counter => rustic_core::Progress::hidden(),
        }
    }
}

#[derive(Debug)]
struct Bar(Arc<Reporter>);

impl RusticProgress for Bar {
    fn is_hidden(&self) -> bool {
        false
    }

    fn set_length(&self, length: u64) {
        self.0.expect(length);
    }

    fn set_title(&self, _: &str) {}

    fn inc(&self, more: u64) {
        self.0.bytes(more);
    }

    fn finish(&self) {
        self.0.done();
    }
}

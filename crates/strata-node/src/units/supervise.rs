//! What happens when a unit ends by itself: it is taken down, and started again
//! if its policy requires it, after a delay that grows with each try.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use strata_types::pod::PodState;
use strata_types::{BackoffPolicy, Ending};

use super::{Unit, UnitKind};
use crate::cells::Executable;
use crate::clock::now_ms;

/// Waits for the end of a unit's main process, and handles it.
pub(super) async fn until_end<K: UnitKind>(unit: Weak<Unit<K>>, main: Arc<Executable>) {
    let ended = main.ended().await;
    let Some(unit) = unit.upgrade() else { return };
    if unit.closing().is_cancelled() {
        return;
    }
    let lived = Duration::from_nanos(ended.ended_ns.saturating_sub(ended.started_ns));
    let ending = ended.ending.unwrap_or(Ending::Lost);
    unit.on_end(&main, ending, lived).await;
}

/// How often a record is tried that found no room on the disk.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);

/// Writes the record of a unit as soon as there is room for it.
pub(super) async fn write_later<K: UnitKind>(unit: Weak<Unit<K>>) {
    loop {
        tokio::time::sleep(WRITE_INTERVAL).await;
        let Some(unit) = unit.upgrade() else { return };
        if unit.closing().is_cancelled() {
            return;
        }
        // One that is being destroyed takes its record away itself.
        let busy = unit.busy.lock().await;
        let goes = unit.view().state == PodState::Destroying;
        if goes || unit.write().is_ok() {
            unit.unwritten.store(false, Ordering::Relaxed);
            return;
        }
        drop(busy);
    }
}

impl<K: UnitKind> Unit<K> {
    async fn on_end(self: Arc<Self>, main: &Arc<Executable>, ending: Ending, lived: Duration) {
        let busy = self.busy.lock().await;
        let view = self.view();
        // It was stopped, or is another one by now.
        let same = view
            .main
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, main));
        match view.state {
            PodState::Running if same => {}
            // A start that was due or under way when this monitor panicked, and
            // that nothing else takes up.
            PodState::Waiting | PodState::Starting if same => {
                drop(busy);
                return self.again_after(lived, &view.reason).await;
            }
            _ => return,
        }
        if let Err(error) = self.finish(None, None).await {
            let name = self.name();
            tracing::error!(kind = K::NOUN, %name, %error, "exited unit not torn down");
        }
        let failed = self.given_up.load(Ordering::Relaxed);
        let record = self.record();
        let again = K::restart(&record.spec).wants_restart(match (failed, ending) {
            (true, Ending::Code(0)) => Ending::Code(1),
            _ => ending,
        });
        let why = match view.reason.as_str() {
            "" => ending.to_string(),
            reason => format!("{reason}; {ending}"),
        };
        if !record.wanted || !again {
            let _ = self.change(|record| record.set_final_state(PodState::Exited, &why));
            self.set(PodState::Exited, |view| view.reason.clone_from(&why));
            self.tell(&format!("ended: {why}"));
            return;
        }
        drop(busy);
        self.again_after(lived, &why).await;
    }

    /// Waits as long as it must, then starts it again; and again, while that
    /// fails.
    pub(super) async fn again_after(self: Arc<Self>, lived: Duration, why: &str) {
        let (mut lived, mut why) = (lived, why.to_owned());
        loop {
            let mut wait = Duration::ZERO;
            let changed = self.change(|record| {
                wait = record.backoff.after_run(BackoffPolicy::UNITS, lived);
                record.restarts += 1;
            });
            if let Err(error) = changed {
                let name = self.name();
                tracing::error!(kind = K::NOUN, %name, %error, "restart count of the unit not saved");
                wait = Duration::from_secs(10);
            }
            let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            let waiting = self.set(PodState::Waiting, |view| {
                view.reason.clone_from(&why);
                view.next_start_at_ms = now_ms().saturating_add(millis);
            });
            if !waiting {
                return;
            }
            self.tell(&format!(
                "ended: {why}; starts again in {} s",
                wait.as_secs()
            ));
            if self.interrupted_within(wait).await {
                return;
            }
            let _busy = self.busy.lock().await;
            if self.view().state != PodState::Waiting || !self.record().wanted {
                return;
            }
            match self.begin().await {
                Ok(()) => return,
                Err(error) => why = format!("could not be started: {error}"),
            }
            lived = Duration::ZERO;
        }
    }

    /// Whether something else happened to it before the time was over.
    async fn interrupted_within(&self, wait: Duration) -> bool {
        let mut watch = self.watch();
        let other = watch.wait_for(|view| view.state != PodState::Waiting);
        let closing = self.closing();
        tokio::select! {
            biased;
            () = closing.cancelled() => true,
            waited = tokio::time::timeout(wait, other) => waited.is_ok(),
        }
    }

    /// Ends a unit that does not work; its policy decides what follows.
    pub(crate) async fn give_up(self: &Arc<Self>, main: &Arc<Executable>, reason: &str) {
        self.given_up.store(true, Ordering::Relaxed);
        self.note(|view| view.reason = reason.to_owned());
        self.tell(reason);
        let Ok(kind) = self.kind() else { return };
        let record = self.record();
        if K::restart(&record.spec).wants_restart(Ending::Code(1))
            && let Err(error) = kind.stop(&record, main, None).await
        {
            let name = self.name();
            tracing::warn!(kind = K::NOUN, %name, %error, "unhealthy unit not stopped gracefully");
        }
    }
}

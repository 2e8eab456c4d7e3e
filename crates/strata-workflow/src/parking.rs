//! Operations that wait for something else and do nothing meanwhile. They do
//! not count among those that run at the same time: what they wait for may be
//! another operation, which has to be able to begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many operations of an engine wait.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    waiting: AtomicUsize,
    changed: Notify,
}

/// One operation waits as long as this is there.
pub(crate) struct Parked(Arc<Parking>);

impl Parking {
    pub(crate) fn park(self: &Arc<Self>) -> Parked {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_one();
        Parked(Arc::clone(self))
    }

    /// How many wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Waits until one more waits.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

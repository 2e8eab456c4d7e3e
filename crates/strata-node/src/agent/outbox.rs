//! What is to be reported to the server, each instance at most once: a slow
//! server receives the latest state of each and nothing in between, and what
//! waits for it has a bound.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_api::strata::v1;
use tokio::sync::Notify;

/// Refusals and departures that wait; older ones give way. The server learns of
/// those by the reports of the node when it reconnects.
const MAX_QUEUED: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum OutboxItem {
    /// How this instance is when it is reported.
    Instance(String),
    /// This one is gone.
    Gone {
        id: String,
        generation: u64,
        epoch: u64,
    },
    Refused(v1::Refusal),
    Reported,
    /// What runs here is stopped when the lease ends, and these peers are known.
    LeaseHeld {
        peers_version: u64,
    },
}

/// What is to be reported.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    news: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<OutboxItem>,
    instances: HashSet<String>,
}

impl Queue {
    fn instance(&mut self, id: &str) {
        if self.instances.insert(id.to_owned()) {
            self.items.push_back(OutboxItem::Instance(id.to_owned()));
        }
    }

    fn bounded(&mut self, item: OutboxItem) {
        let is_other =
            |item: &OutboxItem| matches!(item, OutboxItem::Gone { .. } | OutboxItem::Refused(_));
        if self.items.iter().filter(|item| is_other(item)).count() >= MAX_QUEUED
            && let Some(oldest) = self.items.iter().position(is_other)
        {
            self.items.remove(oldest);
        }
        self.items.push_back(item);
    }
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn instance(&self, id: &str) {
        self.queue().instance(id);
        self.news.notify_one();
    }

    /// An instance is gone.
    pub(super) fn gone(&self, id: &str, generation: u64, epoch: u64) {
        let id = id.to_owned();
        self.queue().bounded(OutboxItem::Gone {
            id,
            generation,
            epoch,
        });
        self.news.notify_one();
    }

    /// An instance will not be had.
    pub(super) fn refused(&self, id: &str, generation: u64, epoch: u64, reason: String) {
        let refusal = v1::Refusal {
            id: id.to_owned(),
            generation,
            reason,
            epoch,
        };
        self.queue().bounded(OutboxItem::Refused(refusal));
        self.news.notify_one();
    }

    /// The shim holds the lease.
    pub(super) fn lease_held(&self, peers_version: u64) {
        let held = OutboxItem::LeaseHeld { peers_version };
        self.queue().items.push_front(held);
        self.news.notify_one();
    }

    /// A server answered: all is reported from the beginning. Of what waited
    /// only departures are worth reporting; what was refused will be assigned
    /// again.
    pub(super) fn begin(&self, ids: &[String]) {
        let mut queue = self.queue();
        queue
            .items
            .retain(|item| matches!(item, OutboxItem::Gone { .. }));
        queue.instances.clear();
        ids.iter().for_each(|id| queue.instance(id));
        queue.items.push_back(OutboxItem::Reported);
        drop(queue);
        self.news.notify_one();
    }

    pub(super) fn take(&self) -> Option<OutboxItem> {
        let mut queue = self.queue();
        let item = queue.items.pop_front()?;
        if let OutboxItem::Instance(id) = &item {
            queue.instances.remove(id);
        }
        Some(item)
    }

    /// Waits until there is something to report.
    pub(super) async fn filled(&self) {
        loop {
            let news = self.news.notified();
            if !self.queue().items.is_empty() {
                return;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_waits_once_and_in_order() {
        let outbox = Outbox::default();
        for id in ["a", "b", "a", "a"] {
            outbox.instance(id);
        }
        assert_eq!(outbox.take(), Some(OutboxItem::Instance("a".into())));
        outbox.instance("a");
        assert_eq!(outbox.take(), Some(OutboxItem::Instance("b".into())));
        assert_eq!(outbox.take(), Some(OutboxItem::Instance("a".into())));
        assert_eq!(outbox.take(), None);
    }

    #[test]
    fn a_new_server_hears_all_of_it_and_what_went_before() {
        let outbox = Outbox::default();
        outbox.instance("a");
        outbox.refused("r", 1, 1, "no".into());
        outbox.gone("g", 3, 7);
        outbox.begin(&["b".into(), "a".into()]);
        let all: Vec<_> = std::iter::from_fn(|| outbox.take()).collect();
        let gone = OutboxItem::Gone {
            id: "g".into(),
            generation: 3,
            epoch: 7,
        };
        let instance = |id: &str| OutboxItem::Instance(id.into());
        assert_eq!(
            all,
            [gone, instance("b"), instance("a"), OutboxItem::Reported]
        );
    }

    #[test]
    fn outbox_is_bounded() {
        let outbox = Outbox::default();
        for n in 0..2 * MAX_QUEUED as u64 {
            outbox.gone("g", n, 1);
        }
        assert_eq!(outbox.queue().items.len(), MAX_QUEUED);
    }
}

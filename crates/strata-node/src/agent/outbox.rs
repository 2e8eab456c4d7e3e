//! What is to be told to the server, each instance at most once: a server that
//! is slow hears the latest of each and nothing in between, and what waits for
//! it has a bound.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_api::strata::v1;
use tokio::sync::Notify;

/// Refusals and departures that wait; older ones give way. The server hears of
/// those by what is reported when the node comes back.
const MOST: usize = 4096;

/// Something to tell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// How this instance is when it is told.
    Instance(String),
    /// This one is gone.
    Gone {
        id: String,
        generation: u64,
        epoch: u64,
    },
    Refused(v1::Refusal),
    /// All were told.
    Reported,
    /// What runs here is stopped when the lease ends, and these peers are known.
    LeaseHeld {
        peers_version: u64,
    },
}

/// What is to be told.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    news: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    instances: HashSet<String>,
}

impl Queue {
    fn instance(&mut self, id: &str) {
        if self.instances.insert(id.to_owned()) {
            self.items.push_back(Item::Instance(id.to_owned()));
        }
    }

    fn bounded(&mut self, item: Item) {
        let is_other = |item: &Item| matches!(item, Item::Gone { .. } | Item::Refused(_));
        if self.items.iter().filter(|item| is_other(item)).count() >= MOST
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

    /// An instance changed.
    pub(super) fn instance(&self, id: &str) {
        self.queue().instance(id);
        self.news.notify_one();
    }

    /// An instance is gone.
    pub(super) fn gone(&self, id: &str, generation: u64, epoch: u64) {
        let id = id.to_owned();
        self.queue().bounded(Item::Gone {
            id,
            generation,
            epoch,
        });
        self.news.notify_one();
    }

    /// An instance will not be had.
    pub(super) fn refused(&self, id: &str, generation: u64, reason: String) {
        let refusal = v1::Refusal {
            id: id.to_owned(),
            generation,
            reason,
        };
        self.queue().bounded(Item::Refused(refusal));
        self.news.notify_one();
    }

    /// The shim holds the lease.
    pub(super) fn lease_held(&self, peers_version: u64) {
        let held = Item::LeaseHeld { peers_version };
        self.queue().items.push_front(held);
        self.news.notify_one();
    }

    /// A server answered: all is told from the beginning. Of what waited only
    /// departures are worth telling; what was refused will be assigned again.
    pub(super) fn begin(&self, ids: &[String]) {
        let mut queue = self.queue();
        queue.items.retain(|item| matches!(item, Item::Gone { .. }));
        queue.instances.clear();
        ids.iter().for_each(|id| queue.instance(id));
        queue.items.push_back(Item::Reported);
        drop(queue);
        self.news.notify_one();
    }

    /// The next thing to tell.
    pub(super) fn take(&self) -> Option<Item> {
        let mut queue = self.queue();
        let item = queue.items.pop_front()?;
        if let Item::Instance(id) = &item {
            queue.instances.remove(id);
        }
        Some(item)
    }

    /// Waits until there is something to tell.
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
        assert_eq!(outbox.take(), Some(Item::Instance("a".into())));
        outbox.instance("a");
        assert_eq!(outbox.take(), Some(Item::Instance("b".into())));
        assert_eq!(outbox.take(), Some(Item::Instance("a".into())));
        assert_eq!(outbox.take(), None);
    }

    #[test]
    fn a_new_server_hears_all_of_it_and_what_went_before() {
        let outbox = Outbox::default();
        outbox.instance("a");
        outbox.refused("r", 1, "no".into());
        outbox.gone("g", 3, 7);
        outbox.begin(&["b".into(), "a".into()]);
        let all: Vec<_> = std::iter::from_fn(|| outbox.take()).collect();
        let gone = Item::Gone {
            id: "g".into(),
            generation: 3,
            epoch: 7,
        };
        let instance = |id: &str| Item::Instance(id.into());
        assert_eq!(all, [gone, instance("b"), instance("a"), Item::Reported]);
    }

    #[test]
    fn what_waits_has_a_bound() {
        let outbox = Outbox::default();
        for n in 0..2 * MOST as u64 {
            outbox.gone("g", n, 1);
        }
        assert_eq!(outbox.queue().items.len(), MOST);
    }
}

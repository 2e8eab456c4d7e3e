//! Places that several holders share, such as downloads at once. A holder that
//! keeps all of its own busy for hours leaves some to the others.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Places, of which each holder may have half of what the others leave.
///
/// A holder that is alone has half of all. Others have half of the rest each,
/// so that it takes many holders to occupy the last place.
#[derive(Debug)]
pub struct Shares {
    places: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    by_holder: HashMap<String, usize>,
    /// Those of one holder are served in their order.
    waiting: BTreeMap<u64, String>,
    next: u64,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    holder: String,
}

/// A place in the queue, until it is dropped.
struct Waiting<'a> {
    shares: &'a Shares,
    number: u64,
}

impl State {
    fn held_by(&self, holder: &str) -> usize {
        self.by_holder.get(holder).copied().unwrap_or(0)
    }

    fn is_first(&self, number: u64, holder: &str) -> bool {
        let mut earlier = self.waiting.range(..number);
        !earlier.any(|(_, other)| other == holder)
    }
}

impl Shares {
    /// So many, and one at least.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self {
            places: places.max(1),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// A place for a holder, as soon as there is one.
    pub async fn take(self: &Arc<Self>, holder: &str) -> Share {
        let waiting = self.queue(holder);
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.try_take(holder, waiting.number) {
                return Share {
                    shares: Arc::clone(self),
                    holder: holder.to_owned(),
                };
            }
            changed.await;
        }
    }

    fn queue(&self, holder: &str) -> Waiting<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, holder.to_owned());
        Waiting {
            shares: self,
            number,
        }
    }

    fn try_take(&self, holder: &str, number: u64) -> bool {
        let mut state = self.lock();
        let held = state.held_by(holder);
        let left = self.places - (state.taken - held);
        if state.taken >= self.places || held >= left.div_ceil(2) || !state.is_first(number, holder)
        {
            return false;
        }
        state.taken += 1;
        *state.by_holder.entry(holder.to_owned()).or_default() += 1;
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shares.lock().waiting.remove(&self.number);
        // The next of the same holder is the first now.
        self.shares.changed.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.shares.lock();
        state.taken -= 1;
        if let Some(held) = state.by_holder.get_mut(&self.holder) {
            *held -= 1;
            if *held == 0 {
                state.by_holder.remove(&self.holder);
            }
        }
        drop(state);
        self.shares.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn now(shares: &Arc<Shares>, holder: &str) -> Option<Share> {
        shares.take(holder).now_or_never()
    }

    fn all(shares: &Arc<Shares>, holder: &str) -> Vec<Share> {
        std::iter::from_fn(|| now(shares, holder)).collect()
    }

    #[test]
    fn each_holder_leaves_half_of_what_is_left() {
        let shares = Shares::new(8);
        let held: Vec<_> = ["a", "b", "c", "d"]
            .map(|holder| all(&shares, holder))
            .into();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [4, 2, 1, 1]);
        assert!(now(&shares, "e").is_none());
        drop(held);
        let state = shares.lock();
        assert_eq!(state.taken, 0);
        assert!(state.by_holder.is_empty() && state.waiting.is_empty());
    }

    #[test]
    fn the_only_place_is_for_anyone() {
        let shares = Shares::new(0);
        let held = now(&shares, "a").unwrap();
        assert!(now(&shares, "b").is_none());
        drop(held);
        assert!(now(&shares, "b").is_some());
    }

    #[tokio::test]
    async fn waiting_ones_are_served_in_their_order_and_may_give_up() {
        let shares = Shares::new(2);
        let held = shares.take("a").await;
        let mut first = Box::pin(shares.take("a"));
        let mut second = Box::pin(shares.take("a"));
        let mut third = Box::pin(shares.take("a"));
        for waiting in [&mut first, &mut second, &mut third] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(held);
        assert!(second.as_mut().now_or_never().is_none(), "not its turn");
        drop(first);
        let held = second.await;
        assert!(third.as_mut().now_or_never().is_none());
        let other = now(&shares, "b").unwrap();
        drop((held, other));
        third.await;
    }
}

//! A state that many read, with watchers that are notified when it changed.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures_util::stream;
use tokio::sync::watch;

use crate::state::State;
use crate::{Changes, Revision, StoreError, Watch};

/// Behind a lock that is never held while anything waits.
#[derive(Debug)]
pub(crate) struct Shared(RwLock<State>);

impl Shared {
    pub(crate) fn new(state: State) -> Arc<Self> {
        Arc::new(Self(RwLock::new(state)))
    }

    // A panic with the lock held would be in code that only moves data
    // around; what it leaves is as good as what a caller could make.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Follower {
    shared: Arc<Shared>,
    news: watch::Receiver<Revision>,
    prefix: String,
    at: Revision,
    ready: VecDeque<Changes>,
    ended: bool,
}

/// Follows a prefix from a revision on. `news` changes whenever the state
/// does; when its sender is gone, so is the store.
pub(crate) fn follow(
    shared: Arc<Shared>,
    news: watch::Receiver<Revision>,
    prefix: &str,
    after: Revision,
) -> Result<Watch, StoreError> {
    // What is impossible is reported at once, not by the first item.
    shared.read().changes_after(after, prefix)?;
    let follower = Follower {
        shared,
        news,
        prefix: prefix.to_owned(),
        at: after,
        ready: VecDeque::new(),
        ended: false,
    };
    Ok(Box::pin(stream::unfold(follower, |mut follower| async {
        let item = follower.next().await?;
        follower.ended = item.is_err();
        Some((item, follower))
    })))
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Changes, StoreError>> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(changes) = self.ready.pop_front() {
                return Some(Ok(changes));
            }
            // Marked as seen before looking: what comes after the look wakes.
            self.news.borrow_and_update();
            let passage = self.shared.read().changes_after(self.at, &self.prefix);
            let passage = match passage {
                Ok(passage) => passage,
                Err(error) => return Some(Err(error)),
            };
            self.at = passage.upto;
            self.ready.extend(passage.changes);
            if passage.complete && self.ready.is_empty() && self.news.changed().await.is_err() {
                let closed = "the watch was ended".to_owned();
                return Some(Err(StoreError::Unavailable(closed)));
            }
        }
    }
}

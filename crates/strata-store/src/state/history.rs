//! What happened lately, so that a watch can begin in the past.
//!
//! Watchers have no queue of their own. Each reads here from where it is, so
//! one that is slow costs nothing, and one that is too slow receives an error.

use std::collections::VecDeque;

use crate::{Change, Changes, Revision, StoreError};

/// How many revisions are looked at while the state is locked.
const MAX_REVISIONS_PER_LOCK: usize = 512;

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryBounds {
    pub(crate) revisions: usize,
    /// Keys and values in them together, in bytes.
    pub(crate) bytes: usize,
}

impl Default for HistoryBounds {
    fn default() -> Self {
        Self {
            revisions: 16 << 10,
            bytes: 16 << 20,
        }
    }
}

/// A part of the history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HistorySlice {
    /// What was requested, in order.
    pub(crate) changes: Vec<Changes>,
    /// Go on from here.
    pub(crate) upto: Revision,
    /// Whether that is the present.
    pub(crate) complete: bool,
}

#[derive(Debug)]
pub(super) struct History {
    bounds: HistoryBounds,
    // Everything after this revision is remembered.
    oldest: Revision,
    newest: Revision,
    past: VecDeque<Changes>,
    bytes: usize,
}

impl History {
    pub(super) fn new(revision: Revision, bounds: HistoryBounds) -> Self {
        Self {
            bounds,
            oldest: revision,
            newest: revision,
            past: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, changes: Changes) {
        self.newest = changes.revision;
        self.bytes += weight(&changes);
        self.past.push_back(changes);
        while self.past.len() > self.bounds.revisions || self.bytes > self.bounds.bytes {
            let Some(gone) = self.past.pop_front() else {
                break;
            };
            self.bytes -= weight(&gone);
            self.oldest = gone.revision;
        }
    }

    pub(super) fn forget(&mut self) {
        self.past.clear();
        self.bytes = 0;
        self.oldest = self.newest;
    }

    /// A revision that never was is treated like one that is dropped: a caller
    /// that has it has read another store, and has to list this one.
    pub(super) fn after(&self, after: Revision, prefix: &str) -> Result<HistorySlice, StoreError> {
        if after < self.oldest || after > self.newest {
            return Err(StoreError::Compacted {
                oldest: self.oldest,
            });
        }
        let from = self.past.partition_point(|it| it.revision <= after);
        let part: Vec<_> = self
            .past
            .range(from..)
            .take(MAX_REVISIONS_PER_LOCK)
            .collect();
        let complete = from + part.len() == self.past.len();
        let upto = match part.last() {
            Some(last) if !complete => last.revision,
            _ => self.newest,
        };
        let changes = part.into_iter().filter_map(|it| about(it, prefix));
        Ok(HistorySlice {
            changes: changes.collect(),
            upto,
            complete,
        })
    }
}

/// The part of it that is about a prefix.
fn about(changes: &Changes, prefix: &str) -> Option<Changes> {
    // Sorted by key, so what has a prefix stands together.
    let begins = changes.changes.partition_point(|it| it.key() < prefix);
    let part: Vec<_> = changes.changes[begins..]
        .iter()
        .take_while(|it| it.key().starts_with(prefix))
        .cloned()
        .collect();
    (!part.is_empty()).then_some(Changes {
        revision: changes.revision,
        changes: part,
    })
}

fn weight(changes: &Changes) -> usize {
    let each = changes.changes.iter().map(|change| match change {
        Change::Put(entry) => entry.key.len() + entry.value.len(),
        Change::Deleted { key } => key.len(),
    });
    each.sum()
}

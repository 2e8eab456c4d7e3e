//! Which operations may run: pure policy.
//!
//! In order of creation. An operation begins when none of its claims conflicts
//! with one that is held, nor with one of an operation that came before and
//! still waits: a later operation never overtakes an earlier one that it
//! conflicts with. What holds claims already, because it was interrupted, goes
//! before what has not begun.

use std::collections::{BTreeMap, HashMap};

use strata_store::Revision;

use crate::claim::Mode;
use crate::{Claim, OperationId};

/// The operations that wait, hold claims or run, each in one place.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<Key, Vec<Claim>>,
    holding: BTreeMap<Key, Held>,
    running: BTreeMap<Key, Vec<Claim>>,
    created: HashMap<OperationId, Revision>,
    /// Nothing changed since no operation was found that can begin.
    settled: bool,
}

/// In order of creation.
type Key = (Revision, OperationId);

#[derive(Debug)]
struct Held {
    claims: Vec<Claim>,
    ready: bool,
}

impl Queue {
    /// It waits its turn. Nothing changes for one that runs.
    pub(crate) fn wait(&mut self, id: OperationId, created: Revision, claims: &[Claim]) {
        if let Some(key) = self.place(id, created) {
            self.waiting.insert(key, claims.to_vec());
        }
    }

    /// It holds its claims without running. It goes on if it is `ready`.
    /// Nothing changes for one that runs.
    pub(crate) fn hold(
        &mut self,
        id: OperationId,
        created: Revision,
        claims: &[Claim],
        ready: bool,
    ) {
        if let Some(key) = self.place(id, created) {
            let claims = claims.to_vec();
            self.holding.insert(key, Held { claims, ready });
        }
    }

    /// Takes it from where it was. `None` if it runs.
    fn place(&mut self, id: OperationId, created: Revision) -> Option<Key> {
        if self.is_running(id) {
            return None;
        }
        self.remove(id);
        self.created.insert(id, created);
        Some((created, id))
    }

    /// One that holds its claims goes on when there is room.
    pub(crate) fn make_ready(&mut self, id: OperationId) {
        let Some(key) = self.key(id) else { return };
        if let Some(held) = self.holding.get_mut(&key) {
            held.ready = true;
            self.settled = false;
        }
    }

    /// It neither waits nor holds anything. Nothing changes for one that runs.
    pub(crate) fn remove(&mut self, id: OperationId) {
        self.settled = false;
        let Some(key) = self.key(id) else { return };
        if !self.running.contains_key(&key) {
            self.waiting.remove(&key);
            self.holding.remove(&key);
            self.created.remove(&id);
        }
    }

    /// It does not run any more, but holds what it held until the caller
    /// reports where it stands now.
    pub(crate) fn stopped(&mut self, id: OperationId) {
        self.settled = false;
        let Some(key) = self.key(id) else { return };
        if let Some(claims) = self.running.remove(&key) {
            let ready = false;
            self.holding.insert(key, Held { claims, ready });
        }
    }

    pub(crate) fn is_running(&self, id: OperationId) -> bool {
        self.key(id)
            .is_some_and(|key| self.running.contains_key(&key))
    }

    /// The next to run, which then runs, if no more than `most` do.
    pub(crate) fn next(&mut self, most: usize) -> Option<OperationId> {
        if self.settled || self.running.len() >= most {
            return None;
        }
        let Some((key, claims)) = self.interrupted().or_else(|| self.first_free()) else {
            self.settled = true;
            return None;
        };
        self.running.insert(key, claims);
        Some(key.1)
    }

    fn interrupted(&mut self) -> Option<(Key, Vec<Claim>)> {
        let mut holding = self.holding.iter();
        let key = *holding.find(|(_, held)| held.ready)?.0;
        let held = self.holding.remove(&key)?;
        Some((key, held.claims))
    }

    fn first_free(&mut self) -> Option<(Key, Vec<Claim>)> {
        let mut taken = HashMap::new();
        let held = self.holding.values().map(|held| &held.claims);
        for claims in held.chain(self.running.values()) {
            take(&mut taken, claims);
        }
        let mut waiting = self.waiting.iter();
        let first = waiting.find_map(|(key, claims)| {
            let free = is_free(&taken, claims);
            take(&mut taken, claims);
            free.then_some(*key)
        });
        self.waiting.remove_entry(&first?)
    }

    pub(crate) fn ids(&self) -> Vec<OperationId> {
        self.created.keys().copied().collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn key(&self, id: OperationId) -> Option<Key> {
        self.created.get(&id).map(|created| (*created, id))
    }
}

fn take<'a>(taken: &mut HashMap<&'a str, Mode>, claims: &'a [Claim]) {
    for claim in claims {
        let mode = taken.entry(&claim.key).or_insert(claim.mode);
        if claim.mode == Mode::Exclusive {
            *mode = Mode::Exclusive;
        }
    }
}

fn is_free(taken: &HashMap<&str, Mode>, claims: &[Claim]) -> bool {
    claims.iter().all(|claim| match taken.get(&*claim.key) {
        None => true,
        Some(mode) => *mode == Mode::Shared && claim.mode == Mode::Shared,
    })
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

//! Who may run: pure policy.
//!
//! In order of creation. An operation begins when none of its claims
//! conflicts with one that is held, nor with one of an operation that came
//! before and still waits: whoever came first is never overtaken by what is
//! in its way. What holds claims already, because it was interrupted, goes
//! before what has not begun.

use std::collections::{BTreeMap, HashMap};

use strata_store::Revision;

use crate::claim::Mode;
use crate::{Claim, OperationId};

/// The operations that wait, hold claims or run.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    places: BTreeMap<(Revision, OperationId), Place>,
    created: HashMap<OperationId, Revision>,
    running: usize,
}

#[derive(Debug)]
struct Place {
    claims: Vec<Claim>,
    stands: Stands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Waiting,
    Holding { ready: bool },
    Running,
}

impl Queue {
    /// It waits its turn. Nothing changes for one that runs.
    pub(crate) fn wait(&mut self, id: OperationId, created: Revision, claims: &[Claim]) {
        self.put(id, created, claims, Stands::Waiting);
    }

    /// It holds its claims without running. It goes on if it is `ready`.
    pub(crate) fn hold(
        &mut self,
        id: OperationId,
        created: Revision,
        claims: &[Claim],
        ready: bool,
    ) {
        self.put(id, created, claims, Stands::Holding { ready });
    }

    fn put(&mut self, id: OperationId, created: Revision, claims: &[Claim], stands: Stands) {
        if self.is_running(id) {
            return;
        }
        let claims = claims.to_vec();
        self.created.insert(id, created);
        self.places.insert((created, id), Place { claims, stands });
    }

    /// One that holds its claims goes on when there is room.
    pub(crate) fn make_ready(&mut self, id: OperationId) {
        if let Some(place) = self.place(id)
            && let Stands::Holding { ready } = &mut place.stands
        {
            *ready = true;
        }
    }

    /// It neither waits nor holds anything. Nothing changes for one that runs.
    pub(crate) fn remove(&mut self, id: OperationId) {
        if !self.is_running(id)
            && let Some(created) = self.created.remove(&id)
        {
            self.places.remove(&(created, id));
        }
    }

    /// It does not run any more; whoever calls says where it stands now.
    pub(crate) fn stopped(&mut self, id: OperationId) {
        if let Some(place) = self.place(id)
            && place.stands == Stands::Running
        {
            place.stands = Stands::Holding { ready: false };
            self.running -= 1;
        }
    }

    pub(crate) fn is_running(&self, id: OperationId) -> bool {
        let created = self.created.get(&id);
        let place = created.and_then(|created| self.places.get(&(*created, id)));
        place.is_some_and(|place| place.stands == Stands::Running)
    }

    /// The next to run, which then runs, if no more than `most` do.
    pub(crate) fn next(&mut self, most: usize) -> Option<OperationId> {
        if self.running >= most {
            return None;
        }
        let key = self.interrupted().or_else(|| self.first_free())?;
        self.places.get_mut(&key)?.stands = Stands::Running;
        self.running += 1;
        Some(key.1)
    }

    fn interrupted(&self) -> Option<(Revision, OperationId)> {
        let ready = Stands::Holding { ready: true };
        let mut places = self.places.iter();
        places.find_map(|(key, place)| (place.stands == ready).then_some(*key))
    }

    fn first_free(&self) -> Option<(Revision, OperationId)> {
        let mut taken = HashMap::new();
        for place in self.places.values() {
            if place.stands != Stands::Waiting {
                take(&mut taken, &place.claims);
            }
        }
        for (key, place) in &self.places {
            if place.stands != Stands::Waiting {
                continue;
            }
            if is_free(&taken, &place.claims) {
                return Some(*key);
            }
            take(&mut taken, &place.claims);
        }
        None
    }

    /// All operations here.
    pub(crate) fn ids(&self) -> Vec<OperationId> {
        self.places.keys().map(|(_, id)| *id).collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn waiting(&self) -> usize {
        let waiting = |place: &&Place| place.stands == Stands::Waiting;
        self.places.values().filter(waiting).count()
    }

    fn place(&mut self, id: OperationId) -> Option<&mut Place> {
        let created = self.created.get(&id)?;
        self.places.get_mut(&(*created, id))
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

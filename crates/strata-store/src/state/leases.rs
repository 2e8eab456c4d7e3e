//! Leases as data: how long each lasts, when it ends, what goes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{LeaseId, StoreError};

#[derive(Debug)]
struct Lease {
    ttl: Duration,
    ends: Duration,
    keys: BTreeSet<String>,
    ending: bool,
}

#[derive(Debug, Default)]
pub(super) struct Leases {
    all: BTreeMap<LeaseId, Lease>,
    // The same leases, the next to end first.
    ends: BTreeSet<(Duration, LeaseId)>,
    last: i64,
}

impl Leases {
    /// The name of the lease that was granted last, ever.
    pub(super) fn last(&self) -> LeaseId {
        LeaseId(self.last)
    }

    /// Names up to this one are taken.
    pub(super) fn note(&mut self, lease: LeaseId) {
        self.last = self.last.max(lease.0);
    }

    pub(super) fn grant(&mut self, lease: LeaseId, ttl: Duration, now: Duration) {
        self.note(lease);
        let ends = now + ttl;
        self.ends.insert((ends, lease));
        self.all.insert(
            lease,
            Lease {
                ttl,
                ends,
                keys: BTreeSet::new(),
                ending: false,
            },
        );
    }

    pub(super) fn has(&self, lease: LeaseId) -> bool {
        self.all.contains_key(&lease)
    }

    pub(super) fn are(&self, leases: &BTreeMap<LeaseId, Duration>) -> bool {
        self.all.keys().eq(leases.keys())
    }

    pub(super) fn keys(&self, lease: LeaseId) -> impl Iterator<Item = &String> {
        self.all.get(&lease).into_iter().flat_map(|it| &it.keys)
    }

    pub(super) fn bind(&mut self, key: &str, lease: Option<LeaseId>) {
        if let Some(lease) = lease.and_then(|id| self.all.get_mut(&id)) {
            lease.keys.insert(key.to_owned());
        }
    }

    pub(super) fn unbind(&mut self, key: &str, lease: Option<LeaseId>) {
        if let Some(lease) = lease.and_then(|id| self.all.get_mut(&id)) {
            lease.keys.remove(key);
        }
    }

    pub(super) fn keep_alive(&mut self, id: LeaseId, now: Duration) -> Result<(), StoreError> {
        match self.all.get_mut(&id) {
            // A lease whose time is over has ended, even if it is not removed
            // yet.
            Some(lease) if !lease.ending && lease.ends > now => {
                self.ends.remove(&(lease.ends, id));
                lease.ends = now + lease.ttl;
                self.ends.insert((lease.ends, id));
                Ok(())
            }
            _ => Err(StoreError::NoSuchLease(id)),
        }
    }

    pub(super) fn set_ending(&mut self, id: LeaseId, ending: bool) {
        if let Some(lease) = self.all.get_mut(&id) {
            lease.ending = ending;
        }
    }

    pub(super) fn end(&mut self, id: LeaseId) {
        if let Some(lease) = self.all.remove(&id) {
            self.ends.remove(&(lease.ends, id));
        }
    }

    pub(super) fn ends(&self, id: LeaseId) -> Option<Duration> {
        self.all.get(&id).map(|lease| lease.ends)
    }

    pub(super) fn next_end(&self) -> Option<Duration> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    pub(super) fn expired(&self, now: Duration) -> Vec<LeaseId> {
        self.ends
            .iter()
            .take_while(|(ends, _)| *ends <= now)
            .map(|(_, lease)| *lease)
            .collect()
    }
}

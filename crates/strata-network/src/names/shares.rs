//! How much of a resolver all pods, one project and one pod may have at once:
//! what one of them keeps busy, the others still find room.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places that are counted by holder.
#[derive(Debug)]
pub(super) struct Shares {
    all: usize,
    of_source: usize,
    of_project: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    sources: HashMap<IpAddr, usize>,
    projects: HashMap<String, usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    source: IpAddr,
    project: Option<String>,
}

impl Shares {
    /// An eighth of all for one source, and half for one project.
    pub(super) fn of(all: usize) -> Arc<Self> {
        Arc::new(Self {
            all,
            of_source: all / 8,
            of_project: all / 2,
            taken: Mutex::default(),
        })
    }

    /// A place for a source of a project; none where it has its share, or where
    /// all are taken.
    pub(super) fn take(self: &Arc<Self>, source: IpAddr, project: Option<String>) -> Option<Share> {
        let mut taken = self.taken();
        let has = |count: Option<&usize>| count.copied().unwrap_or(0);
        let project_has = project.as_ref().map_or(0, |p| has(taken.projects.get(p)));
        if taken.all >= self.all
            || has(taken.sources.get(&source)) >= self.of_source
            || project_has >= self.of_project
        {
            return None;
        }
        taken.all += 1;
        *taken.sources.entry(source).or_default() += 1;
        if let Some(project) = &project {
            *taken.projects.entry(project.clone()).or_default() += 1;
        }
        drop(taken);
        Some(Share {
            shares: Arc::clone(self),
            source,
            project,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.all -= 1;
        release(&mut taken.sources, &self.source);
        if let Some(project) = &self.project {
            release(&mut taken.projects, project);
        }
    }
}

/// Counts of 0 are not kept.
fn release<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_projects_leave_room_for_others() {
        let shares = Shares::of(64);
        let source = |last: u8| IpAddr::from([10, 42, 0, last]);
        let shop = || Some("shop".to_owned());
        let mut held: Vec<_> = (0..8).map(|_| shares.take(source(1), shop())).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(shares.take(source(1), shop()).is_none(), "one source");
        for last in 2..=4 {
            held.extend((0..8).map(|_| shares.take(source(last), shop())));
        }
        assert!(held.iter().all(Option::is_some));
        assert!(shares.take(source(5), shop()).is_none(), "one project");
        assert!(shares.take(source(5), Some("rival".into())).is_some());
        held.pop();
        assert!(shares.take(source(5), shop()).is_some());
        held.clear();
        let taken = shares.taken();
        assert!(taken.sources.is_empty() && taken.projects.is_empty());
        assert_eq!(taken.all, 0);
    }

    #[test]
    fn there_are_no_more_than_all() {
        let shares = Shares::of(64);
        let take = |last: u8| shares.take(IpAddr::from([10, 42, 0, last]), None);
        let mut held: Vec<_> = (0..64).map(|number| take(number / 8)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(take(100).is_none());
        held.pop();
        assert!(take(100).is_some());
    }
}

//! Users of QEMU processes: one for each virtual machine, which is no user of
//! the host, owns no file, and has the same number as its group.
//!
//! Numbers come from a range between those that distributions hand out to
//! people and their containers and those of pods with users of their own. The
//! records of virtual machines hold which machine has which, so a number is
//! free again when its machine is removed. Nodes of other data directories on
//! the same host do not know of each other: each machine begins its search at a
//! place of its own among sixteen million, and passes over numbers that some
//! process has.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_types::{Error, Result};

/// The first user of a virtual machine.
pub(crate) const FIRST_UID: u32 = 1_000_000_000;
/// How many there are.
pub(crate) const UID_COUNT: u32 = 1 << 24;

/// Which machine has which number, on this node.
#[derive(Debug, Default)]
pub(crate) struct Uids(Mutex<HashSet<u32>>);

impl Uids {
    fn guard(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a number as taken; false if it is, or is none of the range.
    pub(crate) fn take(&self, uid: u32) -> bool {
        (FIRST_UID..FIRST_UID + UID_COUNT).contains(&uid) && self.guard().insert(uid)
    }

    /// A number for the machine of this id.
    pub(crate) fn allocate(&self, id: &str) -> Result<u32> {
        self.allocate_beside(id, &in_use(Path::new("/proc")))
    }

    fn allocate_beside(&self, id: &str, others: &HashSet<u32>) -> Result<u32> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let start = (hasher.finish() % u64::from(UID_COUNT)) as u32;
        let mut taken = self.guard();
        let candidates = (0..UID_COUNT).map(|i| FIRST_UID + (start + i) % UID_COUNT);
        let free = candidates
            .filter(|uid| !others.contains(uid))
            .find(|uid| taken.insert(*uid));
        free.ok_or_else(|| Error::unavailable("every user for virtual machines is taken"))
    }

    /// The machine that had this number is gone.
    pub(crate) fn release(&self, uid: u32) {
        self.guard().remove(&uid);
    }
}

/// The users of all processes of the host.
fn in_use(proc: &Path) -> HashSet<u32> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let is_process = |name: &std::ffi::OsStr| {
        let name = name.to_str().unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
    };
    entries
        .filter(|entry| is_process(&entry.file_name()))
        .filter_map(|entry| entry.metadata().ok().map(|metadata| metadata.uid()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_machines_have_the_same_number_and_one_is_free_again_after_its_end() {
        let uids = Uids::default();
        let all: HashSet<u32> = (0..1000)
            .map(|i| {
                uids.allocate_beside(&i.to_string(), &HashSet::new())
                    .unwrap()
            })
            .collect();
        assert_eq!(all.len(), 1000);
        assert!(
            all.iter()
                .all(|uid| (FIRST_UID..FIRST_UID + UID_COUNT).contains(uid))
        );
        let again = uids.allocate_beside("7", &HashSet::new()).unwrap();
        assert!(!all.contains(&again));
        uids.release(again);
        assert_eq!(uids.allocate_beside("7", &HashSet::new()).unwrap(), again);
    }

    #[test]
    fn numbers_of_records_and_of_other_processes_are_passed_over() {
        let (first, second) = (Uids::default(), Uids::default());
        let uid = first.allocate_beside("web", &HashSet::new()).unwrap();
        assert!(second.take(uid) && !second.take(uid));
        let next = second.allocate_beside("web", &HashSet::new()).unwrap();
        assert_ne!(next, uid);
        let others = HashSet::from([uid]);
        assert_eq!(
            Uids::default().allocate_beside("web", &others).unwrap(),
            next
        );
        assert!(!first.take(0) && !first.take(FIRST_UID - 1));
    }

    #[test]
    fn users_of_processes_are_found() {
        let own = rustix::process::getuid().as_raw();
        assert!(in_use(Path::new("/proc")).contains(&own));
    }
}

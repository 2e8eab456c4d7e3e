//! The processors of a nested node on cgroup v1.
//!
//! A quota of v1 binds what is below it: a group may not be given more than any
//! group above it has, and the kernel refuses the write with EINVAL. With v2 the
//! lesser of the two holds. Programs in a nested node give groups what their
//! users request, and runc fails at a container with 1.25 processors on a
//! machine with one. So a machine of whole processors gets these processors
//! alone, by a cpuset, and no quota: the groups in it may name any quota, and
//! are held all the same (decision 54).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use strata_types::{CpuLimit, CpuSet};

use super::CgroupError;

/// How often the lock is tried; without it only the balance suffers.
const LOCK_TRIES: u32 = 50;
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

/// The whole processors that a limit amounts to; none for a part of one.
pub(super) fn whole(limit: CpuLimit) -> Option<usize> {
    let whole = limit.quota_us.is_multiple_of(limit.period_us);
    let number = limit.quota_us.checked_div(limit.period_us)?;
    usize::try_from(number).ok().filter(|&n| whole && n > 0)
}

/// The processors for a machine of `number` of them: those that the fewest
/// others have. What it has already it keeps. None if it gets all there are.
fn choose(
    there: &CpuSet,
    number: usize,
    own: Option<&CpuSet>,
    others: &[CpuSet],
) -> Option<CpuSet> {
    if number >= there.cpus().count() {
        return None;
    }
    let is_kept = |own: &&CpuSet| own.cpus().count() == number;
    if let Some(own) = own.filter(is_kept) {
        return Some(own.clone());
    }
    let mut users: BTreeMap<u32, usize> = there.cpus().map(|cpu| (cpu, 0)).collect();
    for cpu in others.iter().flat_map(CpuSet::cpus) {
        users.entry(cpu).and_modify(|count| *count += 1);
    }
    let mut cpus: Vec<(usize, u32)> = users.into_iter().map(|(cpu, n)| (n, cpu)).collect();
    cpus.sort_unstable();
    let chosen: Vec<_> = cpus.iter().map(|(_, cpu)| cpu.to_string()).collect();
    CpuSet::try_from(chosen.get(..number)?.join(",")).ok()
}

/// Decides which processors the machine whose group is `path` in the hierarchy
/// of cpusets gets, and hands them to `write` while no other machine of this
/// host is decided on. It is not called for a machine that gets all there are.
pub(super) fn assign(
    mount: &Path,
    path: &Path,
    number: usize,
    write: impl FnOnce(CpuSet) -> Result<(), CgroupError>,
) -> Result<(), CgroupError> {
    let group = mount.join(path);
    let runs = path.ancestors().nth(3).map(|path| mount.join(path));
    let _lock = runs.as_deref().and_then(lock);
    let above = group.parent().unwrap_or(mount);
    let there = read(above).map_err(|source| CgroupError::Io {
        what: "read the processors of",
        path: above.to_owned(),
        source,
    })?;
    let others = machines(runs.as_deref(), path);
    match choose(&there, number, read(&group).ok().as_ref(), &others) {
        Some(cpus) => write(cpus),
        None => Ok(()),
    }
}

/// The processors of all other machines, of any data directory on this host.
fn machines(runs: Option<&Path>, path: &Path) -> Vec<CpuSet> {
    let kind = path.parent().and_then(Path::file_name);
    let (Some(runs), Some(kind)) = (runs, kind) else {
        return Vec::new();
    };
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    entries(runs)
        .flat_map(|run| entries(&run.path().join(kind)))
        .map(|machine| machine.path())
        .filter(|machine| !machine.ends_with(path))
        .filter_map(|machine| read(&machine).ok())
        .collect()
}

fn read(group: &Path) -> io::Result<CpuSet> {
    let text = fs::read_to_string(group.join("cpuset.cpus"))?;
    CpuSet::try_from(text.trim().to_owned()).map_err(io::Error::other)
}

/// The lock is released with the descriptor.
fn lock(runs: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(runs, flags, Mode::empty()).ok()?;
    for _ in 0..LOCK_TRIES {
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(dir);
        }
        std::thread::sleep(LOCK_INTERVAL);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.to_owned().try_into().unwrap()
    }

    fn chosen(there: &str, number: usize, own: Option<&str>, others: &[&str]) -> Option<String> {
        let others: Vec<_> = others.iter().map(|text| set(text)).collect();
        choose(&set(there), number, own.map(set).as_ref(), &others).map(|set| set.to_string())
    }

    #[test]
    fn machine_gets_the_processors_that_the_fewest_have() {
        assert_eq!(chosen("0-3", 1, None, &[]).unwrap(), "0");
        assert_eq!(chosen("0-3", 1, None, &["0", "1"]).unwrap(), "2");
        assert_eq!(chosen("0-3", 2, None, &["0", "2-3", "0"]).unwrap(), "1-2");
        // Those without a limit have all, and change nothing.
        assert_eq!(chosen("0-1", 1, None, &["0-1", "0", "0-1"]).unwrap(), "1");
        // One that is not there is none.
        assert_eq!(chosen("2-3", 1, None, &["2", "0", "9"]).unwrap(), "3");
    }

    #[test]
    fn machine_keeps_its_processors_and_needs_none_chosen_if_it_gets_all() {
        assert_eq!(chosen("0-3", 1, Some("0"), &["0", "0"]).unwrap(), "0");
        // A new group has those of the group above.
        assert_eq!(chosen("0-3", 1, Some("0-3"), &["0"]).unwrap(), "1");
        assert_eq!(chosen("0-1", 2, None, &["0"]), None);
        assert_eq!(chosen("0-1", 8, Some("0-1"), &[]), None);
    }

    #[test]
    fn only_whole_processors_are_a_number_of_them() {
        let of = |quota_us| {
            whole(CpuLimit {
                quota_us,
                period_us: 100_000,
            })
        };
        assert_eq!(of(100_000), Some(1));
        assert_eq!(of(300_000), Some(3));
        assert_eq!((of(70_000), of(150_000), of(0)), (None, None, None));
    }

    #[test]
    fn machines_of_other_data_directories_are_counted() {
        let mount = tempfile::tempdir().unwrap();
        let group = |path: &str, cpus: &str| {
            let dir = mount.path().join(path);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("cpuset.cpus"), cpus).unwrap();
        };
        group("strata/a/_machines", "0-1\n");
        group("strata/a/_machines/new", "0-1\n");
        group("strata/b/_machines/old", "0\n");
        group("strata/b/web", "1\n");
        let path = Path::new("strata/a/_machines/new");
        let mut chosen = None;
        let note = |cpus: CpuSet| {
            chosen = Some(cpus.to_string());
            Ok(())
        };
        assign(mount.path(), path, 1, note).unwrap();
        assert_eq!(chosen.unwrap(), "1");
        let never = |_: CpuSet| panic!("chosen from what cannot be read");
        assign(mount.path(), Path::new("strata/c/_machines/x"), 1, never).unwrap_err();
    }
}

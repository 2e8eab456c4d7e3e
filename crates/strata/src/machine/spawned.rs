//! A machine inside a machine. There is no kernel of its own to leave things
//! unmounted, but its view of processes and of control groups begins with
//! this very process, so it mounts both itself.
//!
//! On cgroup v2 only leaves hold processes: this one moves into a leaf of its
//! own, so that groups can be made beside it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use super::say;

const CGROUPS: &str = "/sys/fs/cgroup";
/// The leaf of PID 1 and the daemon. No group of a run has this name.
const LEAF: &str = "_init";

/// The hierarchies in which this process was given a place of its own, where
/// it is the PID 1 of such a machine.
pub(super) fn hierarchies() -> Option<String> {
    std::env::var(strata_node::SPAWNED).ok()
}

/// Mounts what shows this machine and nothing of the one around it.
pub(super) fn prepare(hierarchies: &str) {
    let complain = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            say(&format!("cannot mount {what}: {error}"));
        }
    };
    complain("/proc", fresh_proc());
    complain("/ for all to share", shared());
    let cgroups = match hierarchies {
        strata_node::SPAWNED_V2 => unified(),
        controllers => fs::read_to_string("/proc/self/cgroup")
            .and_then(|known| apart(&mounts(&known, controllers))),
    };
    complain(CGROUPS, cgroups);
}

fn flags() -> MountFlags {
    MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC
}

/// The `/proc` that is there shows the processes around.
fn fresh_proc() -> io::Result<()> {
    mount("proc", "/proc", "proc", flags(), None)?;
    Ok(())
}

/// As on any machine: what is mounted is visible to the processes inside that
/// need it.
fn shared() -> io::Result<()> {
    let all = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    mount_change("/", all)?;
    Ok(())
}

fn unified() -> io::Result<()> {
    mount("cgroup2", CGROUPS, "cgroup2", flags(), None)?;
    let leaf = Path::new(CGROUPS).join(LEAF);
    fs::create_dir_all(&leaf)?;
    fs::write(leaf.join("cgroup.procs"), "0")
}

fn apart(mounts: &[String]) -> io::Result<()> {
    mount(
        "tmpfs",
        CGROUPS,
        "tmpfs",
        flags(),
        Some(c"mode=0755,size=1m"),
    )?;
    for controllers in mounts {
        let directory = Path::new(CGROUPS).join(controllers);
        fs::create_dir(&directory)?;
        let options = std::ffi::CString::new(controllers.as_str())?;
        mount("cgroup", &directory, "cgroup", flags(), options.as_c_str())?;
        if controllers.contains(',') {
            for controller in controllers.split(',') {
                symlink(controllers, Path::new(CGROUPS).join(controller))?;
            }
        }
    }
    Ok(())
}

/// The hierarchies of this process, each by its controllers, all of which are
/// among the given ones: in any other it is where the host is.
fn mounts(known: &str, given: &str) -> Vec<String> {
    let is_given = |controller: &str| given.split(',').any(|known| known == controller);
    known
        .lines()
        .filter_map(|line| line.split(':').nth(1))
        .filter(|controllers| controllers.split(',').all(is_given))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hierarchies_with_a_place_of_ones_own_are_mounted() {
        let known = "\
9:name=systemd:/
8:pids:/
5:devices:/
4:memory:/
1:cpu,cpuacct:/
0::/
";
        let given = "cpu,cpuacct,memory,pids";
        assert_eq!(mounts(known, given), ["pids", "memory", "cpu,cpuacct"]);
        assert!(mounts(known, "cpu").is_empty());
        assert!(mounts("", given).is_empty());
    }
}

//! The daemon is killed before each of its calls in turn; the process that
//! opens the roots next finds each of them whole or absent, and no mount or
//! device.

use std::path::{Path, PathBuf};
use std::process::Command;

use strata_rootfs::{RootOptions, Roots};

use crate::world::{World, names};

const DIR: &str = "STRATA_ROOTFS_VICTIM_FOLDER";
/// What changes something, or releases something. The question mark is for
/// machines that do not have the call.
const CALLS: [&str; 16] = [
    "?mkdir",
    "mkdirat",
    "?rename",
    "?renameat",
    "renameat2",
    "unlinkat",
    "ioctl",
    "flock",
    "ftruncate",
    "copy_file_range",
    "?chmod",
    "fsopen",
    "fsconfig",
    "fsmount",
    "close",
    "execve",
];
/// More than one life of a root has of any call.
const MOST: usize = 500;

/// Not a test: the process that is killed.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let roots = Roots::open(&dir.join("roots")).unwrap();
    for (id, disk) in [("plain", None), ("limited", Some(8_000_000))] {
        roots.create(id, disk).unwrap();
        drop(roots.mount(id, &[], RootOptions::default()).unwrap());
        roots.remove(id).unwrap();
    }
}

/// Whether the victim lives to its end, or is killed before this call.
fn survives(call: &str, time: usize, dir: &Path) -> bool {
    let program = std::env::current_exe().unwrap();
    let trace = format!("trace={call}");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &trace])
        .args(["-e", &format!("inject={call}:signal=KILL:when={time}")])
        .arg(program)
        .args(["--exact", "crash::victim", "--test-threads=1", "-q"])
        .env(DIR, dir)
        .output()
        .unwrap();
    output.status.success()
}

#[test]
fn a_death_at_any_call_leaves_nothing_that_is_not_found_again() {
    let world = World::new();
    let mut deaths = 0;
    for call in CALLS {
        // Formatting is part of it, each time.
        let _ = std::fs::remove_dir_all(world.path("roots/.templates"));
        for time in 1..MOST {
            let survived = survives(call, time, &world.path(""));
            world.is_clean();
            let roots = world.roots();
            for id in roots.list().unwrap() {
                drop(roots.mount(&id, &[], RootOptions::default()).unwrap());
                roots.remove(&id).unwrap();
            }
            for dir in [".tmp", ".gone"] {
                let left = names(&world.path("roots").join(dir));
                assert_eq!(left, [""; 0], "{call} {time}");
            }
            if survived {
                break;
            }
            deaths += 1;
        }
    }
    // It was killed in the middle of things, not only at the beginning.
    assert!(deaths > 100, "only {deaths} deaths");
    println!("{deaths} deaths");
}

//! What is known of the machine, and how it is found out: from files under a
//! root, so that a test can make up a machine in a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use strata_network::NetworkFacts;
use strata_rootfs::{DiskLimits, lack_of_id_maps};

/// The programs that are looked for.
const PROGRAMS: [&str; 2] = ["qemu-system-x86_64", "qemu-system-aarch64"];

/// Facts about the host; unknown facts are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// Of this process, effective.
    pub(super) uid: Option<u32>,
    /// Of this process, effective, as bits.
    pub(super) capabilities: Option<u64>,
    /// As `uname -r` says it.
    pub(super) kernel: Option<String>,
    pub(super) cgroups: Cgroups,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) filesystems: BTreeSet<String>,
    pub(super) kvm: Device,
    /// Whether the cpu shows what kvm needs; none where it does not say.
    pub(super) virtualization: Option<bool>,
    pub(super) programs: BTreeSet<String>,
    pub(super) inotify_instances: Option<u64>,
    pub(super) inotify_watches: Option<u64>,
    /// The hard limit of open files.
    pub(super) open_files: Option<u64>,
    pub(super) disk: Option<Disk>,
    /// How pods are held to a disk limit.
    pub(super) disk_limits: Option<DiskLimits>,
    /// Why pods cannot have user namespaces; none where they can.
    pub(super) lack_of_id_maps: Option<String>,
    pub(super) network: Option<NetworkFacts>,
    /// The version of Landlock; none without it.
    pub(super) landlock: Option<u32>,
}

/// Which controllers are where.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cgroups {
    /// Each controller of v1 and where its hierarchy is mounted.
    pub(super) v1: BTreeMap<String, PathBuf>,
    /// Where v2 is mounted, and its controllers.
    pub(super) v2: Option<(PathBuf, BTreeSet<String>)>,
}

/// A device file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Device {
    #[default]
    Absent,
    /// It is there and cannot be opened.
    Closed,
    Open,
}

/// The space where the data directory is or would be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Disk {
    pub(super) path: PathBuf,
    pub(super) free: u64,
}

/// Looks at the machine whose files are under `root`.
pub(super) fn gather(root: &Path, path: &str, data_dir: &Path) -> Facts {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let number = |name: &str| read(name).trim().parse().ok();
    let status = read("proc/self/status");
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let kernel = read("proc/sys/kernel/osrelease").trim().to_owned();
    Facts {
        // Real, effective, saved, filesystem.
        uid: field("Uid").and_then(|uids| uids.split_whitespace().nth(1)?.parse().ok()),
        capabilities: field("CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok()),
        kernel: (!kernel.is_empty()).then_some(kernel),
        cgroups: cgroups(root, &read("proc/self/mountinfo")),
        namespaces: names_in(&root.join("proc/self/ns")),
        filesystems: read("proc/filesystems")
            .lines()
            .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
            .collect(),
        kvm: device(&root.join("dev/kvm")),
        virtualization: virtualization(&read("proc/cpuinfo")),
        programs: programs(root, path),
        inotify_instances: number("proc/sys/fs/inotify/max_user_instances"),
        inotify_watches: number("proc/sys/fs/inotify/max_user_watches"),
        open_files: open_files(&read("proc/self/limits")),
        disk: disk(data_dir),
        disk_limits: disk(data_dir).and_then(|disk| DiskLimits::of(&disk.path).ok()),
        lack_of_id_maps: disk(data_dir).and_then(|disk| lack_of_id_maps(&disk.path)),
        network: (root == Path::new("/")).then(strata_network::facts),
        landlock: match root == Path::new("/") {
            true => strata_cell::landlock_version(),
            false => None,
        },
    }
}

/// Reads mount points and controllers from `/proc/self/mountinfo`.
fn cgroups(root: &Path, mountinfo: &str) -> Cgroups {
    const CONTROLLERS: [&str; 12] = [
        "cpu",
        "cpuacct",
        "cpuset",
        "memory",
        "devices",
        "freezer",
        "blkio",
        "pids",
        "hugetlb",
        "net_cls",
        "net_prio",
        "perf_event",
    ];
    let mut found = Cgroups::default();
    for line in mountinfo.lines() {
        // id parent major:minor root MOUNT options [optional…] - TYPE source OPTIONS
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let Some(mount) = before.split(' ').nth(4).map(PathBuf::from) else {
            continue;
        };
        let mut after = after.split(' ');
        match (after.next(), after.nth(1)) {
            (Some("cgroup"), Some(options)) => {
                let controllers = options.split(',').filter(|o| CONTROLLERS.contains(o));
                for controller in controllers {
                    found.v1.insert(controller.to_owned(), mount.clone());
                }
            }
            (Some("cgroup2"), _) => {
                let inside = mount.strip_prefix("/").unwrap_or(&mount);
                let file = root.join(inside).join("cgroup.controllers");
                let text = fs::read_to_string(file).unwrap_or_default();
                let controllers = text.split_whitespace().map(str::to_owned).collect();
                found.v2 = Some((mount, controllers));
            }
            _ => {}
        }
    }
    found
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn device(path: &Path) -> Device {
    if !path.exists() {
        return Device::Absent;
    }
    match fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Device::Open,
        Err(_) => Device::Closed,
    }
}

/// Only x86 lists it among its flags.
fn virtualization(cpuinfo: &str) -> Option<bool> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let mut flags = line.split_whitespace();
    Some(flags.any(|flag| flag == "vmx" || flag == "svm"))
}

fn programs(root: &Path, path: &str) -> BTreeSet<String> {
    let directories: Vec<PathBuf> = std::env::split_paths(path)
        .map(|directory| root.join(directory.strip_prefix("/").unwrap_or(&directory)))
        .collect();
    PROGRAMS
        .into_iter()
        .filter(|program| {
            directories
                .iter()
                .any(|directory| directory.join(program).is_file())
        })
        .map(str::to_owned)
        .collect()
}

/// The hard limit out of `/proc/self/limits`.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The space at the data directory, or where it would be made.
fn disk(data_dir: &Path) -> Option<Disk> {
    let path = data_dir.ancestors().find(|path| path.exists())?;
    let space = rustix::fs::statvfs(path).ok()?;
    Some(Disk {
        path: path.to_owned(),
        free: space.f_bavail.saturating_mul(space.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let root = machine(&[
            (
                "proc/self/status",
                "Name:\tx\nUid:\t1000\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
            ),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            (
                "proc/self/mountinfo",
                "30 24 0:26 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                 31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                 garbage\n",
            ),
            ("sys/fs/cgroup/unified/cgroup.controllers", "memory pids\n"),
            ("proc/self/ns/pid", ""),
            ("proc/filesystems", "nodev\tsysfs\n\tbtrfs\n"),
            ("proc/sys/fs/inotify/max_user_watches", "65536\n"),
            (
                "proc/self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n",
            ),
            ("usr/sbin/qemu-system-x86_64", ""),
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu svm nx\n"),
            ("dev/kvm", ""),
        ]);
        let facts = gather(root.path(), "/bin:/usr/sbin", root.path());
        assert_eq!(facts.uid, Some(0));
        assert_eq!(facts.capabilities, Some(0x1ff_ffff_ffff));
        assert_eq!(facts.kernel.as_deref(), Some("6.1.0-18-amd64"));
        assert_eq!(
            facts.cgroups.v1.keys().collect::<Vec<_>>(),
            ["cpu", "cpuacct"]
        );
        let (mount, controllers) = facts.cgroups.v2.unwrap();
        assert_eq!(mount, Path::new("/sys/fs/cgroup/unified"));
        assert!(controllers.contains("pids"));
        assert!(facts.filesystems.contains("btrfs"));
        assert!(facts.namespaces.contains("pid"));
        assert_eq!(facts.open_files, Some(524_288));
        assert_eq!(facts.inotify_watches, Some(65_536));
        assert_eq!(facts.inotify_instances, None);
        assert_eq!(facts.kvm, Device::Open);
        assert_eq!(facts.virtualization, Some(true));
        assert!(facts.programs.contains("qemu-system-x86_64"));
        assert!(facts.disk.is_some());
    }

    #[test]
    fn an_empty_machine_is_no_surprise() {
        let root = machine(&[]);
        let facts = gather(root.path(), "", Path::new("/nonexistent/data"));
        assert_eq!(
            facts.disk.as_ref().map(|disk| disk.path.as_path()),
            Some(Path::new("/"))
        );
        let expected = Facts {
            disk: facts.disk.clone(),
            disk_limits: facts.disk_limits.clone(),
            lack_of_id_maps: facts.lack_of_id_maps.clone(),
            ..Facts::default()
        };
        assert_eq!(facts, expected);
    }
}

//! One control group: made, limited, joined, measured, taken away. All of it
//! can be repeated: what is there already is no error, what is gone neither.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use strata_types::{CellSpec, DeviceRef, IdMap, IoLimit, RootMode};

use super::fence;
use super::kill::kill_members;
use super::run::RunGroup;
use super::usage::Usage;
use super::{CgroupEntry, CgroupError, CgroupSetting, Hierarchy, Unsupported, processors, v1, v2};

/// The group of a cell, or of the whole run.
#[derive(Clone, Debug)]
pub struct Cgroup {
    hierarchy: Hierarchy,
    /// Relative to each mount point.
    path: PathBuf,
    /// In every hierarchy, cpusets too.
    whole: bool,
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    move |source| CgroupError::Io { what, path, source }
}

impl Cgroup {
    pub(super) fn new(hierarchy: Hierarchy, path: PathBuf, whole: bool) -> Self {
        Self {
            hierarchy,
            path,
            whole,
        }
    }

    /// Makes the group without limits.
    pub fn create_plain(&self) -> Result<(), CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => {
                for (_, mount) in mounts
                    .iter()
                    .filter(|(controller, _)| *controller != "cpuset")
                {
                    make(&mount.join(&self.path))?;
                }
                Ok(())
            }
            Hierarchy::V2(mount) => {
                let mut dir = mount.clone();
                hand_down(&dir)?;
                for part in &self.path {
                    dir.push(part);
                    make(&dir)?;
                    hand_down(&dir)?;
                }
                make(&dir.join(v2::LEAF))
            }
        }
    }

    /// Makes the group with the limits of a cell.
    pub fn create(&self, spec: &CellSpec) -> Result<(), CgroupError> {
        let processors = self.processors(spec);
        let mut quota_free;
        let spec = match processors {
            Some(_) => {
                quota_free = spec.clone();
                quota_free.limits.cpu = None;
                &quota_free
            }
            None => spec,
        };
        let settings = match &self.hierarchy {
            Hierarchy::V1(_) => v1::settings(spec, device_numbers),
            Hierarchy::V2(_) => v2::settings(spec, device_numbers),
        };
        let settings = settings.map_err(CgroupError::Unsupported)?;
        self.create_plain()?;
        if self.whole || spec.limits.cpuset.is_some() {
            self.create_cpuset()?;
        } else if spec.root == RootMode::Handed {
            self.try_cpuset();
        }
        settings
            .iter()
            .try_for_each(|setting| self.apply(setting))?;
        if let Some((mount, number)) = processors {
            // One from before it was made so may have a quota still.
            self.apply(&CgroupSetting::new("cpu", "cpu.cfs_quota_us", -1))?;
            processors::assign(mount, &self.path, number, |cpus| {
                self.apply(&CgroupSetting::new("cpuset", "cpuset.cpus", cpus))
            })?;
        }
        match (&self.hierarchy, spec.id_map) {
            (Hierarchy::V2(mount), Some(map)) => delegate_members(&mount.join(&self.path), map),
            _ => Ok(()),
        }
    }

    /// How many processors a nested node gets to itself on v1, and where
    /// cpusets are mounted; none where a quota is what limits it.
    fn processors(&self, spec: &CellSpec) -> Option<(&Path, usize)> {
        let Hierarchy::V1(mounts) = &self.hierarchy else {
            return None;
        };
        let (_, mount) = mounts.iter().find(|(name, _)| *name == "cpuset")?;
        let is_machine = self.whole && spec.limits.cpuset.is_none();
        let number = spec.limits.cpu.and_then(processors::whole)?;
        is_machine.then_some((mount.as_path(), number))
    }

    fn apply(&self, setting: &CgroupSetting) -> Result<(), CgroupError> {
        let dir = self.dir_of(setting.controller).ok_or_else(|| {
            CgroupError::Unsupported(Unsupported {
                field: "cell.options",
                why: format!("this machine has no {} controller", setting.controller),
            })
        })?;
        match write(&dir.join(setting.file), &setting.value) {
            Err(error) if setting.optional && error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(CgroupError::Refused {
                file: setting.file.into(),
                value: setting.value.clone(),
                source,
            }),
            Ok(()) => Ok(()),
        }
    }

    /// A v1 cpuset is empty when it is made, and empty ones hold no process:
    /// every level takes over what the level above has.
    fn create_cpuset(&self) -> Result<(), CgroupError> {
        let Hierarchy::V1(mounts) = &self.hierarchy else {
            return Ok(());
        };
        let Some((_, mount)) = mounts
            .iter()
            .find(|(controller, _)| *controller == "cpuset")
        else {
            return Ok(());
        };
        // All levels first: an empty one may be taken away by another run.
        make(&mount.join(&self.path))?;
        let mut dir = mount.clone();
        for part in &self.path {
            let above = dir.clone();
            dir.push(part);
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let own = dir.join(file);
                let value = fs::read_to_string(&own).map_err(io_error("read", &own))?;
                if value.trim().is_empty() {
                    let above = fs::read_to_string(above.join(file)).unwrap_or_default();
                    write(&own, above.trim()).map_err(io_error("write", &own))?;
                }
            }
        }
        Ok(())
    }

    /// A cpuset for programs that only look at it: runtimes such as the JVM
    /// take no limit of v1 for one unless they find all of its hierarchies.
    /// Where there can be none, the cell does without.
    fn try_cpuset(&self) {
        if self.create_cpuset().is_err()
            && let Some(directory) = self.dir_of("cpuset")
        {
            // An empty one would hold no process.
            let _ = fs::remove_dir(directory);
        }
    }

    /// The directory in the hierarchy of one controller.
    pub(super) fn dir_of(&self, controller: &str) -> Option<PathBuf> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => mounts
                .iter()
                .find(|(name, _)| *name == controller)
                .map(|(_, mount)| mount.join(&self.path)),
            Hierarchy::V2(mount) => Some(mount.join(&self.path)),
        }
    }

    /// The directory whose members are followed: one hierarchy is enough.
    fn members_dir(&self) -> Result<PathBuf, CgroupError> {
        self.dir_of("pids").ok_or(CgroupError::Missing("pids"))
    }

    fn dirs(&self) -> Vec<PathBuf> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => {
                let mut all: Vec<_> = mounts.iter().map(|(_, m)| m.join(&self.path)).collect();
                all.dedup();
                all
            }
            Hierarchy::V2(mount) => vec![mount.join(&self.path)],
        }
    }

    /// Where it is, relative to each mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was made, and not taken away.
    pub fn exists(&self) -> bool {
        self.members_dir().is_ok_and(|dir| dir.is_dir())
    }

    /// Has the shim end everything in this group, and below it, when the lease
    /// of this node ends; or no more. The mark goes with the group.
    pub fn set_fenced(&self, fenced: bool) -> Result<(), CgroupError> {
        let dir = self.members_dir()?;
        let (path, failed) = (dir.as_path(), io_error("mark", &dir));
        let marked = match fenced {
            true => fence::mark(path),
            false => fence::unmark(path),
        };
        marked.map_err(failed)
    }

    /// Whether it is marked so.
    pub fn is_fenced(&self) -> bool {
        self.members_dir().is_ok_and(|path| fence::is_marked(&path))
    }

    /// The directory below which the shim looks for marked groups.
    pub fn open_members(&self) -> Result<OwnedFd, CgroupError> {
        let dir = self.members_dir()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&dir, flags, Mode::empty())
            .map_err(|errno| io_error("open", &dir)(errno.into()))
    }

    /// The way in for a cell's init.
    pub(crate) fn join(&self) -> rustix::io::Result<CgroupEntry> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => {
                let mut files: Vec<OwnedFd> = Vec::new();
                let mut seen: Vec<&PathBuf> = Vec::new();
                for (_, mount) in mounts {
                    let tasks = mount.join(&self.path).join("tasks");
                    if !seen.contains(&mount) && tasks.exists() {
                        seen.push(mount);
                        files.push(rustix::fs::open(
                            tasks,
                            OFlags::WRONLY | OFlags::CLOEXEC,
                            Mode::empty(),
                        )?);
                    }
                }
                Ok(CgroupEntry::Tasks(files))
            }
            Hierarchy::V2(mount) => open_dir(&mount.join(&self.path).join(v2::LEAF)),
        }
    }

    /// Makes the group of one run, whose process the init of a cell with
    /// these users starts in it.
    pub fn create_run(&self, run: u64, users: Option<IdMap>) -> Result<RunGroup, CgroupError> {
        let group = self.run(run)?;
        make(group.dir())?;
        if let (Hierarchy::V2(_), Some(map)) = (&self.hierarchy, users) {
            delegate_members(group.dir(), map)?;
        }
        Ok(group)
    }

    /// The group of one run, which may be gone.
    pub fn run(&self, run: u64) -> Result<RunGroup, CgroupError> {
        Ok(RunGroup::new(
            self.members_dir()?.join(format!("_r{run}")),
            matches!(self.hierarchy, Hierarchy::V2(_)),
        ))
    }

    /// What the cell uses now.
    pub fn usage(&self) -> Usage {
        match &self.hierarchy {
            Hierarchy::V1(_) => Usage::read_v1(|controller| self.dir_of(controller)),
            Hierarchy::V2(mount) => Usage::read_v2(&mount.join(&self.path)),
        }
    }

    /// The most processes and threads the group may have, and how many it has;
    /// none where there is no limit.
    pub fn pids(&self) -> Option<(u64, u64)> {
        let dir = self.dir_of("pids")?;
        let read = |file: &str| {
            let text = fs::read_to_string(dir.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        Some((read("pids.max")?, read("pids.current")?))
    }

    /// What can be shown of the group to the processes inside, as programs
    /// expect to find it below `/sys/fs/cgroup`: a directory for each
    /// controller that shows how much they may use with v1, the group itself,
    /// under an empty name, with v2.
    pub fn shown(&self) -> Vec<(&'static str, PathBuf)> {
        const TELLING: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];
        match &self.hierarchy {
            Hierarchy::V1(mounts) => mounts
                .iter()
                .filter(|(controller, _)| TELLING.contains(controller))
                .map(|(controller, mount)| (*controller, mount.join(&self.path)))
                .collect(),
            Hierarchy::V2(mount) => vec![("", mount.join(&self.path))],
        }
    }

    /// How many processes the kernel has killed here for want of memory.
    pub fn out_of_memory_kills(&self) -> u64 {
        let file = match &self.hierarchy {
            Hierarchy::V1(_) => "memory.oom_control",
            Hierarchy::V2(_) => "memory.events",
        };
        self.dir_of("memory")
            .map_or(0, |dir| count_kills(&dir.join(file)))
    }

    /// The labels of the cells whose groups are right below.
    pub fn children(&self) -> Vec<String> {
        let dirs = self.dirs();
        let directories = dirs.iter().flat_map(|dir| subdirs(dir));
        let labels = directories.map(|directory| self.hierarchy.label_of(directory));
        let mut names: Vec<String> = labels.filter(|name| !name.starts_with('_')).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Removes the group above if it is empty.
    pub(super) fn remove_empty_parent(&self) {
        for dir in self.dirs() {
            if let Some(above) = dir.parent() {
                let _ = fs::remove_dir(above);
            }
        }
    }

    /// Ends every process here and below, then removes the group and all
    /// below it, in every hierarchy.
    pub fn remove_tree(&self) -> Result<(), CgroupError> {
        for dir in self.dirs() {
            kill_tree(&dir)?;
        }
        if let Hierarchy::V2(mount) = &self.hierarchy {
            settle_io(&mount.join(&self.path));
        }
        self.dirs().iter().try_for_each(|dir| remove_tree(dir))
    }
}

/// The line `oom_kill 3` of a file.
pub(super) fn count_kills(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    text.lines().find_map(count).unwrap_or(0)
}

/// Adds what a v2 group read and wrote to the figures of those it is in, which
/// reading its figures does. Removed without that, some kernels lose them (6.1
/// does): a cell would seem to have done nothing once its runs have ended.
pub(super) fn settle_io(dir: &Path) {
    let _ = fs::read(dir.join("io.stat"));
}

pub(super) fn open_dir(dir: &Path) -> rustix::io::Result<CgroupEntry> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(CgroupEntry::Directory(rustix::fs::open(
        dir,
        flags,
        Mode::empty(),
    )?))
}

/// Finds the numbers of a device by its path.
fn device_numbers(limit: &IoLimit) -> Result<(u32, u32), Unsupported> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let refuse = |why: String| Unsupported {
        field: "cell.options.io.device",
        why,
    };
    match &limit.device {
        DeviceRef::Number(major, minor) => Ok((*major, *minor)),
        DeviceRef::Path(path) => {
            let metadata = fs::metadata(path).map_err(|e| refuse(format!("{path:?}: {e}")))?;
            if !metadata.file_type().is_block_device() {
                return Err(refuse(format!("{path:?} is not a block device")));
            }
            let device = metadata.rdev();
            Ok((rustix::fs::major(device), rustix::fs::minor(device)))
        }
    }
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(value.as_bytes())
}

/// Makes a group and those it is in. Another run that ends removes the
/// directory above all runs when it finds it empty; then this begins again.
fn make(dir: &Path) -> Result<(), CgroupError> {
    for _ in 0..100 {
        match fs::create_dir_all(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => return done.map_err(io_error("make the cgroup", dir)),
        }
    }
    fs::create_dir_all(dir).map_err(io_error("make the cgroup", dir))
}

/// Lets the groups below a v2 group have its controllers.
fn hand_down(dir: &Path) -> Result<(), CgroupError> {
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let (has, given) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let listed = |text: &str, name: &str| text.split_whitespace().any(|word| word == name);
    let missing: Vec<String> = v2::CONTROLLERS
        .into_iter()
        .filter(|name| listed(&has, name) && !listed(&given, name))
        .map(|name| format!("+{name}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let file = dir.join("cgroup.subtree_control");
    write(&file, &missing.join(" ")).map_err(io_error("hand down controllers in", &file))
}

fn subdirs(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    // Each directory in it counts as one link; most groups have none, and a look
    // is cheaper than a list of some forty files.
    if fs::metadata(dir).is_ok_and(|metadata| metadata.nlink() == 2) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Innermost first: what is below cannot be seen from the group itself.
pub(super) fn kill_tree(dir: &Path) -> Result<(), CgroupError> {
    for name in subdirs(dir) {
        kill_tree(&dir.join(name))?;
    }
    kill_members(dir).map_err(io_error("end the processes of", dir))
}

pub(super) fn remove_tree(dir: &Path) -> Result<(), CgroupError> {
    for name in subdirs(dir) {
        remove_tree(&dir.join(name))?;
    }
    remove(dir)
}

/// Removes an empty group. A process that has just ended can hold it for a
/// moment longer; the kernel gives no sign to wait on, so this tries again.
fn remove(dir: &Path) -> Result<(), CgroupError> {
    let mut pause = std::time::Duration::from_micros(50);
    for _ in 0..16 {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                std::thread::sleep(pause);
                pause *= 2;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            done => return done.map_err(io_error("remove the cgroup", dir)),
        }
    }
    fs::remove_dir(dir).map_err(io_error("remove the cgroup", dir))
}

/// Lets root of a user namespace start processes in a v2 group: a process that
/// clones into one needs the right to write its members, there and in the
/// closest group above both. Limits stay with the host's root: only the list of
/// members is handed over.
fn delegate_members(dir: &Path, map: IdMap) -> Result<(), CgroupError> {
    let members = dir.join("cgroup.procs");
    std::os::unix::fs::chown(&members, Some(map.first), Some(map.first))
        .map_err(io_error("hand over", &members))
}

//! What one run of the product has on this machine, found by looking at the
//! machine and not by querying the product.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::netns::NetworkNamespace;
use crate::wait::{TEST_TIMEOUT, wait_for};

mod pods;

/// Where to look for one run.
#[derive(Clone, Debug)]
pub struct Host {
    data_dir: PathBuf,
    /// The name of the run on the host; none when no node ever ran.
    run: Option<String>,
    /// Where its interfaces and rules are; the network of the tests if none.
    network: Option<NetworkNamespace>,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Pid and name of every process of the run.
    pub processes: BTreeMap<i32, String>,
    /// Dead processes that one of those, or the daemon, has not reaped.
    pub zombies: BTreeMap<i32, String>,
    /// Directories in any cgroup hierarchy.
    pub cgroups: BTreeSet<PathBuf>,
    /// Mounts at or below the data directory.
    pub mounts: Vec<String>,
    /// The same in the eyes of processes that are not of the run.
    pub mounts_elsewhere: BTreeSet<String>,
    /// Network interfaces.
    pub interfaces: BTreeSet<String>,
    /// Tables of network rules.
    pub tables: BTreeSet<String>,
    /// Loop devices on files below the data directory.
    pub loop_devices: BTreeSet<String>,
    /// What is kept of pods below the data directory.
    pub kept_of_pods: BTreeSet<String>,
}

impl Traces {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is here and was not before, and what is missing, as a message.
    pub fn beyond(&self, before: &Self) -> String {
        let news: Vec<_> = self
            .processes
            .iter()
            .filter(|(pid, name)| before.processes.get(pid) != Some(name))
            .collect();
        let lost: Vec<_> = before
            .processes
            .iter()
            .filter(|(pid, name)| self.processes.get(pid) != Some(name))
            .collect();
        let groups: Vec<_> = self.cgroups.symmetric_difference(&before.cgroups).collect();
        let other = |now: &BTreeSet<String>, then: &BTreeSet<String>| -> Vec<String> {
            now.symmetric_difference(then).cloned().collect()
        };
        format!(
            "new processes {news:?}, missing {lost:?}, zombies {:?} after {:?}, groups {groups:?}, \
             mounts {:?} after {:?}, elsewhere {:?}, interfaces {:?}, tables {:?}, loop devices {:?}, of pods {:?}",
            self.zombies,
            before.zombies,
            self.mounts,
            before.mounts,
            other(&self.mounts_elsewhere, &before.mounts_elsewhere),
            other(&self.interfaces, &before.interfaces),
            other(&self.tables, &before.tables),
            other(&self.loop_devices, &before.loop_devices),
            other(&self.kept_of_pods, &before.kept_of_pods),
        )
    }
}

impl Host {
    /// The run of a data directory.
    pub fn of(data_dir: &Path) -> Self {
        let run = fs::read_to_string(data_dir.join("node/run")).ok();
        Self {
            data_dir: data_dir.to_owned(),
            run: run.map(|run| run.trim().to_owned()),
            network: None,
        }
    }

    /// With interfaces and rules in this network namespace.
    #[must_use]
    pub fn within(mut self, network: &NetworkNamespace) -> Self {
        self.network = Some(network.clone());
        self
    }

    /// Waits until what is found is what was found before. The kernel takes a
    /// moment to release dead processes.
    ///
    /// # Panics
    /// When something else stays.
    pub async fn returns_to(&self, before: &Traces) {
        wait_for("the machine to be as it was", TEST_TIMEOUT, async || {
            let now = self.look();
            (now == *before)
                .then_some(())
                .ok_or_else(|| now.beyond(before))
        })
        .await;
    }

    /// Looks until nothing changes any more: what a test returns to later must not
    /// hold what was on its way out, a zombie or a helper that has just ended.
    ///
    /// # Panics
    /// When it never comes to rest.
    pub async fn settled(&self) -> Traces {
        let mut last = self.look();
        wait_for("the host to come to rest", TEST_TIMEOUT, async || {
            let before = std::mem::replace(&mut last, self.look());
            match last == before && last.zombies.is_empty() {
                true => Ok(last.clone()),
                false => Err(last.beyond(&before)),
            }
        })
        .await
    }

    /// Looks now.
    pub fn look(&self) -> Traces {
        let all = processes();
        let ours: BTreeMap<i32, String> = all
            .iter()
            .filter(|process| !process.is_zombie && self.owns(process))
            .map(|process| (process.pid, process.name.clone()))
            .collect();
        let zombies = all
            .iter()
            .filter(|process| process.is_zombie && ours.contains_key(&process.parent))
            .map(|process| (process.pid, process.name.clone()))
            .collect();
        Traces {
            mounts_elsewhere: self.mounts_elsewhere(|pid| ours.contains_key(&pid)),
            processes: ours,
            zombies,
            cgroups: self.cgroups(),
            mounts: self.mounts(),
            interfaces: self.interfaces(),
            tables: self.tables(),
            loop_devices: self.loop_devices(),
            kept_of_pods: self.kept_of_pods(),
        }
    }

    fn owns(&self, process: &Process) -> bool {
        let in_group = |run: &String| {
            let group = format!("/strata/{run}");
            let ends = |rest: &str| rest.is_empty() || rest.starts_with('/');
            let below = |line: &str| line.split_once(&group).is_some_and(|(_, rest)| ends(rest));
            process.cgroups.lines().any(below)
        };
        let data_dir = self.data_dir.to_string_lossy();
        self.run.as_ref().is_some_and(in_group)
            || process.command.split('\0').any(|word| word == data_dir)
    }

    /// The run's directory in the hierarchy of a v1 controller, or in v2.
    pub fn cgroup(&self, controller: &str) -> PathBuf {
        let run = self.run.as_deref().expect("a node has run");
        let mounts = hierarchies();
        let mount = mounts
            .iter()
            .find(|(_, options)| options.split(',').any(|option| option == controller))
            .or_else(|| mounts.iter().find(|(_, options)| options == "cgroup2"));
        let (mount, _) = mount.unwrap_or_else(|| panic!("no hierarchy has {controller}"));
        mount.join("strata").join(run)
    }

    fn cgroups(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let Some(run) = &self.run else {
            return found;
        };
        for (mount, _) in hierarchies() {
            collect(&mount.join("strata").join(run), &mut found);
        }
        found
    }

    fn mounts(&self) -> Vec<String> {
        let data_dir = self.data_dir.to_string_lossy().into_owned();
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = text.lines().filter(|line| line.contains(&data_dir));
        ours.map(str::to_owned).collect()
    }
}

/// Every cgroup mount, with the controllers of v1 or the word `cgroup2`.
fn hierarchies() -> Vec<(PathBuf, String)> {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("mounts can be read");
    let mount = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let point = front.split(' ').nth(4)?;
        let mut back = back.split(' ');
        match (back.next()?, back.nth(1)?) {
            ("cgroup", options) => Some((point.into(), options.to_owned())),
            ("cgroup2", _) => Some((point.into(), "cgroup2".to_owned())),
            _ => None,
        }
    };
    text.lines().filter_map(mount).collect()
}

fn collect(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    found.insert(dir.to_owned());
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), found);
        }
    }
}

struct Process {
    pid: i32,
    parent: i32,
    name: String,
    is_zombie: bool,
    command: String,
    cgroups: String,
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc can be read").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn processes() -> Vec<Process> {
    pids().filter_map(process).collect()
}

/// A process, unless it ends while it is looked at.
fn process(pid: i32) -> Option<Process> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).ok();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let stat = text(read("stat")?);
    // The name stands in parentheses and may itself hold some.
    let (front, back) = stat.rsplit_once(')')?;
    let mut fields = back.split_whitespace();
    Some(Process {
        pid,
        is_zombie: fields.next()? == "Z",
        parent: fields.next()?.parse().ok()?,
        name: front.split_once('(')?.1.to_owned(),
        command: text(read("cmdline")?),
        cgroups: text(read("cgroup")?),
    })
}

/// How many files a process has open.
pub(crate) fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// What the open files of a process are.
pub(crate) fn open_file_names(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let link = |entry: fs::DirEntry| fs::read_link(entry.path()).ok();
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(link)
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// How many directories and files a process has the kernel watch for it.
pub(crate) fn watches(pid: u32) -> usize {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
        return 0;
    };
    let count = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("inotify"))
            .count()
    };
    entries.flatten().map(count).sum()
}

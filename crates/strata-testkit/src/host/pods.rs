//! What pods have on a machine: interfaces, tables of rules, loop devices,
//! mounts that some process still sees, directories below the data directory.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Host;
use crate::netns::NetworkNamespace;

impl Host {
    /// The mark of the run in names of interfaces and tables; none when no pod
    /// was ever requested.
    fn tag(&self) -> Option<&str> {
        let run = self.run.as_deref()?;
        let used = fs::read_dir(self.data_dir.join("node/network"))
            .is_ok_and(|mut entries| entries.next().is_some());
        let tag = run.get(run.len().saturating_sub(8)..)?;
        (used || self.network.is_some()).then_some(tag)
    }

    /// Interfaces of the run.
    pub(super) fn interfaces(&self) -> BTreeSet<String> {
        let Some(tag) = self.tag() else {
            return BTreeSet::new();
        };
        let prefix = format!("st-{tag}-");
        let text = lines_of(self.network.as_ref(), &["ip", "-o", "link"]);
        let names = text
            .lines()
            .filter_map(|line| line.split(": ").nth(1)?.split('@').next());
        names
            .filter(|name| name.starts_with(&prefix))
            .map(str::to_owned)
            .collect()
    }

    /// Tables of rules of the run.
    pub(super) fn tables(&self) -> BTreeSet<String> {
        let Some(tag) = self.tag() else {
            return BTreeSet::new();
        };
        let name = format!("strata-{tag}");
        let text = lines_of(self.network.as_ref(), &["nft", "list", "tables"]);
        let ours = text.lines().filter(|line| line.ends_with(&name));
        ours.map(str::to_owned).collect()
    }

    /// Loop devices whose file is below the data directory.
    pub(super) fn loop_devices(&self) -> BTreeSet<String> {
        let data_dir = self.data_dir.to_string_lossy().into_owned();
        let backed = |entry: fs::DirEntry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            file.contains(&data_dir).then_some(name)
        };
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        entries.filter_map(backed).collect()
    }

    /// Mounts of the data directory that processes see which are not of the run,
    /// each mount namespace once.
    pub(super) fn mounts_elsewhere(&self, ours: impl Fn(i32) -> bool) -> BTreeSet<String> {
        let data_dir = self.data_dir.to_string_lossy().into_owned();
        let mut seen: HashSet<PathBuf> = HashSet::new();
        seen.extend(fs::read_link("/proc/self/ns/mnt"));
        let mut found = BTreeSet::new();
        for pid in super::pids().filter(|pid| !ours(*pid)) {
            let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else {
                continue;
            };
            if !seen.insert(namespace) {
                continue;
            }
            let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
            let lines = text.lines().filter(|line| line.contains(&data_dir));
            found.extend(lines.map(|line| format!("{pid}: {line}")));
        }
        found
    }

    /// What is kept of pods below the data directory.
    pub(super) fn kept_of_pods(&self) -> BTreeSet<String> {
        let pods = self.data_dir.join("node/_pods");
        let mut found = BTreeSet::new();
        for dir in [
            "roots",
            "roots/.tmp",
            "roots/.gone",
            "files",
            "records",
            "cells",
        ] {
            for name in names_in(&pods.join(dir)) {
                // What all pods share, and names that were destroyed.
                if !name.starts_with('.') && !name.starts_with("gone") {
                    found.insert(format!("{dir}/{name}"));
                }
            }
        }
        found
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(name).collect()
}

/// What a command prints, in a network namespace or in this one; nothing
/// where it cannot be run.
fn lines_of(network: Option<&NetworkNamespace>, words: &[&str]) -> String {
    let output = match (network, words) {
        (Some(network), words) => network.command(words.iter().copied()).output(),
        (None, [program, rest @ ..]) => Command::new(program).args(rest).output(),
        (None, []) => return String::new(),
    };
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

//! What the machine has and what is used of it, read from the kernel.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use strata_api::strata::v1;

use super::assigned_spec::UnitName;
use super::host::Meter;
use super::runtime::UnitRuntime;
use crate::blocking::blocking;
use crate::nested_nodes::{SPAWNED_CPU, SPAWNED_MEMORY};
use crate::pool::NodePool;

/// The disk of an instance may take a walk to measure: that is done for each
/// in turn, once in so many looks.
const DISK_EVERY: usize = 30;
/// Differences below these are noise.
const NOTABLE_BYTES: u64 = 1_000_000;
const NOTABLE_CPU: u64 = 10;

/// What the machine has, for instances and all else.
pub(super) fn capacity(data_dir: &Path) -> v1::Amounts {
    let there = std::thread::available_parallelism().map_or(1, |n| n.get() as u64) * 1000;
    let memory = kilobytes("MemTotal:");
    let disk = rustix::fs::statvfs(data_dir).map_or(0, |fs| fs.f_blocks * fs.f_frsize);
    v1::Amounts {
        cpu: told(SPAWNED_CPU).unwrap_or(there).min(there),
        memory: told(SPAWNED_MEMORY).unwrap_or(memory).min(memory),
        disk,
    }
}

/// What the spawning node declared that this machine has; none where it is a
/// real one.
fn told(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A line of `/proc/meminfo`, in bytes.
fn kilobytes(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |line: &str| {
        let kilobytes = line.strip_prefix(key)?.trim().strip_suffix(" kB")?;
        kilobytes.parse::<u64>().ok()
    };
    text.lines().find_map(number).unwrap_or(0) * 1024
}

/// Cpu time of all cpus since the machine started: busy, and all together.
fn cpu_times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    // The time of guests is part of that of users, and not counted again.
    let all: u64 = times.iter().take(8).sum();
    let idle = times.get(3)? + times.get(4)?;
    Some((all - idle, all))
}

/// What an instance was found to use.
#[derive(Clone, Copy, Default)]
struct InstanceUsage {
    cpu_usec: u64,
    at: Option<Instant>,
    disk: u64,
    told: Option<v1::Amounts>,
}

/// Measures periodically, and remembers what it found and reported.
pub(super) struct UsageMeter {
    data_dir: PathBuf,
    unit_runtime: UnitRuntime,
    cpu: (u64, u64),
    each: HashMap<String, InstanceUsage>,
    looks: usize,
    pool: Arc<NodePool>,
    /// The id of the pool, as it was last reported.
    told_pool: Option<String>,
}

impl UsageMeter {
    pub(super) fn new(data_dir: &Path, pool: Arc<NodePool>, unit_runtime: UnitRuntime) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            unit_runtime,
            cpu: (0, 0),
            each: HashMap::new(),
            looks: 0,
            pool,
            told_pool: None,
        }
    }

    /// The pool that is reached, when it is not what was last reported.
    fn pool_to_tell(&mut self) -> Option<String> {
        let now = blocking(|| self.pool.id()).unwrap_or_default();
        if self.told_pool.as_ref() == Some(&now) {
            return None;
        }
        self.told_pool = Some(now.clone());
        Some(now)
    }

    /// What everything on the machine uses. One inside another sees figures of
    /// the one around it, and goes by its instances instead.
    fn machine(&mut self, instances: v1::Amounts) -> v1::Amounts {
        let disk = rustix::fs::statvfs(&self.data_dir)
            .map_or(0, |fs| (fs.f_blocks - fs.f_bfree) * fs.f_frsize);
        if told(SPAWNED_CPU).is_some() || told(SPAWNED_MEMORY).is_some() {
            return v1::Amounts { disk, ..instances };
        }
        let stat = blocking(|| fs::read_to_string("/proc/stat")).unwrap_or_default();
        let now = cpu_times(&stat).unwrap_or(self.cpu);
        let (busy, all) = (
            now.0.saturating_sub(self.cpu.0),
            now.1.saturating_sub(self.cpu.1),
        );
        self.cpu = now;
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        v1::Amounts {
            cpu: (busy * cpus * 1000).checked_div(all).unwrap_or(0),
            memory: kilobytes("MemTotal:").saturating_sub(kilobytes("MemAvailable:")),
            disk,
        }
    }
}

impl Meter for UsageMeter {
    /// What is used now.
    fn look(&mut self, units: &[(String, UnitName)]) -> v1::NodeLoad {
        self.looks = self.looks.wrapping_add(1);
        let mut sum = v1::Amounts::default();
        let mut each = Vec::new();
        for (place, (id, unit)) in units.iter().enumerate() {
            let walks = (self.looks + place).is_multiple_of(DISK_EVERY);
            let used = self.each.entry(id.clone()).or_default();
            let now = measure(&self.unit_runtime, unit, used, walks);
            sum.cpu += now.cpu;
            sum.memory += now.memory;
            sum.disk += now.disk;
            if used.told.is_none_or(|told| is_notable(told, now)) {
                used.told = Some(now);
                each.push(v1::InstanceLoad {
                    id: id.clone(),
                    used: Some(now),
                });
            }
        }
        if self.each.len() > units.len() {
            let known: HashSet<_> = units.iter().map(|(id, _)| id.as_str()).collect();
            self.each.retain(|id, _| known.contains(id.as_str()));
        }
        v1::NodeLoad {
            machine: Some(self.machine(sum)),
            instances: Some(sum),
            each,
            pool: self.pool_to_tell(),
        }
    }
}

fn measure(
    unit_runtime: &UnitRuntime,
    unit: &UnitName,
    used: &mut InstanceUsage,
    walks: bool,
) -> v1::Amounts {
    let usage = blocking(|| unit_runtime.usage(unit)).unwrap_or_default();
    let now = Instant::now();
    let elapsed = used.at.map_or(0, |at| now.duration_since(at).as_micros());
    let spent = usage.cpu_usec.saturating_sub(used.cpu_usec);
    let cpu = (u128::from(spent) * 1000).checked_div(elapsed).unwrap_or(0);
    let first = used.at.is_none();
    (used.cpu_usec, used.at) = (usage.cpu_usec, Some(now));
    if walks || first {
        used.disk = unit_runtime.disk(unit).unwrap_or(0);
    }
    v1::Amounts {
        cpu: u64::try_from(cpu).unwrap_or(0),
        memory: usage.memory_bytes,
        disk: used.disk,
    }
}

/// Whether a difference is worth reporting.
fn is_notable(told: v1::Amounts, now: v1::Amounts) -> bool {
    let differs = |told: u64, now: u64, least: u64| {
        let difference = told.abs_diff(now);
        difference > least || (difference > least / 16 && difference * 20 > told)
    };
    let cpu = told.cpu.abs_diff(now.cpu);
    (cpu >= NOTABLE_CPU && cpu * 20 > told.cpu)
        || differs(told.memory, now.memory, NOTABLE_BYTES)
        || differs(told.disk, now.disk, NOTABLE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu: u64, memory: u64) -> v1::Amounts {
        v1::Amounts {
            cpu,
            memory,
            disk: 0,
        }
    }

    #[test]
    fn small_usage_changes_are_not_reported() {
        let told = amounts(1000, 100_000_000);
        for (now, notable) in [
            (amounts(1000, 100_000_000), false),
            (amounts(1040, 100_900_000), false),
            (amounts(1060, 100_000_000), true),
            (amounts(1000, 101_100_000), true),
            (amounts(1000, 98_000_000), true),
        ] {
            assert_eq!(is_notable(told, now), notable, "{now:?}");
        }
        assert!(!is_notable(amounts(0, 0), amounts(9, 10_000)));
        assert!(is_notable(amounts(0, 0), amounts(0, 100_000)));
    }

    #[test]
    fn busy_time_is_all_but_idle_and_waiting() {
        let stat = "cpu  10 1 5 100 20 2 2 0 7 0\ncpu0 1 1 1 1\n";
        assert_eq!(cpu_times(stat), Some((20, 140)));
        assert_eq!(cpu_times(""), None);
        assert_eq!(cpu_times("cpu  1 2"), None);
    }

    #[test]
    fn host_capacity_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let capacity = capacity(dir.path());
        assert!(capacity.cpu >= 1000 && capacity.memory > 1 << 20 && capacity.disk > 1 << 20);
    }
}

//! From facts to findings: one small pure function for each thing that is
//! looked at.

use std::collections::BTreeSet;

use strata_network::NetworkFacts;
use strata_rootfs::DiskLimits;

use super::facts::{Device, Disk, Facts};
use super::findings::{Finding, Level};
use crate::output::human;

/// A check: name, reason, remedy.
struct Check(&'static str, &'static str, &'static str);

impl Check {
    fn ok(self, found: impl Into<String>) -> Finding {
        self.at(Level::Ok, found)
    }

    fn at(self, level: Level, found: impl Into<String>) -> Finding {
        let Self(name, why, advice) = self;
        Finding {
            name,
            level,
            found: found.into(),
            why,
            advice: (level != Level::Ok).then_some(advice),
        }
    }

    /// Fine when `good`, else as bad as `otherwise`.
    fn when(self, good: bool, otherwise: Level, found: impl Into<String>) -> Finding {
        self.at(if good { Level::Ok } else { otherwise }, found)
    }
}

/// All findings.
pub(super) fn evaluate(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![user(facts), capabilities(facts)];
    findings.extend(resource_capability(facts));
    findings.extend([kernel(facts), cgroups(facts)]);
    findings.extend(controllers(facts));
    findings.push(namespaces(facts));
    findings.extend([
        filesystem(
            facts,
            "overlay",
            Check(
                "overlayfs",
                "private roots of cells and container images use it",
                "load the kernel module overlay",
            ),
        ),
        filesystem(
            facts,
            "btrfs",
            Check(
                "btrfs",
                "the storage pool and its snapshots are btrfs",
                "load the kernel module btrfs, or use the pool on another host",
            ),
        ),
        kvm(facts),
        program(
            facts,
            "qemu-system-",
            Check(
                "qemu",
                "virtual machines require it",
                "install qemu-system, or run no VMs here",
            ),
        ),
        landlock(facts),
        inotify(facts),
        open_files(facts),
        disk(facts.disk.as_ref()),
    ]);
    findings.extend(facts.disk_limits.as_ref().map(disk_limits));
    findings.push(user_namespaces(facts.lack_of_id_maps.as_deref()));
    if let Some(network) = &facts.network {
        findings.extend([
            nftables(network),
            bridge_rules(network),
            connection_limits(network),
            taps(network),
            forwarding(network),
            wireguard(network),
        ]);
    }
    findings
}

fn user(facts: &Facts) -> Finding {
    let check = Check(
        "root",
        "cgroups, namespaces and mounts require root",
        "run the daemon, and this check, as root",
    );
    match facts.uid {
        Some(0) => check.ok("uid 0"),
        Some(uid) => check.at(Level::Missing, format!("uid {uid}")),
        None => check.at(Level::Warn, "unknown"),
    }
}

const CAPABILITIES: [(u32, &str); 6] = [
    (0, "CAP_CHOWN"),
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (12, "CAP_NET_ADMIN"),
    (21, "CAP_SYS_ADMIN"),
];
const SYS_RESOURCE: u32 = 24;

fn capabilities(facts: &Facts) -> Finding {
    let check = Check(
        "capabilities",
        "cells require clone, mount and setns, and signals to their processes",
        "give the daemon these capabilities; in a container, run it privileged",
    );
    let Some(bits) = facts.capabilities else {
        return check.at(Level::Warn, "unknown");
    };
    let lacking: Vec<&str> = CAPABILITIES
        .into_iter()
        .filter(|(bit, _)| bits & (1 << bit) == 0)
        .map(|(_, name)| name)
        .collect();
    match lacking.is_empty() {
        true => check.ok("all that are needed"),
        false => check.at(Level::Missing, format!("no {}", lacking.join(", "))),
    }
}

fn resource_capability(facts: &Facts) -> Option<Finding> {
    let bits = facts.capabilities?;
    let check = Check(
        "CAP_SYS_RESOURCE",
        "without it limits cannot be raised, nor the OOM score of the daemon lowered",
        "grant it if the host allows; everything else works",
    );
    let there = bits & (1 << SYS_RESOURCE) != 0;
    Some(check.when(there, Level::Warn, if there { "there" } else { "absent" }))
}

fn kernel(facts: &Facts) -> Finding {
    let check = Check(
        "kernel",
        "pidfds, clone3 and clone into a cgroup came with 5.7, cgroup.kill with 5.14",
        "use a kernel of 5.14 or later",
    );
    let Some(release) = &facts.kernel else {
        return check.at(Level::Warn, "unknown");
    };
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let level = match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (5, 14) => Level::Ok,
        (Some(major), Some(minor)) if (major, minor) >= (5, 7) => Level::Warn,
        (Some(_), Some(_)) => Level::Missing,
        _ => Level::Warn,
    };
    check.at(level, release)
}

fn cgroups(facts: &Facts) -> Finding {
    let check = Check(
        "cgroups",
        "cells are cgroups",
        "mount cgroup v2 at /sys/fs/cgroup, as every current distribution does",
    );
    let cgroups = &facts.cgroups;
    match (&cgroups.v2, cgroups.v1.is_empty()) {
        (Some((mount, _)), true) => check.ok(format!("v2 at {}", mount.display())),
        (Some(_), false) => check.ok("hybrid: controllers on v1"),
        (None, false) => check.ok("v1"),
        (None, true) => check.at(Level::Missing, "none mounted"),
    }
}

/// The controllers that cells use, on whichever version has them.
fn controllers(facts: &Facts) -> Option<Finding> {
    let cgroups = &facts.cgroups;
    let mut there: BTreeSet<&str> = cgroups.v1.keys().map(String::as_str).collect();
    let v2 = cgroups.v2.as_ref().filter(|_| there.is_empty());
    let io = if v2.is_some() { "io" } else { "blkio" };
    if let Some((_, controllers)) = v2 {
        there.extend(controllers.iter().map(String::as_str));
    } else if there.is_empty() {
        return None;
    }
    let lacking = |wanted: &[&'static str]| -> Vec<&'static str> {
        wanted
            .iter()
            .copied()
            .filter(|name| !there.contains(name))
            .collect()
    };
    let (needed, useful) = (
        lacking(&["cpu", "memory", "pids"]),
        lacking(&["cpuset", io]),
    );
    let check = Check(
        "controllers",
        "they enforce limits on CPU, memory, processes and I/O",
        "enable them on the kernel's command line or in the parent cgroup",
    );
    Some(match (needed.is_empty(), useful.is_empty()) {
        (true, true) => check.ok(format!("cpu, memory, pids, cpuset, {io}")),
        (true, false) => check.at(Level::Warn, format!("no {}", useful.join(", "))),
        (false, _) => check.at(Level::Missing, format!("no {}", needed.join(", "))),
    })
}

fn namespaces(facts: &Facts) -> Finding {
    let check = Check(
        "namespaces",
        "a cell has its own processes, mounts, hostname and IPC, and a network if asked",
        "use a kernel with CONFIG_NAMESPACES and all its kinds",
    );
    let lacking: Vec<&str> = ["ipc", "mnt", "net", "pid", "uts"]
        .into_iter()
        .filter(|name| !facts.namespaces.contains(*name))
        .collect();
    match lacking.is_empty() {
        true => check.ok("ipc, mnt, net, pid, uts"),
        false => check.at(Level::Missing, format!("no {}", lacking.join(", "))),
    }
}

fn filesystem(facts: &Facts, name: &str, check: Check) -> Finding {
    let there = facts.filesystems.contains(name);
    check.when(
        there,
        Level::Warn,
        if there {
            "there"
        } else {
            "not in /proc/filesystems"
        },
    )
}

fn kvm(facts: &Facts) -> Finding {
    let check = Check(
        "kvm",
        "without it virtual machines are emulated, many times slower",
        "enable virtualization in the firmware, or nesting in the host",
    );
    match facts.kvm {
        Device::Open if facts.virtualization == Some(false) => check.at(
            Level::Warn,
            "/dev/kvm opens, but the cpu has neither vmx nor svm",
        ),
        Device::Open => check.ok("/dev/kvm opens"),
        Device::Closed => check.at(Level::Warn, "/dev/kvm cannot be opened"),
        Device::Absent => check.at(Level::Warn, "no /dev/kvm"),
    }
}

fn landlock(facts: &Facts) -> Finding {
    let check = Check(
        "landlock",
        "confines QEMU: files it reads, programs it executes",
        "add landlock to the kernel's parameter lsm=, or use a kernel that has it",
    );
    match facts.landlock {
        Some(version) => check.ok(format!("version {version}")),
        None => check.at(Level::Warn, "not in this kernel, or not switched on"),
    }
}

fn program(facts: &Facts, prefix: &str, check: Check) -> Finding {
    match facts.programs.iter().find(|name| name.starts_with(prefix)) {
        Some(found) => check.ok(found),
        None => check.at(Level::Warn, "not in PATH"),
    }
}

fn inotify(facts: &Facts) -> Finding {
    let check = Check(
        "inotify",
        "logs are followed with it; each follower takes one",
        "raise fs.inotify.max_user_instances to 512 and max_user_watches to 65536",
    );
    let (Some(instances), Some(watches)) = (facts.inotify_instances, facts.inotify_watches) else {
        return check.at(Level::Warn, "unknown");
    };
    let enough = instances >= 128 && watches >= 8192;
    check.when(
        enough,
        Level::Warn,
        format!("{instances} instances, {watches} watches"),
    )
}

fn open_files(facts: &Facts) -> Finding {
    let check = Check(
        "open files",
        "each executable keeps a few open for its output",
        "raise the hard limit of open files to 65536 for the daemon",
    );
    match facts.open_files {
        None => check.at(Level::Warn, "unknown"),
        Some(u64::MAX) => check.ok("unlimited"),
        Some(limit) => check.when(limit >= 65_536, Level::Warn, format!("at most {limit}")),
    }
}

fn disk(disk: Option<&Disk>) -> Finding {
    let check = Check(
        "disk",
        "state, logs and images are in the data directory",
        "free space, or choose another --data-dir",
    );
    let Some(Disk { path, free }) = disk else {
        return check.at(Level::Warn, "unknown");
    };
    let level = match free >> 30 {
        0 => Level::Missing,
        1..5 => Level::Warn,
        _ => Level::Ok,
    };
    check.at(
        level,
        format!("{} free at {}", human::bytes(*free), path.display()),
    )
}

fn disk_limits(limits: &DiskLimits) -> Finding {
    let check = Check(
        "disk limits",
        "disk limits of pods are enforced by the file system of the data directory",
        "keep the data directory on xfs or ext4 with project quotas, or on btrfs with quotas",
    );
    match limits {
        DiskLimits::Unsupported(_) => check.at(Level::Warn, limits.to_string()),
        _ => check.ok(limits.to_string()),
    }
}

fn user_namespaces(lack: Option<&str>) -> Finding {
    let check = Check(
        "user namespaces",
        "root of a pod is an unprivileged user of the host",
        "keep the data directory on ext4, xfs or btrfs, and set user.max_user_namespaces above 0; or set [node] allow_host_users",
    );
    match lack {
        None => check.ok("pods have their own user namespaces"),
        Some(why) => check.at(
            Level::Warn,
            format!("pods are refused, or use the user namespace of the host: {why}"),
        ),
    }
}

fn nftables(network: &NetworkFacts) -> Finding {
    let there = network.nftables;
    Check(
        "nftables",
        "published ports and the network of pods use it",
        "use a kernel with nf_tables and NAT, or load the module nf_tables",
    )
    .when(
        there,
        Level::Warn,
        if there { "answers" } else { "does not answer" },
    )
}

fn bridge_rules(network: &NetworkFacts) -> Finding {
    let there = network.bridge_rules;
    Check(
        "bridge rules",
        "keep pods of different projects on one node apart",
        "use a kernel with CONFIG_NF_TABLES_BRIDGE; without it a node has pods of one project \
         only, unless [network] allow_shared_bridge is set",
    )
    .when(
        there,
        Level::Warn,
        if there {
            "in the kernel"
        } else {
            "not in the kernel"
        },
    )
}

fn connection_limits(network: &NetworkFacts) -> Finding {
    let there = network.connection_limits;
    Check(
        "connection limits",
        "keep one pod from filling the table of the host's connections",
        "use a kernel with CONFIG_NFT_CONNLIMIT",
    )
    .when(
        there,
        Level::Warn,
        if there {
            "in the kernel"
        } else {
            "not in the kernel"
        },
    )
}

fn wireguard(network: &NetworkFacts) -> Finding {
    let there = network.wireguard;
    Check(
        "wireguard",
        "encrypts traffic between pods of different nodes",
        "use a kernel with WireGuard, or trust the network between the nodes",
    )
    .when(
        there,
        Level::Warn,
        if there {
            "in the kernel"
        } else {
            "not in the kernel"
        },
    )
}

fn taps(network: &NetworkFacts) -> Finding {
    let there = network.tun;
    Check(
        "taps",
        "NICs of virtual machines use it",
        "load the kernel module tun, or run no VMs here",
    )
    .when(
        there,
        Level::Warn,
        if there {
            "/dev/net/tun"
        } else {
            "no /dev/net/tun"
        },
    )
}

fn forwarding(network: &NetworkFacts) -> Finding {
    let check = Check(
        "forwarding",
        "traffic of pods is forwarded by this host",
        "if pods cannot be reached, check the FORWARD policy of iptables: Strata cannot override it",
    );
    match network.bridge_netfilter && network.iptables_in_use {
        true => check.at(
            Level::Warn,
            "bridged packets also pass the rules of iptables",
        ),
        false => check.ok("no obstacle found"),
    }
}

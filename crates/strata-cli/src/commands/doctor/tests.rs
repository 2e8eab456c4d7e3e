//! Machines made up of facts, and what the doctor says of them.

use std::collections::{BTreeMap, BTreeSet};

use strata_network::NetworkFacts;
use strata_rootfs::DiskLimits;

use super::checks::evaluate;
use super::facts::{Cgroups, Device, Disk, Facts};
use super::findings::{Finding, Level};

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn healthy() -> Facts {
    Facts {
        uid: Some(0),
        capabilities: Some(u64::MAX),
        kernel: Some("6.1.0-18-amd64".into()),
        cgroups: Cgroups {
            v1: BTreeMap::new(),
            v2: Some((
                "/sys/fs/cgroup".into(),
                set(&["cpu", "cpuset", "io", "memory", "pids"]),
            )),
        },
        namespaces: set(&["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]),
        filesystems: set(&["overlay", "btrfs"]),
        kvm: Device::Open,
        virtualization: Some(true),
        programs: set(&["qemu-system-x86_64"]),
        inotify_instances: Some(512),
        inotify_watches: Some(65_536),
        open_files: Some(1_048_576),
        disk: Some(Disk {
            path: "/var/lib".into(),
            free: 100 << 30,
        }),
        disk_limits: Some(DiskLimits::Project),
        lack_of_id_maps: None,
        network: Some(NetworkFacts {
            nftables: true,
            tun: true,
            ipv6: true,
            ip_forward: false,
            ipv6_forwarding: true,
            bridge_netfilter: true,
            iptables_in_use: false,
            wireguard: true,
            bridge_rules: true,
            connection_limits: true,
        }),
        landlock: Some(4),
    }
}

fn network(change: impl FnOnce(&mut NetworkFacts)) -> impl FnOnce(&mut Facts) {
    |facts| {
        if let Some(network) = &mut facts.network {
            change(network);
        }
    }
}

#[test]
fn doctor_reports_obstacles_of_pods() {
    assert_eq!(
        level("nftables", network(|n| n.nftables = false)),
        Level::Warn
    );
    assert_eq!(level("taps", network(|n| n.tun = false)), Level::Warn);
    assert_eq!(
        level("bridge rules", network(|n| n.bridge_rules = false)),
        Level::Warn
    );
    assert_eq!(
        level(
            "connection limits",
            network(|n| n.connection_limits = false)
        ),
        Level::Warn
    );
    assert_eq!(
        level("wireguard", network(|n| n.wireguard = false)),
        Level::Warn
    );
    assert_eq!(
        level("forwarding", network(|n| n.iptables_in_use = true)),
        Level::Warn
    );
    let no_limits = finding("disk limits", |facts| {
        facts.disk_limits = Some(DiskLimits::Unsupported("no loop devices".into()));
    });
    assert_eq!(no_limits.level, Level::Warn);
    assert!(no_limits.found.contains("no loop devices"), "{no_limits:?}");
}

fn finding(name: &str, change: impl FnOnce(&mut Facts)) -> Finding {
    let mut facts = healthy();
    change(&mut facts);
    let findings = evaluate(&facts);
    findings
        .into_iter()
        .find(|finding| finding.name == name)
        .unwrap()
}

fn level(name: &str, change: impl FnOnce(&mut Facts)) -> Level {
    finding(name, change).level
}

#[test]
fn a_healthy_machine_has_nothing_to_do() {
    let findings = evaluate(&healthy());
    for finding in &findings {
        assert_eq!(finding.level, Level::Ok, "{finding:?}");
        assert_eq!(finding.advice, None, "{finding:?}");
    }
    assert_eq!(findings.len(), 23);
}

#[test]
fn lack_of_user_namespaces_is_a_warning_with_its_reason() {
    let finding = finding("user namespaces", |facts| {
        facts.lack_of_id_maps = Some("/data is on rootfs".into());
    });
    assert_eq!(finding.level, Level::Warn);
    assert!(finding.found.contains("rootfs"), "{finding:?}");
}

#[test]
fn doctor_reports_a_host_without_facts() {
    let findings = evaluate(&Facts::default());
    assert!(findings.iter().any(|f| f.level == Level::Missing));
    assert!(findings.iter().all(|f| !f.found.is_empty()));
}

#[test]
fn doctor_reports_missing_requirements() {
    use Level::Missing;
    assert_eq!(level("root", |f| f.uid = Some(1000)), Missing);
    assert_eq!(
        level("kernel", |f| f.kernel = Some("5.4.0".into())),
        Missing
    );
    assert_eq!(
        level("cgroups", |f| f.cgroups = Cgroups::default()),
        Missing
    );
    assert_eq!(
        level("namespaces", |f| _ = f.namespaces.remove("pid")),
        Missing
    );
    assert_eq!(
        level("disk", |f| f.disk.as_mut().unwrap().free = 1 << 20),
        Missing
    );
    let lacking = finding("capabilities", |f| f.capabilities = Some(!(1 << 21)));
    assert_eq!(
        (lacking.level, lacking.found.as_str()),
        (Missing, "no CAP_SYS_ADMIN")
    );
}

#[test]
fn doctor_warns_of_missing_options() {
    use Level::Warn;
    assert_eq!(
        level("CAP_SYS_RESOURCE", |f| f.capabilities = Some(!(1 << 24))),
        Warn
    );
    assert_eq!(
        level("kernel", |f| f.kernel = Some("5.10.0-28-amd64".into())),
        Warn
    );
    assert_eq!(level("kvm", |f| f.kvm = Device::Closed), Warn);
    assert_eq!(level("kvm", |f| f.virtualization = Some(false)), Warn);
    assert_eq!(level("landlock", |f| f.landlock = None), Warn);
    assert_eq!(level("qemu", |f| f.programs.clear()), Warn);
    assert_eq!(level("overlayfs", |f| f.filesystems.clear()), Warn);
    assert_eq!(level("open files", |f| f.open_files = Some(1024)), Warn);
    assert_eq!(level("inotify", |f| f.inotify_watches = None), Warn);
    assert_eq!(
        level("disk", |f| f.disk.as_mut().unwrap().free = 2 << 30),
        Warn
    );
}

#[test]
fn controllers_are_looked_for_where_they_are() {
    let hybrid = |names: &'static [&'static str]| {
        move |facts: &mut Facts| {
            let mount = |name: &&str| ((*name).to_owned(), format!("/sys/fs/cgroup/{name}").into());
            facts.cgroups.v1 = names.iter().map(mount).collect();
        }
    };
    let all = hybrid(&["cpu", "cpuset", "memory", "pids", "blkio"]);
    assert_eq!(finding("cgroups", all).found, "hybrid: controllers on v1");
    assert_eq!(level("controllers", all), Level::Ok);
    let some = finding("controllers", hybrid(&["cpu", "memory", "pids"]));
    assert_eq!(
        (some.level, some.found.as_str()),
        (Level::Warn, "no cpuset, blkio")
    );
    let few = finding("controllers", hybrid(&["cpu"]));
    assert_eq!(
        (few.level, few.found.as_str()),
        (Level::Missing, "no memory, pids")
    );
}

#[test]
fn findings_keep_their_json() {
    let finding = finding("kvm", |f| f.kvm = Device::Absent);
    insta::assert_snapshot!(serde_json::to_string_pretty(&finding).unwrap(), @r#"
    {
      "name": "kvm",
      "level": "warn",
      "found": "no /dev/kvm",
      "why": "without it virtual machines are emulated, many times slower",
      "advice": "enable virtualization in the firmware, or nesting in the host"
    }
    "#);
}

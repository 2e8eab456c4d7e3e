//! Pods where cgroups are v2: their init is no root of the host, and still
//! starts processes in groups of their own.

use strata_testkit::pods::idle;
use strata_testkit::v1::{PodLimits, PodNetwork, PodSpec};

use crate::host_shell::Machine;

/// Where the guest has an image, as `docker save` writes it.
pub(crate) const IMAGE: &str = "root/busybox.tar";

fn spec(name: &str) -> PodSpec {
    let mut spec = idle(name, &format!("docker-archive:/{IMAGE}"));
    spec.network = PodNetwork::Isolated.into();
    spec
}

pub(crate) async fn pods_have_users_of_their_own(machine: &Machine) {
    let node = &machine.node;
    let pod = node.run_pod(spec("mapped")).await.unwrap();
    let look = "awk '{print $2}' /proc/self/uid_map; cat /proc/self/cgroup";
    let said = node.says("mapped", look).await;
    let (first, group) = said.split_once('\n').unwrap();
    assert_ne!(first, "0", "{said}");
    assert_eq!(group, "0::/", "a cgroup namespace of its own");
    let owner = format!("stat -c %u /proc/{}", pod.process_id);
    assert_eq!(machine.outside(&owner).await, first);
    // What it is limited to stays with the host's root.
    let groups = "cd /sys/fs/cgroup/strata/*/_pods*/ 2>/dev/null || cd /sys/fs/cgroup/strata/*/; \
        find . -name memory.max -user 0 | wc -l; find . -name memory.max ! -user 0 | wc -l";
    let counted = machine.outside(groups).await;
    assert!(counted.ends_with("\n0"), "{counted}");
    assert!(!counted.starts_with('0'), "{counted}");
    node.destroy_pod("mapped").await.unwrap();
}

pub(crate) async fn pods_find_their_limits(machine: &Machine) {
    let node = &machine.node;
    let mut limited = spec("limited");
    limited.limits = Some(PodLimits {
        cpu_millis: Some(500),
        memory_bytes: Some(64 << 20),
        ..PodLimits::default()
    });
    node.run_pod(limited).await.unwrap();
    // As the JVM, Go and node look for them: the one mount, the path in it.
    let find = "point=$(awk '{ for (i = 7; $i != \"-\"; i++); if ($(i + 1) == \"cgroup2\") print $5 }' \
        /proc/self/mountinfo); path=$(sed -n 's/^0:://p' /proc/self/cgroup); \
        cat $point$path/memory.max $point$path/cpu.max";
    assert_eq!(node.says("limited", find).await, "67108864\n50000 100000");
    node.destroy_pod("limited").await.unwrap();
}

pub(crate) async fn program_can_be_pid_1(machine: &Machine) {
    let node = &machine.node;
    let first = PodSpec {
        init: Some(false),
        ..spec("first")
    };
    node.run_pod(first).await.unwrap();
    assert_eq!(node.says("first", "cat /proc/1/comm").await, "sh");
    // It is in the group of its run, whose end finds all that it left.
    let members = "cat /sys/fs/cgroup/_r*/cgroup.procs | wc -l";
    assert_ne!(node.says("first", members).await, "0");
    node.destroy_pod("first").await.unwrap();
}

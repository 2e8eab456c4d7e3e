//! Nested nodes, on cgroup v2: processes live in leaves alone
//! there, and a group is delegated with its namespace.

use strata_testkit::machines::machine;

use crate::host_shell::Machine;
use crate::tell;

pub(crate) async fn machines_are_spawned_in_it(outside: &Machine) {
    let drivers =
        "for d in bridge veth nf_tables; do ls /lib/modules/$d.ko; done 2>&1 | grep -c ^/";
    let drivers = outside.outside(&format!("{drivers} || :")).await;
    if drivers != "3" {
        tell("the guest's kernel has no bridge: spawning on cgroup v2 is NOT proven");
        return;
    }
    let node = &outside.node;
    let made = node.spawn(machine("n1")).await.unwrap();
    assert!(made.running, "{made:?}");
    let inside = format!(
        "/init --node unix:/proc/{}/root/run/strata/node.sock",
        made.process_id
    );
    outside.outside(&format!("{inside} cell allocate a")).await;
    outside
        .outside(&format!("{inside} cell start a idle -- sleep 1000"))
        .await;
    let idle = "for p in /proc/[0-9]*; do grep -qs ^sleep.1000 $p/cmdline && cat $p/cgroup; done";
    let group = outside.outside(&format!("{idle}; :")).await;
    assert!(group.contains("/_machines/n1/_r"), "{group}");
    let below = group.split("/_machines/n1/_r").nth(1).unwrap();
    assert!(
        below.contains("/strata/") && below.contains("/a/_r"),
        "{group}"
    );
    makes_groups_beside_cells(outside, &inside).await;

    node.destroy_machine("n1").await.unwrap();
    let left = "ls -d /sys/fs/cgroup/strata/*/_machines/n1 2>/dev/null || echo gone";
    assert_eq!(outside.outside(left).await, "gone");
}

/// As a runtime of containers does: a cell that sees the machine's groups can
/// make one beside those of cells, and move there.
async fn makes_groups_beside_cells(outside: &Machine, inside: &str) {
    let allocate = format!("{inside} cell allocate b --cgroups host");
    outside.outside(&allocate).await;
    let moves = "mkdir /sys/fs/cgroup/beside && \
                 echo 0 >/sys/fs/cgroup/beside/cgroup.procs && exec sleep 2000";
    let start = format!("{inside} cell start b moved -- sh -c '{moves}'");
    outside.outside(&start).await;
    let moved = "for i in $(seq 50); do for p in /proc/[0-9]*; do \
                 grep -qs ^sleep.2000 $p/cmdline && cat $p/cgroup && exit; done; usleep 100000; done";
    let group = outside.outside(moved).await;
    assert!(group.contains("/_machines/n1/_r"), "{group}");
    assert!(group.trim_end().ends_with("/beside"), "{group}");
}

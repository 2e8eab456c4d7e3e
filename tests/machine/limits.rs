//! Limits on cgroup v2: in the files, kept by the kernel, nested.

use strata_testkit::runtime::Cell;
use strata_testkit::v1::{CpuLimit, MemoryLimit};
use strata_testkit::{cell_with, v1};

use crate::host_shell::Machine;

const MB: u64 = 1 << 20;

pub(crate) async fn a_cells_limits_are_in_its_files(machine: &Machine) {
    let node = &machine.node;
    let cell = Cell {
        cpu_shares: 512,
        ..cell_with("limited", |options| {
            options.cpu = Some(CpuLimit {
                quota_us: Some(50_000),
                period_us: Some(200_000),
                cpuset: "0".into(),
            });
            options.memory = Some(MemoryLimit {
                low: Some(8 * MB),
                high: Some(48 * MB),
                max: Some(64 * MB),
            });
            options.pids_max = Some(50);
        })
    };
    assert!(node.allocate_as(cell).await.unwrap().cgroup_v2);

    let script = "cd /sys/fs/cgroup/strata/*/limited && cat cpu.weight cpu.max cpuset.cpus \
        memory.low memory.high memory.max memory.swap.max pids.max";
    let files = node.shell("limited", "cat", script).await;
    let expected = "59\n50000 200000\n0\n8388608\n50331648\n67108864\n0\n50";
    assert_eq!(files, expected);

    // A process is born into the group of its run, and sees that as the root.
    let pid = node.start("limited", "idle", "sleep 1000").await.unwrap();
    let group = machine.outside(&format!("cat /proc/{pid}/cgroup")).await;
    assert!(group.starts_with("0::/strata/"), "{group}");
    assert!(group.contains("/limited/_r"), "{group}");
    let own = node.shell("limited", "cat", "cat /proc/self/cgroup").await;
    assert_eq!(own, "0::/");

    let info = node.get("limited").await.unwrap();
    assert!(info.cgroup_v2);
    let usage = info.usage.unwrap();
    assert_eq!(usage.pids, 2, "an init and a sleep: {usage:?}");
    assert!(usage.memory_bytes > 0 && usage.cpu_usec > 0, "{usage:?}");
    assert!(usage.memory_peak_bytes >= usage.memory_bytes, "{usage:?}");
}

pub(crate) async fn limits_hold(machine: &Machine) {
    let node = &machine.node;
    let small = cell_with("small", |options| {
        options.memory = Some(MemoryLimit {
            max: Some(32 * MB),
            ..Default::default()
        });
        options.pids_max = Some(8);
    });
    node.allocate_as(small).await.unwrap();
    let greedy = "dd if=/dev/zero of=/dev/null bs=96M count=1";
    node.start("small", "greedy", greedy).await.unwrap();
    let ended = node.wait("small", "greedy").await.unwrap();
    assert_eq!(ended.signal, Some(9), "{ended:?}");
    assert!(ended.reason.contains("out of memory"), "{ended:?}");

    let many = "sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait'";
    node.start("small", "many", many).await.unwrap();
    let ended = node.wait("small", "many").await.unwrap();
    assert_ne!(ended.exit_code, Some(0), "{ended:?}");
    // What it did fork went with it, and the cell still works.
    assert_eq!(node.get("small").await.unwrap().usage.unwrap().pids, 1);
    assert_eq!(node.shell("small", "echo", "echo fine").await, "fine");
    node.free("small").await.unwrap();
}

pub(crate) async fn disks_are_limited_and_measured(machine: &Machine) {
    let node = &machine.node;
    let reader = cell_with("reader", |options| {
        options.io = vec![v1::IoLimit {
            device: "/dev/nvme0n1".into(),
            read_bps: Some(8 * MB),
            write_iops: Some(1000),
            ..Default::default()
        }];
    });
    node.allocate_as(reader).await.unwrap();
    let script = "cut -d \" \" -f 2- /sys/fs/cgroup/strata/*/reader/io.max; \
        dd if=/dev/nvme0n1 of=/dev/null bs=1M count=2 skip=10";
    let limits = node.shell("reader", "dd", script).await;
    assert_eq!(limits, "rbps=8388608 wbps=max riops=max wiops=1000");
    // Also once the group of that run is gone.
    let usage = node.get("reader").await.unwrap().usage.unwrap();
    assert!(usage.io_read_bytes >= 2 * MB, "{usage:?}");
    node.free("reader").await.unwrap();
}

pub(crate) async fn cells_nest(machine: &Machine) {
    let node = &machine.node;
    let inner = cell_with("limited/inner", |options| options.pids_max = Some(10));
    assert!(node.allocate_as(inner).await.unwrap().cgroup_v2);
    let script = "hostname; cat /sys/fs/cgroup/strata/*/limited/inner/pids.max";
    let found = node.shell("limited/inner", "look", script).await;
    assert_eq!(found, "limited-inner\n10");

    let pid = node
        .start("limited/inner", "idle", "sleep 1000")
        .await
        .unwrap();
    let status = machine
        .outside(&format!("grep NSpid /proc/{pid}/status"))
        .await;
    assert_eq!(status.split_whitespace().count(), 1 + 3, "{status}");
    let outer = node.get("limited").await.unwrap().usage.unwrap();
    assert_eq!(outer.pids, 4, "its own two and the inner cell's");
    let states: Vec<_> = node
        .list()
        .await
        .unwrap()
        .iter()
        .map(v1::CellInfo::state)
        .collect();
    assert_eq!(states, [v1::CellState::Ready; 3]);
}

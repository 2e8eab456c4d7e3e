//! Limits: each is in the kernel's file, and holds.

use std::fs;
use std::path::Path;
use std::time::Duration;

use strata_testkit::v1::{CpuLimit, IoLimit, MemoryLimit};
use strata_testkit::{Code, Daemon, SmallDisk, cell_with, field_of, refused};

use crate::cells::STRATA;

fn file(daemon: &Daemon, controller: &str, cell: &str, file: &str) -> String {
    let path = daemon.host().cgroup(controller).join(cell).join(file);
    let text = fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .trim()
        .to_owned()
}

/// Whether this machine's cells are on cgroup v1; the files differ.
async fn is_v1(node: &strata_testkit::Node) -> bool {
    let probe = node.allocate("probe").await.expect("a cell can be made");
    !probe.cgroup_v2
}

#[tokio::test(flavor = "multi_thread")]
async fn every_limit_reaches_the_kernel() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("web", |options| {
        options.cpu = Some(CpuLimit {
            quota_us: Some(50_000),
            period_us: Some(200_000),
            cpuset: "0".into(),
        });
        options.memory = Some(MemoryLimit {
            low: Some(16 << 20),
            high: None,
            max: Some(64 << 20),
        });
        options.pids_max = Some(33);
    });
    node.allocate_as(wanted).await.unwrap();
    let read = |controller, name| file(&daemon, controller, "web", name);
    assert_eq!(read("pids", "pids.max"), "33");
    assert_eq!(read("cpuset", "cpuset.cpus"), "0");
    if is_v1(&node).await {
        assert_eq!(read("cpu", "cpu.cfs_quota_us"), "50000");
        assert_eq!(read("cpu", "cpu.cfs_period_us"), "200000");
        assert_eq!(read("memory", "memory.limit_in_bytes"), "67108864");
        assert_eq!(read("memory", "memory.soft_limit_in_bytes"), "16777216");
    } else {
        assert_eq!(read("cpu", "cpu.max"), "50000 200000");
        assert_eq!(read("memory", "memory.max"), "67108864");
        assert_eq!(read("memory", "memory.low"), "16777216");
    }
    let inside = node
        .shell("web", "cpus", "grep Cpus_allowed_list /proc/self/status")
        .await;
    assert_eq!(inside.split_whitespace().last(), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_high_mark_on_cgroup_v1_is_refused_by_its_name() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("web", |options| {
        options.memory = Some(MemoryLimit {
            high: Some(64 << 20),
            ..Default::default()
        });
    });
    if !is_v1(&node).await {
        node.allocate_as(wanted).await.unwrap();
        return;
    }
    let status = node.allocate_as(wanted).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(
        field_of(&status).as_deref(),
        Some("cell.options.memory.high")
    );
    assert_eq!(node.names().await, ["probe"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_limits_leave_nothing_behind() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let before = daemon.host().settled().await;
    let beyond = cell_with("web", |options| {
        options.cpu = Some(CpuLimit {
            cpuset: "8000".into(),
            ..Default::default()
        });
    });
    let status = node.allocate_as(beyond).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let field = field_of(&status);
    assert_eq!(field.as_deref(), Some("cell.options.cpu.cpuset"));
    let missing = cell_with("web", |options| {
        options.io.push(IoLimit {
            device: "/dev/there-is-none".into(),
            read_bps: Some(1),
            ..Default::default()
        });
    });
    let status = node.allocate_as(missing).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let after = daemon.host().look();
    let cell_groups = |group: &&std::path::PathBuf| group.ends_with("web");
    assert_eq!(after.processes, before.processes);
    assert_eq!(after.cgroups.iter().filter(cell_groups).count(), 0);
    assert_eq!(node.names().await, ["warm"]);
    node.allocate("web").await.unwrap();
}

/// A block device with its numbers, if the machine has one.
fn a_block_device() -> Option<String> {
    let partitions = fs::read_to_string("/proc/partitions").ok()?;
    let name = partitions.lines().skip(2).find_map(|line| {
        let name = line.split_whitespace().nth(3)?;
        Path::new("/sys/block").join(name).exists().then_some(name)
    })?;
    let numbers = fs::read_to_string(format!("/sys/block/{name}/dev")).ok()?;
    Some(numbers.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_throttled_as_asked() {
    let Some(device) = a_block_device() else {
        return;
    };
    let (daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("web", |options| {
        options.io.push(IoLimit {
            device: device.clone(),
            read_bps: Some(1_000_000),
            write_iops: Some(77),
            ..Default::default()
        });
    });
    node.allocate_as(wanted).await.unwrap();
    if is_v1(&node).await {
        let read = |name| file(&daemon, "blkio", "web", name);
        let line = |value| format!("{device} {value}");
        assert_eq!(
            read("blkio.throttle.read_bps_device"),
            line("1000000"),
            "bytes"
        );
        assert_eq!(
            read("blkio.throttle.write_iops_device"),
            line("77"),
            "requests"
        );
    } else {
        let line = file(&daemon, "io", "web", "io.max");
        assert!(line.contains("rbps=1000000") && line.contains("wiops=77"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_processes_than_allowed_can_be_forked() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("few", |options| options.pids_max = Some(5));
    node.allocate_as(wanted).await.unwrap();
    let script = "sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; wait'";
    node.start("few", "bomb", script).await.unwrap();
    let ended = node.wait("few", "bomb").await.unwrap();
    assert_ne!(ended.exit_code, Some(0), "{ended:?}");
    assert!(node.get("few").await.unwrap().usage.unwrap().pids <= 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_is_reported() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("small", |options| {
        options.memory = Some(MemoryLimit {
            max: Some(16 << 20),
            ..Default::default()
        });
    });
    node.allocate_as(wanted).await.unwrap();
    let hog = "sh -c 'x=0123456789abcdef; while :; do x=$x$x; done'";
    node.start("small", "hog", hog).await.unwrap();
    let ended = node.wait("small", "hog").await.unwrap();
    assert_eq!(ended.reason, "killed: out of memory");
    assert_eq!((ended.exit_code, ended.signal), (None, Some(9)));
    assert!(ended.memory_peak_bytes > 4 << 20, "{ended:?}");
    let words = node.shell("small", "after", "echo still here").await;
    assert_eq!(words, "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_is_attributed_to_the_killed_executable_only() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("small", |options| {
        options.memory = Some(MemoryLimit {
            max: Some(16 << 20),
            ..Default::default()
        });
    });
    node.allocate_as(wanted).await.unwrap();
    let stubborn = "sh -c 'trap \"\" TERM; while :; do sleep 1; done'";
    for name in ["stopped", "killed"] {
        node.start("small", name, stubborn).await.unwrap();
    }
    let hog = "sh -c 'x=0123456789abcdef; while :; do x=$x$x; done'";
    node.start("small", "hog", hog).await.unwrap();
    let ended = node.wait("small", "hog").await.unwrap();
    assert_eq!(ended.reason, "killed: out of memory");
    node.stop_within("small", "stopped", Duration::ZERO)
        .await
        .unwrap();
    let pid = node.executable("small", "killed").await.unwrap().process_id;
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    for name in ["stopped", "killed"] {
        let ended = node.wait("small", name).await.unwrap();
        assert_ne!(ended.reason, "killed: out of memory", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn start_in_a_cell_full_of_processes_names_the_limit() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let few = cell_with("few", |options| options.pids_max = Some(4));
    node.allocate_as(few).await.unwrap();
    let mut refusal = None;
    for i in 0..6 {
        if let Err(status) = node.start("few", &format!("e{i}"), "sleep 1000").await {
            refusal = Some(status);
            break;
        }
    }
    let status = refusal.expect("six processes do not fit into four");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("pids_max is 4"), "{status}");
    // A cell inside needs a process for its init.
    let status = node.allocate("few/inner").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("\"few\""), "{status}");
    node.free("few").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn message_above_the_size_limit_is_resource_exhausted() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let huge = "x".repeat(3 << 20);
    let status = node.start("web", "main", &huge).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_on_a_full_disk_name_it_and_free_makes_room() {
    let disk = SmallDisk::new(64 << 20);
    let daemon = Daemon::build(STRATA).on_disk(&disk.path()).start().await;
    let node = daemon.node().await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    let filling = disk.fill_but(0);
    for refusal in [
        node.allocate("other").await.map(drop),
        node.start("web", "more", "sleep 1000").await.map(drop),
    ] {
        let why = refused(refusal, Code::ResourceExhausted).to_lowercase();
        assert!(why.contains("space") || why.contains("disk"), "{why}");
    }
    // What was refused is not there, what ran goes on, and both end.
    assert_eq!(node.names().await, ["web"]);
    assert!(node.is_running("web", "main").await);
    node.stop("web", "main").await.unwrap();
    node.free("web").await.unwrap();
    assert!(node.names().await.is_empty());
    fs::remove_file(filling).unwrap();
    node.allocate("other").await.unwrap();
    node.start("other", "main", "sleep 1000").await.unwrap();
    node.free("other").await.unwrap();
}

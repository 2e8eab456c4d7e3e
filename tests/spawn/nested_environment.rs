//! What a machine is from inside: the host's programs, nothing of the host's
//! data, its own control groups, limits that hold for all that is in it, and
//! cells and pods as on any node.

use strata_testkit::executable_with;
use strata_testkit::machines::{HostDaemon, NestedNode, machine};
use strata_testkit::pods::{idle, volume};
use strata_testkit::pool::TestPool;
use strata_testkit::v1::pod_volume::Source;
use strata_testkit::v1::{GetNodeInfoRequest, MachineSpec};

use crate::spawn::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn nested_node_sees_host_programs_and_no_host_data() {
    let outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("n1")).await;
    let node = &inside.node;
    node.allocate("a").await.unwrap();
    let says = async |name: &str, script: &str| node.shell("a", name, script).await;
    assert_eq!(says("id", "cat /etc/hostname").await, "n1");
    let tools = "command -v mkfs.ext4 >/dev/null && command -v strata";
    assert_eq!(says("tools", tools).await, "/usr/local/bin/strata");

    let data = outside.daemon.data_dir();
    let look = format!(
        "find {} /root /home /srv -mindepth 1 2>/dev/null || :",
        data.display()
    );
    assert_eq!(says("data", &look).await, "");
    let disks = "cut -d\" \" -f1,2 /proc/mounts | grep ^/dev/ | sort";
    let disks = says("mounts", disks).await;
    let places: Vec<_> = disks
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    assert_eq!(places, ["/run/strata/bin/strata", "/var/lib"], "{disks}");
    let devices = "test -c /dev/net/tun -a -b /dev/loop9 -a ! -e /dev/vda && echo good";
    assert_eq!(says("devices", devices).await, "good");
    assert_eq!(
        says("links", "ls /sys/class/net | grep -v ^st-").await,
        "eth0\nlo"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_node_limits_apply_to_all_its_cells() {
    let outside = HostDaemon::start(STRATA).await;
    let small = MachineSpec {
        memory_bytes: Some(192 << 20),
        cpu_millis: Some(1500),
        ..machine("small")
    };
    let inside = outside.spawn(small).await;
    let node = &inside.node;
    let mut its = node.client().node();
    let info = its.get_info(GetNodeInfoRequest {}).await.unwrap();
    assert_eq!(info.into_inner().memory_bytes, 192 << 20);
    node.allocate("a").await.unwrap();
    let seen = "ls -d /sys/fs/cgroup/memory/strata/*/ | wc -l";
    assert_eq!(node.shell("a", "seen", seen).await, "1");
    let memory = outside
        .daemon
        .host()
        .cgroup("memory")
        .join("_machines/small");
    let limit = std::fs::read_to_string(memory.join("memory.limit_in_bytes")).unwrap();
    assert_eq!(limit.trim(), (192 << 20).to_string());
    let inner = std::fs::read_dir(memory.join("strata")).unwrap().flatten();
    assert!(
        inner.count() > 0,
        "the groups inside are in those of the machine"
    );
    // Not in the groups of the host itself.
    let run = outside
        .daemon
        .host()
        .cgroup("freezer")
        .join("_machines/small");
    assert!(run.is_dir());

    // A cell without limits of its own is held by those of the machine.
    let eat = "sh -c \"head -c 600M /dev/zero | tail >/dev/null\"";
    node.start("a", "eats", eat).await.unwrap();
    let ended = node.wait("a", "eats").await.unwrap();
    assert_ne!(ended.exit_code, Some(0), "{ended:?}");
    let machine = outside.node().await.machine("small").await.unwrap();
    assert!(machine.running, "{machine:?}");
    assert_eq!(machine.process_id, inside.machine.process_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_in_it() {
    let outside = HostDaemon::start(STRATA).await;
    let inside = outside.spawn(machine("n1")).await;
    let node = &inside.node;
    let image = inside.busybox();
    let made = node.run_pod(idle("web", &image)).await.unwrap();
    // Its addresses are not those of the machines themselves.
    assert!(made.address.starts_with("10.43."), "{made:?}");
    assert_eq!(node.says("web", "cat /etc/hostname").await, "web");
    node.destroy_pod("web").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_node_reaches_the_pool_of_its_host() {
    let pool = TestPool::unmounted();
    let outside = HostDaemon::start_with(STRATA, &pool.config()).await;
    let reaches = async |inside: &NestedNode| {
        let mut its = inside.node.client().node();
        let info = its.get_info(GetNodeInfoRequest {}).await;
        info.unwrap().into_inner().pool
    };
    // One from before the pool does not see it.
    let early = outside.spawn(machine("early")).await;
    pool.mount();
    let data = pool.volume("v1");
    assert_eq!(reaches(&early).await, "");
    let late = outside.spawn(machine("late")).await;
    assert_eq!(reaches(&late).await, pool.id());
    let node = &late.node;
    let mut web = idle("web", &late.busybox());
    web.volumes = vec![volume(Source::Pool("v1".into()), "/data")];
    node.run_pod(web.clone()).await.unwrap();
    node.says("web", "echo inside > /data/file").await;
    let file = std::fs::read_to_string(data.join("file")).unwrap();
    assert_eq!(file, "inside\n");
    node.destroy_pod("web").await.unwrap();
    // The machine goes, and what is in the pool stays for the next one.
    let around = outside.node().await;
    around.destroy_machine("late").await.unwrap();
    assert!(data.join("file").exists());
    let next = outside.spawn(machine("next")).await;
    web.image = next.busybox();
    next.node.run_pod(web).await.unwrap();
    assert_eq!(next.node.says("web", "cat /data/file").await, "inside");
    for name in ["early", "next"] {
        around.destroy_machine(name).await.unwrap();
    }
}

/// What a kubelet offers to the scheduler is what it reads there.
#[tokio::test(flavor = "multi_thread")]
async fn kubelet_on_it_finds_the_machines_own_processors_and_memory() {
    const OWN_SIZE: &str =
        include_str!("../../crates/strata-clusters/src/kubeadm/scripts/own-size");
    let outside = HostDaemon::start(STRATA).await;
    let small = MachineSpec {
        memory_bytes: Some(300 << 20),
        cpu_millis: Some(700),
        ..machine("small")
    };
    let inside = outside.spawn(small).await;
    let node = &inside.node;
    node.allocate("a").await.unwrap();
    let script = format!(
        "set -eu\n\
         is_mount() {{ cut -d \" \" -f 5 /proc/self/mountinfo | grep -qx \"$1\"; }}\n\
         mkdir -p /run/strata-kubernetes\n{OWN_SIZE}\n{OWN_SIZE}\n\
         sed -n \"s/ kB//; s/^MemTotal: *//p\" /proc/meminfo\n\
         sed -n \"s/ kB//; s/^MemAvailable: *//p\" /proc/meminfo\n\
         cat /sys/devices/system/cpu/online\n\
         echo \"$RESERVED\"\necho \"$QUOTA\"\n"
    );
    let sized = executable_with("a", "size", "sh", |options| {
        options.input = Some(script.into_bytes());
    });
    let pid = node.start_as(sized).await.unwrap();
    node.wait("a", "size").await.unwrap();
    let says = node.stdout(pid).await.unwrap();
    let total = (300 << 10).to_string();
    assert_eq!(says.len(), 5, "{says:?}");
    assert_eq!(says[0], total);
    assert!(says[1].parse::<u64>().unwrap() <= 300 << 10, "{says:?}");
    let there = std::thread::available_parallelism().unwrap().get();
    let online = if there > 1 { "0" } else { &says[2] };
    assert_eq!(says[2], online);
    assert_eq!(says[3], "--system-reserved=cpu=300m");
    // The kernel would refuse a container more than that on cgroup v1.
    assert_eq!(says[4], "--cpu-cfs-quota=false");
}

/// As runc does for a container with a limit of 1250m.
#[tokio::test(flavor = "multi_thread")]
async fn group_in_nested_node_names_more_than_its_processor_and_is_held_to_it() {
    let outside = HostDaemon::start(STRATA).await;
    let small = MachineSpec {
        cpu_millis: Some(1000),
        ..machine("small")
    };
    let inside = outside.spawn(small).await;
    let node = &inside.node;
    node.allocate("a").await.unwrap();
    let own = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us; nproc";
    assert_eq!(node.shell("a", "own", own).await, "-1\n1");
    let busy = "set -e; group=/sys/fs/cgroup/cpu/container; mkdir $group; \
        echo 100000 >$group/cpu.cfs_period_us; echo 125000 >$group/cpu.cfs_quota_us; \
        echo $$ >$group/tasks; \
        for i in 1 2 3; do timeout 4 sh -c \"while :; do :; done\" & done; \
        wait; cat $group/cpu.cfs_quota_us";
    let usage = outside.daemon.host().cgroup("cpuacct");
    let usage = usage.join("_machines/small/cpuacct.usage");
    let nanoseconds = || -> u64 {
        let text = std::fs::read_to_string(&usage).unwrap();
        text.trim().parse().unwrap()
    };
    let (before, begin) = (nanoseconds(), std::time::Instant::now());
    assert_eq!(node.shell("a", "busy", busy).await, "125000");
    let (used, elapsed) = (nanoseconds() - before, begin.elapsed());
    let cores = used as f64 / elapsed.as_nanos() as f64;
    assert!((0.1..1.05).contains(&cores), "{cores} processors");
}

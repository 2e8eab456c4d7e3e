//! The lease ends what was assigned, whatever became of the daemon: the shim
//! holds it.

use std::time::Duration;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::serde_json::json;
use strata_testkit::{Ledger, SmallDisk, boot_time, holds, wait_for};

use super::{FAILOVER, STRATA, cluster, failover, node_of, pass};

/// What is done to a node so that its server hears nothing more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Killed,
    /// And the shim with it, which holds the lease.
    KilledWithShim,
    Frozen,
    Cut,
}

/// Runs an instance, does something to its node, waits until it runs elsewhere,
/// brings the node back, and looks at the ledger of the whole run.
pub(super) async fn exclusive_through(fault: Fault, lease: u64) {
    let mut cluster = cluster(lease, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    // Until both nodes have confirmed that they know each other.
    pass(Duration::from_secs(3)).await;
    let begin = boot_time();
    match fault {
        Fault::Killed => cluster.nodes[at].daemon.kill(),
        Fault::KilledWithShim => kill_with_shim(&mut cluster, at),
        Fault::Frozen => cluster.nodes[at].daemon.freeze(true),
        Fault::Cut => cluster.cut(at),
    }
    let second = failover(&ledger, "web", begin, lease).await;
    let took = second.first.saturating_sub(begin);
    let most = Duration::from_secs(lease) + FAILOVER;
    assert!(took <= most, "{fault:?}: {took:?}, not {most:?}");
    // Also while it comes back, and when it is back.
    match fault {
        Fault::Killed | Fault::KilledWithShim => cluster.nodes[at].daemon.restart().await,
        Fault::Frozen => cluster.nodes[at].daemon.freeze(false),
        Fault::Cut => cluster.heal(at),
    }
    cluster.followed(at, 2).await;
    cluster.settles(&["id-web"], &[]).await;
    pass(Duration::from_secs(1)).await;
    ledger.assert_exclusive(&["web"]);
    ledger.assert_running("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemon_leaves_no_second_run_with_a_lease_of_five_seconds() {
    exclusive_through(Fault::Killed, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemon_leaves_no_second_run_with_a_lease_of_ten_seconds() {
    exclusive_through(Fault::Killed, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_and_shim_killed_together_leave_no_second_run_with_a_lease_of_five_seconds() {
    exclusive_through(Fault::KilledWithShim, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_and_shim_killed_together_leave_no_second_run_with_a_lease_of_ten_seconds() {
    exclusive_through(Fault::KilledWithShim, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_and_shim_of_the_only_node_killed_together_stop_nothing() {
    let mut cluster = cluster(5, 1).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    pass(Duration::from_secs(2)).await;
    kill_with_shim(&mut cluster, 0);
    pass(Duration::from_secs(12)).await;
    ledger.assert_running("web").await;
    cluster.nodes[0].daemon.restart().await;
    cluster.followed(0, 2).await;
    cluster.settles(&["id-web"], &[]).await;
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_and_shim_that_are_back_within_the_lease_stop_nothing() {
    let mut cluster = cluster(10, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    pass(Duration::from_secs(3)).await;
    kill_with_shim(&mut cluster, at);
    cluster.nodes[at].daemon.restart().await;
    // Inits have another file from then on: the lease is renewed in that.
    pass(Duration::from_secs(22)).await;
    ledger.assert_running("web").await;
    assert_eq!(ledger.runs("web").len(), 1, "{:?}", ledger.runs("web"));
}

/// Kills the daemon of a node, and at once its shim.
fn kill_with_shim(cluster: &mut Cluster, at: usize) {
    let shims = shims(cluster, at);
    assert_eq!(shims.len(), 1, "{shims:?}");
    let pid = rustix::process::Pid::from_raw(shims[0]).unwrap();
    cluster.nodes[at].daemon.kill();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_daemon_leaves_no_second_run_with_a_lease_of_five_seconds() {
    exclusive_through(Fault::Frozen, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_daemon_leaves_no_second_run_with_a_lease_of_ten_seconds() {
    exclusive_through(Fault::Frozen, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_is_cut_off_leaves_no_second_run() {
    exclusive_through(Fault::Cut, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_restarted_again_and_again_does_not_stretch_its_lease() {
    restarts(10).await;
}

pub(super) async fn restarts(lease: u64) {
    let mut cluster = cluster(lease, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    let begin = boot_time();
    cluster.cut(at);
    while ledger.runs("web").len() < 2 {
        assert!(boot_time() < begin + TEST_TIMEOUT, "it never ran elsewhere");
        cluster.nodes[at].daemon.kill();
        cluster.nodes[at].daemon.restart().await;
        pass(Duration::from_secs(2)).await;
    }
    failover(&ledger, "web", begin, lease).await;
    for _ in 0..2 {
        cluster.nodes[at].daemon.kill();
        cluster.nodes[at].daemon.restart().await;
        pass(Duration::from_secs(1)).await;
    }
    ledger.assert_exclusive(&["web"]);
    cluster.heal(at);
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_does_not_keep_a_node_from_stopping() {
    full_disk(5).await;
}

pub(super) async fn full_disk(lease: u64) {
    let disk = SmallDisk::new(192 << 20);
    let config = format!("[scheduler]\nlease_seconds = {lease}\npolicy = \"spread\"\n");
    let mut cluster = Cluster::build(STRATA)
        .server_config(&config)
        .nodes(1)
        .start()
        .await;
    cluster.add_node_on(&disk.path()).await;
    let ledger = Ledger::new();
    let rather = json!([{ "test": "node=n2", "weight": 100_000 }]);
    let rather = json!({ "placement": { "preferences": rather } });
    ledger.create(&cluster, "web", rather).await;
    assert_eq!(node_of(&cluster, "web").await, 1);
    pass(Duration::from_secs(2)).await;
    let filling = disk.fill_but(0);
    let begin = boot_time();
    cluster.cut(1);
    failover(&ledger, "web", begin, lease).await;
    pass(Duration::from_secs(2)).await;
    ledger.assert_exclusive(&["web"]);
    std::fs::remove_file(filling).unwrap();
    cluster.heal(1);
    cluster.settles(&["id-web"], &[]).await;
    ledger.assert_exclusive(&["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn planned_restart_within_the_lease_stops_nothing() {
    let mut cluster = cluster(10, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    for times in 2..4 {
        cluster.nodes[at].daemon.terminate().await;
        cluster.nodes[at].daemon.restart().await;
        cluster.followed(at, times).await;
    }
    // The server, too.
    cluster.server.terminate().await;
    cluster.server.restart().await;
    cluster.followed(at, 4).await;
    pass(Duration::from_secs(10)).await;
    assert_eq!(ledger.runs("web").len(), 1);
    ledger.assert_running("web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shim_that_is_killed_is_replaced_and_holds_the_lease_again() {
    let mut cluster = cluster(5, 2).await;
    let ledger = Ledger::new();
    ledger.create(&cluster, "web", json!({})).await;
    let at = node_of(&cluster, "web").await;
    let shims = shims(&cluster, at);
    assert_eq!(shims.len(), 1, "{shims:?}");
    let pid = rustix::process::Pid::from_raw(shims[0]).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("another shim", TEST_TIMEOUT, async || {
        let now = self::shims(&cluster, at);
        holds(now.len() == 1 && now != shims).map_err(|_| format!("{now:?}"))
    })
    .await;
    // With the next heartbeat it holds the lease.
    pass(Duration::from_secs(2)).await;
    let begin = boot_time();
    cluster.nodes[at].daemon.kill();
    failover(&ledger, "web", begin, 5).await;
    pass(Duration::from_secs(1)).await;
    ledger.assert_exclusive(&["web"]);
    cluster.nodes[at].daemon.restart().await;
    cluster.settles(&["id-web"], &[]).await;
}

/// The shims of a node: those of its run, in the outermost group.
fn shims(cluster: &Cluster, node: usize) -> Vec<i32> {
    let data = cluster.nodes[node].daemon.data_dir();
    let run = std::fs::read_to_string(data.join("node/run")).unwrap();
    let group = format!("/strata/{}", run.trim());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_shim = |pid: &i32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        let command = read("cmdline").unwrap_or_default();
        let groups = read("cgroup").unwrap_or_default();
        command.starts_with("strata-init\0keeper\0")
            && groups
                .lines()
                .any(|line| line.ends_with(&group) || line.contains(&format!("{group}/_init")))
    };
    pids.filter(is_shim).collect()
}

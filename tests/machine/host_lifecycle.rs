//! The machine's own life: set up, reaped, mended, switched off.

use std::time::Duration;

use strata_testkit::observe::LogChannelType;
use strata_testkit::v1::{CellState, GetNodeInfoRequest, NodeInfo, PowerOffRequest};
use strata_testkit::{Code, Node, NodeClient, executable, holds, refused, wait_for};
use strata_types::Role;

use crate::host_shell::Machine;

/// Pids of the dead that nobody has asked after.
const ZOMBIES: &str = "grep -ls \"^State:.Z\" /proc/[0-9]*/status";

async fn info(node: &Node) -> Result<NodeInfo, String> {
    let answer = node.client().node().get_info(GetNodeInfoRequest {}).await;
    Ok(answer.map_err(|status| status.to_string())?.into_inner())
}

pub(crate) async fn the_machine_is_set_up(machine: &Machine) {
    let info = info(&machine.node).await.unwrap();
    assert!(info.owns_machine && info.cgroup_v2, "{info:?}");
    assert_ne!(info.process_id, 1, "PID 1 only looks after the daemon");
    let programs = machine.outside("readlink /proc/1/exe; cut -d \" \" -f 4 /proc/$PPID/stat");
    assert_eq!(programs.await, "/init\n1");

    let mounts = machine.outside("cut -d \" \" -f 2,3 /proc/mounts").await;
    for mount in [
        "/proc proc",
        "/sys sysfs",
        "/dev devtmpfs",
        "/dev/pts devpts",
        "/dev/shm tmpfs",
        "/run tmpfs",
        "/tmp tmpfs",
        "/sys/fs/cgroup cgroup2",
    ] {
        assert!(
            mounts.lines().any(|line| line == mount),
            "no {mount}: {mounts}"
        );
    }
    let loopback = machine.outside("ping -c 1 -W 5 127.0.0.1 >/dev/null && echo up");
    assert_eq!(loopback.await, "up");
}

/// A process whose parent ends before it is PID 1's.
pub(crate) async fn orphans_are_reaped(machine: &Machine) {
    let orphan = "sh -c \"sleep 1000 >/dev/null 2>&1 & echo \\$!\"";
    let pid = machine.outside(orphan).await;
    let parent = format!("grep PPid /proc/{pid}/status");
    assert_eq!(machine.outside(&parent).await, "PPid:\t1");
    machine.outside(&format!("kill {pid}")).await;
    let script = format!("test -e /proc/{pid} || echo gone");
    machine
        .wait_outside("the orphan to be reaped", &script, "gone")
        .await;
}

/// Many short runs in cells whose inits are killed under them.
pub(crate) async fn a_storm_leaves_no_zombies(machine: &Machine) {
    let node = &machine.node;
    for round in 0..5 {
        let name = format!("storm-{round}");
        node.allocate(&name).await.unwrap();
        for i in 0..5 {
            let run = format!("run-{i}");
            let command = "sh -c 'true & sleep 1000 & true & sleep 0.01'";
            node.start_as(executable(&name, &run, command))
                .await
                .unwrap();
        }
        let init = node.get(&name).await.unwrap().init_pid;
        machine.outside(&format!("kill -9 {init}")).await;
        wait_for("the cell to be dead", Duration::from_secs(20), async || {
            let state = node.get(&name).await.map_err(|s| s.to_string())?.state();
            holds(state == CellState::Dead)
        })
        .await;
        // The next start revives it.
        assert_eq!(node.shell(&name, "again", "echo back").await, "back");
        node.free(&name).await.unwrap();
    }
    machine.wait_outside("no zombies", ZOMBIES, "").await;
    let left = machine.outside("ps -o args | grep ^sleep; ls -d /sys/fs/cgroup/strata/*/storm*");
    assert!(!left.await.contains("storm-"), "cgroups are left");
}

/// The tests of `strata-cell`, run where cgroups are v2.
pub(crate) async fn the_mechanism_holds_on_cgroup_v2(machine: &Machine) {
    // On the root itself: what is mounted on it is not part of a private root.
    let descriptors = strata_testkit::rounds(48, 1024);
    let script = format!(
        "TMPDIR=/root DESCRIPTORS={descriptors} /bin/mechanism mechanism:: --test-threads 1"
    );
    let output = machine.outside(&script).await;
    assert!(output.contains("test result: ok."), "{output}");
    assert!(!output.contains(" 0 passed"), "{output}");
    let runs = machine
        .outside("ls -d /sys/fs/cgroup/strata/*/ | wc -l")
        .await;
    assert_eq!(runs, "1", "the node's run alone is left");
}

pub(crate) async fn the_daemons_death_is_a_restart(machine: &Machine) {
    let node = &machine.node;
    node.allocate("lasting").await.unwrap();
    node.allocate("lasting/inner").await.unwrap();
    let idle = node
        .start("lasting/inner", "idle", "sleep 1000")
        .await
        .unwrap();
    let waits = "sh -c 'mkfifo /run/end; read line </run/end; echo $line; exit 7'";
    let waiting = node.start("lasting", "waits", waits).await.unwrap();
    let before = info(node).await.unwrap();
    let init = node.get("lasting").await.unwrap().init_pid;

    let kill = format!(
        "test -p /run/end && kill -9 {} && echo meanwhile >/run/end",
        before.process_id
    );
    machine.order_that_ends_the_daemon(&kill).await;
    let after = wait_for("a new daemon", Duration::from_secs(60), async || {
        let now = info(node).await?;
        holds(now.process_id != before.process_id).map(|()| now)
    })
    .await;
    assert!(after.owns_machine, "{after:?}");
    let console = machine.guest.console();
    assert!(
        console.contains("the node daemon exited (signal 9)"),
        "{console}"
    );

    assert_eq!(node.get("lasting").await.unwrap().init_pid, init);
    let found = node.executable("lasting/inner", "idle").await.unwrap();
    assert_eq!(found.process_id, idle);
    assert!(node.is_running("lasting/inner", "idle").await);
    let ended = node.wait("lasting", "waits").await.unwrap();
    assert_eq!((ended.exit_code, ended.process_id), (Some(7), waiting));
    assert_eq!(node.stdout(waiting).await.unwrap(), ["meanwhile"]);
    machine.wait_outside("no zombies", ZOMBIES, "").await;
}

/// With cells that run, one of which has something to say before it ends.
pub(crate) async fn it_switches_itself_off(mut machine: Machine) {
    let node = &machine.node;
    let last_words = "sh -c 'trap \"echo last words >/dev/console; exit\" TERM; \
        echo on disk >/data/file; echo set; while :; do sleep 0.1; done'";
    let pid = node.start("lasting", "polite", last_words).await.unwrap();
    let mut lines = node
        .stream(LogChannelType::ChannelStdout, pid)
        .await
        .unwrap();
    assert_eq!(lines.message().await.unwrap().unwrap().line, "set");

    for role in [Role::Viewer, Role::Operator] {
        let client = NodeClient::connect(&machine.guest.target(role))
            .await
            .unwrap();
        let answer = client.node().power_off(PowerOffRequest {}).await;
        refused(answer.map(drop), Code::PermissionDenied);
    }
    assert!(node.is_running("lasting", "polite").await);
    assert!(!is_clean(&machine.guest.disk().unwrap()));

    let power_off = node.client().node().power_off(PowerOffRequest {}).await;
    power_off.unwrap();
    let status = machine.guest.wait_off(Duration::from_secs(15)).await;
    let console = machine.guest.console();
    assert!(status.success(), "{status}");
    // Told once, and nobody had to be waited for.
    assert_eq!(console.matches("last words").count(), 1, "{console}");
    let (_, end) = console
        .split_once("strata: stopping all processes")
        .unwrap();
    let said: Vec<_> = end
        .lines()
        .filter(|line| line.starts_with("strata: "))
        .collect();
    assert_eq!(said, ["strata: powering off"], "{console}");
    assert!(end.contains("reboot: Power down"), "{console}");
    let disk = machine.guest.disk().unwrap();
    assert!(is_clean(&disk), "the disk was not unmounted");
    assert!(disk.windows(8).any(|bytes| bytes == b"on disk\n"));
}

/// Whether an ext2 file system says of itself that it was unmounted: the
/// state in its superblock.
fn is_clean(disk: &[u8]) -> bool {
    disk[1024 + 58] & 1 == 1
}

//! Cells in the machine: apart from it, several at once, gone without trace.

use std::time::Duration;

use strata_testkit::cell_with;
use strata_testkit::observe::LogChannelType;
use strata_testkit::v1::{CellNetwork, ReadLogsRequest};

use crate::host_shell::Machine;

const NAMESPACES: &str =
    "for name in pid mnt uts ipc cgroup net; do readlink /proc/self/ns/$name; done";

pub(crate) async fn namespaces_are_the_cells_own(machine: &Machine) {
    let node = &machine.node;
    node.allocate("apart").await.unwrap();
    let isolated = cell_with("isolated", |options| {
        options.set_network(CellNetwork::Isolated);
    });
    node.allocate_as(isolated).await.unwrap();
    let ours = machine.outside(NAMESPACES).await;
    let apart = node.shell("apart", "look", NAMESPACES).await;
    let isolated = node.shell("isolated", "look", NAMESPACES).await;
    let same = |a: &str, b: &str| -> Vec<bool> {
        assert_eq!((a.lines().count(), b.lines().count()), (6, 6), "{a} {b}");
        a.lines().zip(b.lines()).map(|(a, b)| a == b).collect()
    };
    // The network is the machine's unless asked otherwise.
    assert_eq!(
        same(&ours, &apart),
        [false, false, false, false, false, true]
    );
    assert_eq!(same(&ours, &isolated), [false; 6]);
    let interfaces = "cat /sys/class/net/lo/flags; sed 1,2d /proc/net/dev | cut -d: -f1";
    let found = node.shell("isolated", "look", interfaces).await;
    let found: Vec<_> = found.split_whitespace().skip(1).collect();
    assert_eq!(found, ["lo"]);
    let first = node.shell("apart", "look", "cat /proc/1/comm").await;
    assert_eq!(first, "strata-init");
    node.free("isolated").await.unwrap();
}

pub(crate) async fn several_run_at_once_and_their_output_arrives(machine: &Machine) {
    let node = &machine.node;
    let live = "sh -c 'echo first; mkfifo /run/gate; read line </run/gate; echo $line; \
        echo oops >&2; printf partial'";
    let talker = node.start("apart", "talker", live).await.unwrap();
    let other = node.start("apart", "other", "sleep 1000").await.unwrap();
    assert_ne!(talker, other);
    let mut lines = node
        .stream(LogChannelType::ChannelStdout, talker)
        .await
        .unwrap();
    assert_eq!(lines.message().await.unwrap().unwrap().line, "first");
    machine
        .outside("echo second >/run/gate; rm /run/gate")
        .await;
    assert_eq!(lines.message().await.unwrap().unwrap().line, "second");
    assert_eq!(lines.message().await.unwrap().unwrap().line, "partial");
    assert!(lines.message().await.unwrap().is_none());

    let ended = node.wait("apart", "talker").await.unwrap();
    assert_eq!(ended.exit_code, Some(0));
    let request = ReadLogsRequest {
        cell_name: "apart".into(),
        executable_name: "talker".into(),
        stderr: true,
        ..Default::default()
    };
    let mut errors = node.read(request).await.unwrap();
    assert_eq!(
        errors.message().await.unwrap().unwrap().line.as_ref(),
        b"oops"
    );
    assert!(node.is_running("apart", "other").await);
    node.stop("apart", "other").await.unwrap();
    let ended = node.wait("apart", "other").await.unwrap();
    assert_eq!(ended.signal, Some(15), "{ended:?}");
}

/// One that obeys, one in a session of its own, one that went a step
/// further, and a leader that ignores the signal.
pub(crate) async fn stop_takes_along_all_that_was_forked(machine: &Machine) {
    let node = &machine.node;
    let script = "sh -c 'trap \"\" TERM; sleep 4711 & setsid sleep 4711 & (setsid sleep 4711 &) ; \
        echo forked; while :; do sleep 4711; done'";
    let pid = node.start("apart", "stubborn", script).await.unwrap();
    let mut lines = node
        .stream(LogChannelType::ChannelStdout, pid)
        .await
        .unwrap();
    assert_eq!(lines.message().await.unwrap().unwrap().line, "forked");
    let count = "ps -o args | grep -c \"^sleep 4711\"";
    machine.wait_outside("all of it to run", count, "4").await;
    let grace = Duration::from_millis(200);
    node.stop_within("apart", "stubborn", grace).await.unwrap();
    assert_eq!(machine.outside(count).await, "0");
    let ended = node.wait("apart", "stubborn").await.unwrap();
    assert_eq!(ended.signal, Some(9), "{ended:?}");
}

pub(crate) async fn free_leaves_nothing(machine: &Machine) {
    let node = &machine.node;
    node.start("apart", "idle", "sleep 4712").await.unwrap();
    for cell in ["limited", "apart"] {
        node.free(cell).await.unwrap();
    }
    assert_eq!(node.names().await, ["hand"]);
    let look = "cd /sys/fs/cgroup/strata/*/ && ls -d */; ps -o args | grep ^sleep; \
        find /var/lib/strata/node/cells -maxdepth 1 -mindepth 1";
    let left = machine.outside(look).await;
    assert_eq!(left, "_init/\nhand/\n/var/lib/strata/node/cells/hand");
}

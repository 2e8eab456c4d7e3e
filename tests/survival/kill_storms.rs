//! `kill -9` in the middle of many calls, again and again. After each start
//! every cell is whole or gone, and the machine holds what the node says it
//! does and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use strata_testkit::v1::{CellState, ExecutableState};
use strata_testkit::{Code, Daemon, Node, TEST_TIMEOUT, holds, wait_for};
use tokio::task::JoinSet;

use crate::survival::STRATA;

const ROUNDS: usize = 30;
const CLIENTS: usize = 6;

/// One client: allocates, starts, stops and frees in an order of its own
/// until the daemon is gone. Answers may be refusals; they may not be bugs.
async fn client(node: Node, number: usize, done: Arc<AtomicUsize>) {
    let names = ["a", "a/x", "b", "b/y", "c"];
    for step in number * 7.. {
        let cell = names[step % names.len()];
        let run = format!("e{}", step % 3);
        let answer = match (step / 2 + number) % 6 {
            0 | 1 => node.allocate(cell).await.map(drop),
            2 | 3 => node.start(cell, &run, "sleep 1000").await.map(drop),
            4 => node.stop(cell, &run).await,
            _ => node.free_now(cell).await,
        };
        match answer.map_err(|status| status.code()) {
            Ok(())
            | Err(
                Code::NotFound | Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted,
            ) => {}
            Err(Code::Internal) => panic!("a bug at step {step} of client {number}"),
            // The daemon is gone.
            Err(_) => return,
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_anything_it_comes_back_whole() {
    let mut daemon = Daemon::build(STRATA).start().await;
    for round in 0..ROUNDS {
        let done = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(client(daemon.node().await, number + round, done.clone()));
        }
        wait_for("the storm to blow", TEST_TIMEOUT, async || {
            holds(done.load(Ordering::Relaxed) >= 5 + round * 3)
        })
        .await;
        daemon.kill();
        clients.join_all().await;
        daemon.restart().await;
        is_whole(&daemon).await;
    }
    let node = daemon.node().await;
    for name in node.names().await.iter().filter(|name| !name.contains('/')) {
        node.free_now(name).await.unwrap();
    }
    let left = daemon.host().look();
    let names: Vec<&String> = left.processes.values().collect();
    assert_eq!(names.len(), 2, "the daemon and the shim: {names:?}");
    let root = daemon.host().cgroup("pids");
    let run = root.file_name().unwrap();
    assert!(
        left.cgroups.iter().all(|path| path.ends_with(run)),
        "{left:?}"
    );
}

/// Holds what the node says against what the machine has.
async fn is_whole(daemon: &Daemon) {
    let node = daemon.node().await;
    let cells = node.list().await.expect("it answers");
    let mut runs = 0;
    for cell in &cells {
        assert_eq!(cell.state(), CellState::Ready, "{cell:?}");
        let is_running =
            |e: &&strata_testkit::v1::ExecutableInfo| e.state() == ExecutableState::Running;
        runs += cell.executables.iter().filter(is_running).count();
    }
    let traces = wait_for("the dead to be reaped", TEST_TIMEOUT, async || {
        let traces = daemon.host().look();
        holds(traces.zombies.is_empty()).map(|()| traces)
    })
    .await;
    let count = |name: &str| traces.processes.values().filter(|n| *n == name).count();
    assert_eq!(count("sleep"), runs, "{traces:?} {cells:?}");
    let shim = usize::from(count("strata-init") > 0);
    assert_eq!(
        count("strata-init"),
        cells.len() + shim,
        "{traces:?} {cells:?}"
    );

    let root = daemon.host().cgroup("pids");
    let below = traces
        .cgroups
        .iter()
        .filter_map(|path| path.strip_prefix(&root).ok());
    let (run_groups, cell_groups): (BTreeSet<_>, BTreeSet<_>) = below
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| path.to_string_lossy().into_owned())
        .partition(|path| path.contains("/_r"));
    let names: BTreeSet<String> = cells.iter().map(|cell| cell.name.clone()).collect();
    assert_eq!(cell_groups, names);
    assert_eq!(run_groups.len(), runs, "{run_groups:?} {cells:?}");
}

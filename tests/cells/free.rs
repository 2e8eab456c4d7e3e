//! Free: everything goes, children first, and is really gone.

use std::time::{Duration, Instant};

use strata_testkit::faults::{Step, Tracer};
use strata_testkit::v1::CellState;
use strata_testkit::{Code, Daemon, TEST_TIMEOUT, executable_with, holds, refused, wait_for};

use crate::cells::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_freed_cell_is_gone_with_all_in_it() {
    let (daemon, node) = Daemon::up(STRATA).await;
    // The shim and the run's own groups stay until the daemon ends.
    node.allocate("warm").await.unwrap();
    let before = daemon.host().settled().await;
    for name in ["web", "web/a", "web/a/b", "web/c"] {
        node.allocate(name).await.unwrap();
        node.start(name, "main", "sh -c 'setsid sleep 1000 & sleep 1000'")
            .await
            .unwrap();
    }
    assert!(daemon.host().look().processes.len() > before.processes.len());
    node.free("web").await.unwrap();
    daemon.host().returns_to(&before).await;
    assert_eq!(node.names().await, ["warm"]);
    assert!(!daemon.data_dir().join("node/cells/web").exists());
    refused(node.get("web").await, Code::NotFound);
    refused(node.start("web", "x", "true").await, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn freeing_an_inner_cell_leaves_the_outer_one_alone() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    for name in ["a", "a/b", "a/c"] {
        node.allocate(name).await.unwrap();
        node.start(name, "main", "sleep 1000").await.unwrap();
    }
    node.free("a/b").await.unwrap();
    assert_eq!(node.names().await, ["a", "a/c"]);
    assert!(node.is_running("a", "main").await);
    assert!(node.is_running("a/c", "main").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn freeing_twice_is_fine_and_freeing_the_unknown_is_not() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    for _ in 0..3 {
        node.free("web").await.unwrap();
    }
    let words = refused(node.free("none").await, Code::NotFound);
    assert!(words.contains("none"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn graces_run_side_by_side() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let stubborn = "sh -c 'trap \"\" TERM; while :; do sleep 1; done'";
    for cell in ["a", "a/b"] {
        node.allocate(cell).await.unwrap();
        for name in ["one", "two", "three"] {
            let wanted = executable_with(cell, name, stubborn, |options| {
                options.stop_grace_ms = Some(1000);
            });
            node.start_as(wanted).await.unwrap();
        }
    }
    let begin = Instant::now();
    node.free("a").await.unwrap();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(5), "six graces took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_freed_a_cell_says_so_and_takes_nothing_in() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start_deaf("web", "main", 600_000).await.unwrap();
    let freeing = tokio::spawn({
        let node = node.clone();
        async move { node.free("web").await }
    });
    wait_for("the cell to be freeing", TEST_TIMEOUT, async || {
        holds(node.get("web").await.unwrap().state() == CellState::Freeing)
    })
    .await;
    refused(
        node.start("web", "late", "true").await,
        Code::FailedPrecondition,
    );
    refused(node.allocate("web").await, Code::FailedPrecondition);
    refused(node.allocate("web/in").await, Code::FailedPrecondition);
    node.free_now("web").await.unwrap();
    freeing.await.unwrap().unwrap();
    node.allocate("web").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_of_a_freed_cell_is_notified() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "main", "sleep 1000").await.unwrap();
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.wait("web", "main").await }
    });
    node.free("web").await.unwrap();
    match waiting.await.unwrap() {
        Ok(ended) => assert_eq!(ended.signal, Some(15)),
        // It came after the cell had gone.
        Err(status) => assert_eq!(status.code(), Code::NotFound),
    }
}

/// The daemon dies at each file that Free removes. Whatever is left of the cell
/// is cleared at the next start, and Free again is no error.
#[tokio::test(flavor = "multi_thread")]
async fn free_that_a_crash_cut_off_is_ok_when_repeated() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    node.allocate("web").await.unwrap();
    let tracer = Tracer::attach(daemon.pid(), &daemon.data_dir(), None);
    node.free("web").await.unwrap();
    let removes = |step: &Step| ["unlink", "unlinkat", "rmdir"].contains(&step.call.as_str());
    let steps: Vec<Step> = tracer.finish().steps(2);
    let mut struck = 0;
    for step in steps.into_iter().filter(removes) {
        let node = daemon.node().await;
        // A name that was never freed before.
        let name = format!("web-{struck}");
        node.allocate(&name).await.unwrap();
        let tracer = Tracer::attach(daemon.pid(), &daemon.data_dir(), Some(step.clone()));
        drop(node.free(&name).await);
        struck += usize::from(tracer.finish().struck.is_some());
        daemon.kill();
        daemon.restart().await;
        let freed = daemon.node().await.free(&name).await;
        assert!(freed.is_ok(), "{step}: {freed:?}");
    }
    assert!(struck > 1, "the daemon died {struck} times");
}

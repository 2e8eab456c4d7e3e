//! Callers that want different things of one cell at the same time.

use strata_testkit::v1::CellState;
use strata_testkit::{Code, Daemon, Node, cell_with};
use tokio::task::JoinSet;

use crate::cells::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn many_who_allocate_the_same_cell_all_get_it() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    for round in 0..5 {
        let name = format!("web-{round}");
        let mut tasks = JoinSet::new();
        for _ in 0..20 {
            let (node, name) = (node.clone(), name.clone());
            tasks.spawn(async move { node.allocate(&name).await });
        }
        for answer in tasks.join_all().await {
            assert_eq!(answer.unwrap().cell_name, name);
        }
    }
    assert_eq!(node.names().await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_want_different_cells_of_one_name_one_wins() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let mut tasks = JoinSet::new();
    for pids in 10..30 {
        let node = node.clone();
        let wanted = cell_with("web", |options| options.pids_max = Some(pids));
        tasks.spawn(async move { (pids, node.allocate_as(wanted).await) });
    }
    let answers = tasks.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, a)| a.is_ok());
    assert_eq!(won.len(), 1);
    for (_, answer) in lost {
        assert_eq!(answer.unwrap_err().code(), Code::AlreadyExists);
    }
    let shown = node.get("web").await.unwrap().options.unwrap();
    assert_eq!(shown.pids_max, Some(won[0].0));
}

/// Calls that lost a race say so; anything else is a bug.
fn is_honest(code: Code) -> bool {
    matches!(
        code,
        Code::NotFound | Code::FailedPrecondition | Code::Aborted | Code::Unavailable
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn free_in_the_middle_of_starts_leaves_nothing() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let before = daemon.host().settled().await;
    for _ in 0..25 {
        node.allocate("web").await.unwrap();
        let mut tasks = JoinSet::new();
        for i in 0..8 {
            let node = node.clone();
            tasks.spawn(async move {
                let name = format!("e{i}");
                node.start("web", &name, "sleep 1000").await.map(drop)
            });
        }
        let freeing = node.clone();
        tasks.spawn(async move { freeing.free("web").await });
        for answer in tasks.join_all().await {
            if let Err(status) = answer {
                assert!(is_honest(status.code()), "{status:?}");
            }
        }
        node.free("web").await.unwrap();
        daemon.host().returns_to(&before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn free_while_it_is_allocated_leaves_it_whole_or_gone() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let before = daemon.host().settled().await;
    for _ in 0..40 {
        let (one, two) = (node.clone(), node.clone());
        let allocated = tokio::spawn(async move { one.allocate("web").await });
        let freed = tokio::spawn(async move { two.free("web").await });
        allocated.await.unwrap().unwrap();
        if let Err(status) = freed.await.unwrap() {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
        }
        if let Ok(cell) = node.get("web").await {
            assert_eq!(cell.state(), CellState::Ready);
            let words = node.shell("web", "works", "echo yes").await;
            assert_eq!(words, "yes");
        }
        node.free("web").await.unwrap();
        daemon.host().returns_to(&before).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_comes_while_the_one_around_it_goes_does_not_outlive_it() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let before = daemon.host().settled().await;
    for _ in 0..40 {
        let mut tasks = JoinSet::new();
        for name in ["web", "web/in", "web/in"] {
            let node = node.clone();
            tasks.spawn(async move { node.allocate(name).await.map(drop) });
        }
        let freeing = node.clone();
        tasks.spawn(async move { freeing.free("web").await });
        for answer in tasks.join_all().await {
            if let Err(status) = answer {
                assert!(is_honest(status.code()), "{status:?}");
            }
        }
        node.allocate("web").await.unwrap();
        node.free("web").await.unwrap();
        assert_eq!(node.names().await, ["warm"]);
        daemon.host().returns_to(&before).await;
    }
}

/// Allocates, uses and frees one cell, over and over, beside others who do
/// the same.
async fn churn(node: Node, rounds: usize) {
    for _ in 0..rounds {
        let answers = [
            node.allocate("web").await.map(drop),
            node.start("web", "main", "sleep 1000").await.map(drop),
            node.free_now("web").await,
        ];
        for status in answers.into_iter().filter_map(Result::err) {
            let code = status.code();
            assert!(is_honest(code) || code == Code::AlreadyExists, "{status:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_freed_and_taken_again_all_the_time_is_never_torn() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("warm").await.unwrap();
    let before = daemon.host().settled().await;
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        tasks.spawn(churn(node.clone(), 40));
    }
    tasks.join_all().await;
    if node.allocate("web").await.is_ok() {
        assert_eq!(node.shell("web", "last", "echo whole").await, "whole");
    }
    node.free("web").await.unwrap();
    daemon.host().returns_to(&before).await;
    assert_eq!(node.names().await, ["warm"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_starts_short_lived_things_in_one_cell_does_not_lose_it() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start("web", "anchor", "sleep 1000").await.unwrap();
    let mut tasks = JoinSet::new();
    for i in 0..700 {
        let node = node.clone();
        tasks.spawn(async move {
            let name = format!("e{i}");
            let started = node.start("web", &name, "true").await;
            if let Err(status) = &started {
                // No more room for a moment is an honest answer.
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
            }
            started.is_ok()
        });
    }
    let started = tasks.join_all().await.into_iter().filter(|ok| *ok).count();
    assert!(started > 100, "{started}");
    let cell = node.get("web").await.unwrap();
    assert_eq!(cell.state(), CellState::Ready, "{}", cell.reason);
    assert!(node.is_running("web", "anchor").await);
    for executable in cell.executables.iter().filter(|e| e.name != "anchor") {
        let ended = node.wait("web", &executable.name).await.unwrap();
        assert_eq!(ended.exit_code, Some(0), "{ended:?}");
    }
}

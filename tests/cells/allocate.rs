//! Allocate: what a cell is once it is there.

use std::fs;

use strata_testkit::v1::CellState;
use strata_testkit::{Code, Daemon, cell, cell_with, field_of, refused};

use crate::cells::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn an_allocated_cell_has_its_cgroup_and_its_init() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let mut wanted = cell("web");
    wanted.cpu_shares = 512;
    let answer = node.allocate_as(wanted).await.unwrap();
    assert_eq!(answer.cell_name, "web");
    let info = node.get("web").await.unwrap();
    assert_eq!(info.state(), CellState::Ready);
    assert_eq!(info.cgroup_v2, answer.cgroup_v2);
    assert_eq!(info.cpu_shares, 512);
    let init = i32::try_from(info.init_pid).unwrap();
    assert!(daemon.host().look().processes.contains_key(&init));
    let group = daemon.host().cgroup("cpu").join("web");
    if !answer.cgroup_v2 {
        let shares = fs::read_to_string(group.join("cpu.shares")).unwrap();
        assert_eq!(shares.trim(), "512");
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert!(members.lines().any(|pid| pid == init.to_string()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_have_a_default_and_bounds() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("default").await.unwrap();
    assert_eq!(node.get("default").await.unwrap().cpu_shares, 1024);
    for (name, shares) in [("least", 2), ("most", 262_144)] {
        let mut wanted = cell(name);
        wanted.cpu_shares = shares;
        node.allocate_as(wanted).await.unwrap();
        assert_eq!(node.get(name).await.unwrap().cpu_shares, shares);
    }
    for shares in [1, 262_145, u64::MAX] {
        let mut wanted = cell("wrong");
        wanted.cpu_shares = shares;
        let status = node.allocate_as(wanted).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{shares}");
        assert_eq!(field_of(&status).as_deref(), Some("cell.cpu_shares"));
    }
    assert_eq!(node.names().await, ["default", "least", "most"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nested_cell_needs_the_one_around_it() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let words = refused(node.allocate("a/b").await, Code::FailedPrecondition);
    assert!(words.contains("\"a\""), "{words}");
    for name in ["a", "a/b", "a/b/c"] {
        assert_eq!(node.allocate(name).await.unwrap().cell_name, name);
    }
    assert_eq!(node.names().await, ["a", "a/b", "a/b/c"]);
    assert!(daemon.host().cgroup("pids").join("a/b/c").is_dir());
    refused(node.allocate("a/x/c").await, Code::FailedPrecondition);
    let deepest = "a/b/c/d/e/f/g/h";
    for depth in 4..=8 {
        let name: Vec<&str> = deepest.split('/').take(depth).collect();
        node.allocate(&name.join("/")).await.unwrap();
    }
    let host = node.shell(deepest, "name", "hostname").await;
    assert_eq!(host, "a-b-c-d-e-f-g-h");
    refused(
        node.allocate("a/b/c/d/e/f/g/h/i").await,
        Code::InvalidArgument,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_refused_and_not_trimmed() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let long = "a".repeat(64);
    let bad = [
        "", " ", "a ", " a", "A", "a_b", "-a", "a-", "/", "/a", "a/", "a//b", ".", "..", "../a",
        "a/..", "a\0b", "ü", "a\n", &long,
    ];
    for name in bad {
        let status = node.allocate(name).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{name:?}");
        assert_eq!(field_of(&status).as_deref(), Some("cell.name"), "{name:?}");
    }
    assert!(node.names().await.is_empty());
    node.allocate(&"a".repeat(63)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cell_allocation_is_idempotent() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let wanted = cell_with("web", |options| options.pids_max = Some(50));
    let first = node.allocate_as(wanted.clone()).await.unwrap();
    let before = node.get("web").await.unwrap();
    assert_eq!(node.allocate_as(wanted.clone()).await.unwrap(), first);
    assert_eq!(node.get("web").await.unwrap().init_pid, before.init_pid);

    let other = cell_with("web", |options| options.pids_max = Some(51));
    let words = refused(node.allocate_as(other).await, Code::AlreadyExists);
    assert!(words.contains("web"), "{words}");
    let mut heavier = wanted;
    heavier.cpu_shares = 7;
    refused(node.allocate_as(heavier).await, Code::AlreadyExists);
    assert_eq!(node.get("web").await.unwrap().options, before.options);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_without_a_message_is_refused_by_name() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let request = strata_testkit::runtime::AllocateCellRequest { cell: None };
    let status = node.client().cell_service().allocate(request).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(field_of(&status).as_deref(), Some("cell"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freed_name_can_be_used_for_another_cell() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    for pids in 10..15 {
        let wanted = cell_with("web", |options| options.pids_max = Some(pids));
        node.allocate_as(wanted).await.unwrap();
        let shown = node.get("web").await.unwrap().options.unwrap();
        assert_eq!(shown.pids_max, Some(pids));
        node.free("web").await.unwrap();
    }
}

/// `tasks` is a file in every group of cgroup v1.
#[tokio::test(flavor = "multi_thread")]
async fn cell_may_have_the_name_of_a_file_of_the_kernel() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let before = daemon.host().settled().await;
    for name in ["tasks", "tasks/tasks", "w", "w/tasks"] {
        node.allocate(name).await.unwrap();
        node.start(name, "main", "sleep 1000").await.unwrap();
    }
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    assert_eq!(node.names().await, ["tasks", "tasks/tasks", "w", "w/tasks"]);
    for name in ["tasks", "tasks/tasks", "w", "w/tasks"] {
        assert!(node.is_running(name, "main").await, "{name}");
    }
    for name in ["tasks", "w"] {
        node.free(name).await.unwrap();
    }
    assert_eq!(daemon.host().settled().await.cgroups, before.cgroups);
}

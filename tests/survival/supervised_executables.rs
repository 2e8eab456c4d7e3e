//! Executables that are started again, whatever happens to the daemon that
//! sees to it.

use strata_testkit::v1::ExecutableRestart::{Always, OnFailure};
use strata_testkit::v1::{ExecutableInfo, ExecutableState};
use strata_testkit::{Daemon, supervised};

use crate::survival::{STRATA, after, gone, kill};

fn waits(executable: &ExecutableInfo) -> bool {
    executable.state() == ExecutableState::Waiting
}

fn runs(executable: &ExecutableInfo) -> bool {
    executable.state() == ExecutableState::Running
}

#[tokio::test(flavor = "multi_thread")]
async fn executable_that_exits_during_daemon_downtime_is_restarted() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    let go = daemon.gate("go");
    node.allocate("web").await.unwrap();
    let mut pids = Vec::new();
    for (name, policy, code) in [
        ("always", Always, 0),
        ("fails", OnFailure, 3),
        ("succeeds", OnFailure, 0),
    ] {
        let script = after(&go, &format!("exit {code}"));
        let wanted = supervised("web", name, &script, policy);
        pids.push(node.start_as(wanted).await.unwrap());
    }
    let stays = supervised("web", "stays", "sleep 1000", Always);
    let stays = node.start_as(stays).await.unwrap();
    daemon.kill();
    go.open();
    for pid in &pids {
        gone(*pid).await;
    }
    go.close();
    daemon.restart().await;
    let node = daemon.node().await;
    for (name, before) in [("always", pids[0]), ("fails", pids[1])] {
        let now = node.executable_until("web", name, runs).await;
        assert_ne!(now.process_id, before);
        assert_eq!(now.restarts, 1, "{now:?}");
    }
    let succeeded = node.wait("web", "succeeds").await.unwrap();
    assert_eq!(succeeded.process_id, pids[2], "{succeeded:?}");
    let stayed = node.executable("web", "stays").await.unwrap();
    assert_eq!((stayed.process_id, stayed.restarts), (stays, 0));
    // And it is seen to from then on.
    kill(stays);
    let again = |now: &ExecutableInfo| runs(now) && now.restarts == 1;
    node.executable_until("web", "stays", again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_goes_on_where_it_was() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start_as(supervised("web", "main", "false", OnFailure))
        .await
        .unwrap();
    let late = |now: &ExecutableInfo| now.restarts >= 4 && waits(now);
    let before = node.executable_until("web", "main", late).await;
    daemon.kill();
    daemon.restart().await;
    let node = daemon.node().await;
    let now = node.executable("web", "main").await.unwrap();
    if now.restarts == before.restarts {
        // The same run, which waits for the same moment.
        assert_eq!(now.next_start_at_ms, before.next_start_at_ms, "{now:?}");
    }
    let next = |now: &ExecutableInfo| now.restarts > before.restarts && waits(now);
    let next = node.executable_until("web", "main", next).await;
    assert!(
        next.next_start_at_ms - next.ended_at_ms >= 3_000,
        "{next:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_executable_stays_stopped() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start_as(supervised("web", "loops", "false", Always))
        .await
        .unwrap();
    node.start_as(supervised("web", "idle", "sleep 1000", Always))
        .await
        .unwrap();
    node.executable_until("web", "loops", waits).await;
    node.stop("web", "loops").await.unwrap();
    node.stop("web", "idle").await.unwrap();
    let before = node.executable("web", "loops").await.unwrap();
    let init = node.get("web").await.unwrap().init_pid;
    daemon.kill();
    // Also when all of it went, as it does with the machine.
    kill(init);
    gone(init).await;
    daemon.restart().await;
    let node = daemon.node().await;
    for name in ["loops", "idle"] {
        let now = node.wait("web", name).await.unwrap();
        assert_eq!(now.state(), ExecutableState::Exited, "{now:?}");
    }
    let now = node.executable("web", "loops").await.unwrap();
    assert_eq!(now.process_id, before.process_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_was_cut_short_holds() {
    let (mut daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let deaf = "sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 0.1; done'";
    let pid = node
        .start_as(supervised("web", "main", deaf, Always))
        .await
        .unwrap();
    let stopping = tokio::spawn({
        let node = node.clone();
        async move { node.stop("web", "main").await }
    });
    let told = |now: &ExecutableInfo| now.state() == ExecutableState::Stopping;
    node.executable_until("web", "main", told).await;
    daemon.kill();
    let _ = stopping.await;
    kill(pid);
    gone(pid).await;
    daemon.restart().await;
    let ended = daemon.node().await.wait("web", "main").await.unwrap();
    assert_eq!((ended.process_id, ended.restarts), (pid, 0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn executables_stopped_with_the_daemon_are_restarted_with_it() {
    let mut daemon = Daemon::build(STRATA).arg("--stop-workloads").start().await;
    let node = daemon.node().await;
    node.allocate("kept").await.unwrap();
    node.allocate("kept/in").await.unwrap();
    node.allocate("plain").await.unwrap();
    let wanted = supervised("kept/in", "main", "sleep 1000", OnFailure);
    let pid = node.start_as(wanted).await.unwrap();
    node.start("plain", "main", "sleep 1000").await.unwrap();
    let (status, _) = daemon.terminate().await;
    assert!(status.success(), "{status}");
    gone(pid).await;
    daemon.restart().await;
    let node = daemon.node().await;
    let now = node.executable_until("kept/in", "main", runs).await;
    assert_ne!(now.process_id, pid);
    assert_eq!(node.names().await, ["kept", "kept/in"]);
}

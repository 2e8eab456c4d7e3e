//! Executables that are started again when they end, in time, until somebody
//! wants them to end.

use std::fs;

use strata_testkit::v1::ExecutableRestart::{Always, Never, OnFailure};
use strata_testkit::v1::{ExecutableInfo, ExecutableState};
use strata_testkit::{Code, Daemon, TEST_TIMEOUT, holds, refused, supervised, wait_for};

use crate::cells::STRATA;

fn waits(executable: &ExecutableInfo) -> bool {
    executable.state() == ExecutableState::Waiting
}

fn runs(executable: &ExecutableInfo) -> bool {
    executable.state() == ExecutableState::Running
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_say_what_follows_an_end() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    for (name, policy, text, again) in [
        ("always-well", Always, "exit 0", true),
        ("always-badly", Always, "exit 1", true),
        ("failure-well", OnFailure, "exit 0", false),
        ("failure-badly", OnFailure, "exit 1", true),
        ("failure-killed", OnFailure, "kill -9 $$", true),
        ("never-badly", Never, "exit 1", false),
    ] {
        let command = format!("sh -c '{text}'");
        let wanted = supervised("web", name, &command, policy);
        node.start_as(wanted).await.unwrap();
        if again {
            let twice = |now: &ExecutableInfo| now.restarts >= 2 && waits(now);
            let now = node.executable_until("web", name, twice).await;
            assert!(now.next_start_at_ms >= now.ended_at_ms + 400, "{now:?}");
            assert!(!now.reason.is_empty(), "{now:?}");
            assert_eq!(now.options.unwrap().restart(), policy);
            continue;
        }
        let ended = node.wait("web", name).await.unwrap();
        assert_eq!(ended.state(), ExecutableState::Exited, "{ended:?}");
        assert_eq!((ended.restarts, ended.next_start_at_ms), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waits_of_a_crash_loop_double() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let times = daemon.scratch().join("times");
    let command = format!("sh -c 'date +%s%3N >>{}; exit 3'", times.display());
    node.start_as(supervised("web", "main", &command, OnFailure))
        .await
        .unwrap();
    let fifth = |now: &ExecutableInfo| now.restarts >= 4 && waits(now);
    let now = node.executable_until("web", "main", fifth).await;
    assert_eq!((now.exit_code, now.reason.as_str()), (Some(3), "exit 3"));
    let times = fs::read_to_string(times).unwrap();
    let times: Vec<i64> = times.lines().map(|line| line.parse().unwrap()).collect();
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A busy machine makes them longer, nothing makes them shorter.
    for (gap, least) in gaps.iter().zip([100, 200, 400, 800]) {
        assert!(*gap >= least - 10, "{gaps:?}");
    }
    // Three runs of it are kept, as of any other name.
    let dir = daemon.data_dir().join("node/cells/web");
    wait_for("older runs to be forgotten", TEST_TIMEOUT, async || {
        let entries = fs::read_dir(&dir).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        holds(names.filter(|name| name.starts_with("run-")).count() == 3)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_one_that_waits_and_one_that_runs_for_good() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.start_as(supervised("web", "loops", "false", Always))
        .await
        .unwrap();
    let ninth = |now: &ExecutableInfo| now.restarts >= 3 && waits(now);
    node.executable_until("web", "loops", ninth).await;
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.wait("web", "loops").await }
    });
    node.stop("web", "loops").await.unwrap();
    let ended = waiting.await.unwrap().unwrap();
    assert_eq!(ended.state(), ExecutableState::Exited, "{ended:?}");
    assert_eq!((ended.exit_code, ended.next_start_at_ms), (Some(1), 0));

    let wanted = supervised("web", "idle", "sleep 1000", Always);
    let pid = node.start_as(wanted.clone()).await.unwrap();
    assert_eq!(node.start_as(wanted.clone()).await.unwrap(), pid);
    node.stop("web", "idle").await.unwrap();
    let ended = node.wait("web", "idle").await.unwrap();
    assert_eq!((ended.signal, ended.restarts), (Some(15), 0), "{ended:?}");
    node.stop("web", "idle").await.unwrap();
    // And it can be started again by whoever wants that.
    assert_ne!(node.start_as(wanted).await.unwrap(), pid);
    assert!(node.is_running("web", "idle").await);
    let ended = node.executable("web", "loops").await.unwrap();
    assert_eq!(ended.state(), ExecutableState::Exited, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_executable_starts_immediately_on_request() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let go = daemon.scratch().join("go");
    let command = format!("sh -c 'test -e {} && exec sleep 1000'", go.display());
    let wanted = supervised("web", "main", &command, Always);
    node.start_as(wanted.clone()).await.unwrap();
    let late = |now: &ExecutableInfo| now.restarts >= 4 && waits(now);
    node.executable_until("web", "main", late).await;
    let other = supervised("web", "main", "sleep 1000", Always);
    refused(node.start_as(other).await, Code::AlreadyExists);
    fs::write(&go, "").unwrap();
    let pid = node.start_as(wanted).await.unwrap();
    let now = node.executable_until("web", "main", runs).await;
    assert_eq!((now.process_id, now.restarts), (pid, 0), "{now:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_restart_reports_the_reason_and_is_retried() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let program = daemon.scratch().join("program");
    fs::copy("/bin/sleep", &program).unwrap();
    let command = format!("{} 1000", program.display());
    let pid = node
        .start_as(supervised("web", "main", &command, Always))
        .await
        .unwrap();
    fs::rename(&program, program.with_extension("away")).unwrap();
    crate::cells::kill(pid);
    let tried = |now: &ExecutableInfo| waits(now) && now.reason.contains("no such file");
    node.executable_until("web", "main", tried).await;
    fs::rename(program.with_extension("away"), &program).unwrap();
    let back = node.executable_until("web", "main", runs).await;
    assert_ne!(back.process_id, pid);

    // The first start is its caller's to hear of.
    let missing = supervised("web", "never", "there-is-no-such-program", Always);
    refused(node.start_as(missing).await, Code::InvalidArgument);
    let never = node.executable("web", "never").await.unwrap_err();
    assert_eq!(never.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_whose_init_dies_comes_back_with_what_is_seen_to() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    node.allocate("web/in").await.unwrap();
    let wanted = supervised("web/in", "main", "sleep 1000", OnFailure);
    let pid = node.start_as(wanted).await.unwrap();
    node.start("web", "plain", "sleep 1000").await.unwrap();
    crate::cells::kill(node.get("web").await.unwrap().init_pid);
    let back = |now: &ExecutableInfo| runs(now) && now.process_id != pid;
    let now = node.executable_until("web/in", "main", back).await;
    assert_eq!(now.restarts, 1, "{now:?}");
    let plain = node.wait("web", "plain").await.unwrap();
    assert_eq!(plain.state(), ExecutableState::Exited);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_takes_along_what_waits_and_what_runs() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("first").await.unwrap();
    node.free("first").await.unwrap();
    let traces = daemon.host().settled().await;
    node.allocate("web").await.unwrap();
    node.start_as(supervised("web", "loops", "false", Always))
        .await
        .unwrap();
    node.start_as(supervised("web", "idle", "sleep 1000", Always))
        .await
        .unwrap();
    node.executable_until("web", "loops", waits).await;
    node.free("web").await.unwrap();
    assert!(node.names().await.is_empty());
    daemon.host().returns_to(&traces).await;
}

//! Start, and several executables in one cell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use strata_testkit::observe::LogChannelType::ChannelStderr;
use strata_testkit::v1::ExecutableState;
use strata_testkit::{Code, Daemon, all, executable, executable_with, field_of, refused};

use crate::cells::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_executable_does_not_touch_the_first() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let mut pids = Vec::new();
    for name in ["one", "two", "three"] {
        pids.push(node.start("web", name, "sleep 1000").await.unwrap());
    }
    let shown = node.get("web").await.unwrap().executables;
    let seen: Vec<(&str, i64)> = shown
        .iter()
        .map(|executable| (executable.name.as_str(), executable.process_id))
        .collect();
    assert_eq!(
        seen,
        [("one", pids[0]), ("three", pids[2]), ("two", pids[1])]
    );
    node.stop("web", "two").await.unwrap();
    assert!(node.is_running("web", "one").await);
    assert!(!node.is_running("web", "two").await);
    assert!(node.is_running("web", "three").await);
    let alive = daemon.host().look().processes;
    let is_alive = |pid: i64| alive.contains_key(&i32::try_from(pid).unwrap());
    assert_eq!([true, false, true], [0, 1, 2].map(|i| is_alive(pids[i])));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_start_reports_the_reason() {
    let (daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let text = daemon.scratch().join("text");
    fs::write(&text, "no program").unwrap();
    let plain = text.display().to_string();
    let broken = daemon.scratch().join("broken");
    fs::write(&broken, "no program").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let broken = broken.display().to_string();
    for (command, why) in [
        ("there-is-no-such-program", "no such file"),
        ("/there/is/none", "no such file"),
        (plain.as_str(), "not executable"),
        (broken.as_str(), "exec format"),
        ("/", "not executable"),
    ] {
        let status = node.start("web", "main", command).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(why), "{status:?}");
        assert_eq!(field_of(&status).as_deref(), Some("executable.command"));
    }
    assert!(node.get("web").await.unwrap().executables.is_empty());
    let dir = fs::read_dir(daemon.data_dir().join("node/cells/web")).unwrap();
    let names = dir.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with("run-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_split_as_a_shell_would_and_no_shell_runs() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let command = r#"printf "%s|" a 'b c' "d e" f\ g '$HOME' * ';' '|' "#;
    let pid = node.start("web", "words", command).await.unwrap();
    assert_eq!(
        node.stdout(pid).await.unwrap(),
        ["a|b c|d e|f g|$HOME|*|;|||"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_one_that_ended_can_be_used_again() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let mut pids = Vec::new();
    for code in [3, 0, 7, 1, 5] {
        let command = format!("sh -c 'exit {code}'");
        pids.push(node.start("web", "job", &command).await.unwrap());
        let ended = node.wait("web", "job").await.unwrap();
        assert_eq!(ended.exit_code, Some(code));
    }
    let shown = node.get("web").await.unwrap().executables;
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].process_id, pids[4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn executable_start_is_idempotent() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let pid = node.start("web", "main", "sleep 1000").await.unwrap();
    let again = node.start("web", "main", "sleep  1000").await.unwrap();
    assert_eq!(again, pid);
    let words = refused(
        node.start("web", "main", "sleep 1001").await,
        Code::AlreadyExists,
    );
    assert!(words.contains("main"), "{words}");
    let other = executable_with("web", "main", "sleep 1000", |o| o.uid = Some(1));
    refused(node.start_as(other).await, Code::AlreadyExists);
    assert!(node.is_running("web", "main").await);
    assert_eq!(
        node.executable("web", "main").await.unwrap().process_id,
        pid
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_status_is_kept() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let mut wanted = executable(
        "web",
        "busy",
        "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 9'",
    );
    wanted.description = "counts".into();
    node.start_as(wanted).await.unwrap();
    let ended = node.wait("web", "busy").await.unwrap();
    assert_eq!(ended.state(), ExecutableState::Exited);
    assert_eq!((ended.exit_code, ended.signal), (Some(9), None));
    assert_eq!(ended.reason, "exit 9");
    assert_eq!(ended.description, "counts");
    assert!(ended.started_at_ms > 1_600_000_000_000);
    assert!(ended.ended_at_ms >= ended.started_at_ms);
    assert!(ended.cpu_user_usec + ended.cpu_system_usec > 0);
    assert!(ended.memory_peak_bytes > 100 << 10, "{ended:?}");

    node.start("web", "killed", "sh -c 'kill -SEGV $$'")
        .await
        .unwrap();
    let ended = node.wait("web", "killed").await.unwrap();
    assert_eq!((ended.exit_code, ended.signal), (None, Some(11)));
    assert_eq!(ended.reason, "killed by SIGSEGV");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_as_its_init_can_hold_run_in_one_cell_and_one_more_is_refused() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("many").await.unwrap();
    for i in 0..256 {
        let name = format!("e{i}");
        node.start("many", &name, "sleep 1000").await.unwrap();
    }
    let words = refused(
        node.start("many", "more", "sleep 1000").await,
        Code::ResourceExhausted,
    );
    assert!(words.contains("256"), "{words}");
    node.stop("many", "e7").await.unwrap();
    node.start("many", "more", "sleep 1000").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn start_in_a_cell_that_is_not_there_is_not_found() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    refused(node.start("none", "main", "true").await, Code::NotFound);
    node.allocate("web").await.unwrap();
    refused(node.start("web/in", "main", "true").await, Code::NotFound);
    let request = strata_testkit::runtime::StartCellRequest { executable: None };
    let status = node.client().cell_service().start(request).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(field_of(&status).as_deref(), Some("executable"));
}

/// The commands of the examples that are published with the runtime API, in
/// their order. What needs a shell is refused, and runs when one is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_published_examples_run_or_are_refused_with_a_hint() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("ae").await.unwrap();
    for (command, out) in [
        ("echo 'hello world'", "hello world"),
        ("/usr/bin/echo 'hello world'", "hello world"),
        ("sh -c 'hostname'", "ae"),
        ("hostname", "ae"),
        ("sh -c '/usr/bin/echo one && /usr/bin/echo two'", "one"),
    ] {
        let pid = node.start("ae", "ok", command).await.unwrap();
        node.wait("ae", "ok").await.unwrap();
        assert_eq!(node.stdout(pid).await.unwrap()[0], out, "{command}");
    }
    for command in [
        "/usr/bin/echo 'hello world' 1>&2",
        "ifconfig && ip a && route",
        "ls /proc | wc -l",
        "sleep 1; echo done",
    ] {
        let status = node.start("ae", "bad", command).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{command}");
        assert_eq!(field_of(&status).as_deref(), Some("executable.command"));
        assert!(status.message().contains("sh -c"), "{status}");
        refused(node.executable("ae", "bad").await, Code::NotFound);
    }
    let pid = node
        .start("ae", "err", "sh -c \"/usr/bin/echo 'hello world' 1>&2\"")
        .await
        .unwrap();
    let items = all(node.stream(ChannelStderr, pid).await.unwrap()).await;
    assert_eq!(items.unwrap()[0].line, "hello world");
}

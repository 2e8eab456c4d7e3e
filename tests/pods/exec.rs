//! Further processes in a pod: what goes in, what comes out, how they end,
//! and that nothing of them stays.

use std::path::Path;
use std::time::Duration;

use strata_testkit::pods::{idle, shell};
use strata_testkit::v1::exec_input::Input;
use strata_testkit::v1::{ExecStart, TerminalSize};
use strata_testkit::{Code, TEST_TIMEOUT, field_of, holds, refused, same, wait_for};

use crate::pods::{World, world};

async fn gone(pid: i64) {
    wait_for("the process to be gone", TEST_TIMEOUT, async || {
        holds(!Path::new(&format!("/proc/{pid}")).exists())
    })
    .await;
}

async fn with_pod() -> World {
    let world = world().await;
    let pod = world.node.run_pod(idle("web", &world.image)).await;
    pod.expect("the pod runs");
    // Its processes are counted later: all of them must be there.
    wait_for("the pod's own sleep", TEST_TIMEOUT, async || {
        let sleeps = world.node.says("web", "ps | grep -c '[s]leep 60$' || true");
        same(sleeps.await, &"1".to_owned()).map(drop)
    })
    .await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_ends_arrive_as_they_are() {
    let world = with_pod().await;
    let node = &world.node;
    let both = node
        .sh("web", "echo out; echo err >&2; exit 3")
        .await
        .unwrap();
    assert_eq!(
        (both.stdout.as_str(), both.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!((both.ended.exit_code, both.ended.signal), (Some(3), None));
    let killed = node.sh("web", "kill -9 $$").await.unwrap();
    assert_eq!(
        (killed.ended.exit_code, killed.ended.signal),
        (None, Some(9))
    );
    assert!(
        killed.ended.reason.contains("SIGKILL"),
        "{:?}",
        killed.ended
    );
    let stdin = ExecStart {
        stdin: true,
        ..shell("web", "cat; echo end")
    };
    let session = node.open(stdin).await.unwrap();
    session.type_in("one\n").await;
    session.type_in("two\n").await;
    session.end_input().await;
    assert_eq!(session.finish().await.unwrap().ok(), "one\ntwo\nend");
    // Without an input it is empty, not endless.
    assert_eq!(node.sh("web", "cat; echo end").await.unwrap().ok(), "end");
    let mut session = node
        .open(shell(
            "web",
            "trap 'echo usr; exit 4' USR1; echo up; while :; do sleep 60 & wait; done",
        ))
        .await
        .unwrap();
    session.until("up").await;
    session.send(Input::Signal(10)).await;
    let done = session.finish().await.unwrap();
    assert_eq!(
        (done.stdout.as_str(), done.ended.exit_code),
        ("up\nusr\n", Some(4))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_runs_as_the_requested_user_in_the_requested_directory() {
    let world = with_pod().await;
    let node = &world.node;
    let told = ExecStart {
        user: "app:extra".into(),
        working_directory: "/tmp".into(),
        environment: vec!["GREETING=told".into(), "MORE=x".into()],
        ..shell(
            "web",
            "id -u; id -g; pwd; echo $GREETING $MORE $HOME $HOSTNAME",
        )
    };
    let told = node.exec(told).await.unwrap();
    assert_eq!(told.ok(), "1000\n2000\n/tmp\ntold x /home/app web");
    let bare = ExecStart {
        pod: "web".into(),
        command: vec!["pwd".into()],
        ..ExecStart::default()
    };
    assert_eq!(node.exec(bare.clone()).await.unwrap().ok(), "/srv");
    type Change = fn(&mut ExecStart);
    let cases: [(&str, Change); 7] = [
        ("start.command", |s| s.command.clear()),
        ("start.command", |s| s.command = vec!["/no/such".into()]),
        ("start.command", |s| s.command = vec!["nosuch".into()]),
        ("start.command", |s| s.command = vec!["/etc/passwd".into()]),
        ("start.user", |s| s.user = "nosuch".into()),
        ("start.working_directory", |s| {
            s.working_directory = "/no/such".into();
        }),
        ("start.environment[0]", |s| s.environment = vec!["x".into()]),
    ];
    for (i, (field, change)) in cases.into_iter().enumerate() {
        let mut start = bare.clone();
        change(&mut start);
        let error = node.exec(start).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{i}: {error}");
        assert_eq!(field_of(&error).as_deref(), Some(field), "{i}: {error}");
    }
    refused(node.sh("other", "true").await, Code::NotFound);
    node.stop_pod("web").await.unwrap();
    let why = refused(node.sh("web", "true").await, Code::FailedPrecondition);
    assert!(why.contains("not running"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_output_arrives_whole_and_in_order() {
    let world = with_pod().await;
    let node = &world.node;
    // 50 MB of numbered lines.
    let mut session = node
        .open(shell("web", "seq 1000000 7553519"))
        .await
        .unwrap();
    while session.step().await.unwrap() {}
    assert_eq!(session.stdout.len(), 8 * 6_553_520);
    let lines = session.stdout.split(|byte| *byte == b'\n');
    for (line, number) in lines.filter(|line| !line.is_empty()).zip(1_000_000..) {
        assert_eq!(line, number.to_string().as_bytes());
    }
    // Whoever takes their time with the end of it gets it all the same.
    let mut slow = node
        .open(shell("web", "exec head -c 280000 /dev/zero"))
        .await
        .unwrap();
    slow.started().await.unwrap();
    gone(slow.pid).await;
    node.says("web", "sleep 1").await;
    assert_eq!(slow.finish().await.unwrap().stdout.len(), 280_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_passed_on_as_fast_as_it_is_taken() {
    let world = with_pod().await;
    let stdin = ExecStart {
        stdin: true,
        ..shell("web", "wc -c; echo done")
    };
    let session = world.node.open(stdin).await.unwrap();
    let piece: String = "x".repeat(64 << 10);
    for _ in 0..160 {
        session.type_in(&piece).await;
    }
    session.end_input().await;
    assert_eq!(session.finish().await.unwrap().ok(), "10485760\ndone");
    // One that ends without having read it ends.
    let deaf = ExecStart {
        stdin: true,
        ..shell("web", "exit 5")
    };
    let session = world.node.open(deaf).await.unwrap();
    session.type_in(&piece).await;
    session.type_in(&piece).await;
    assert_eq!(session.finish().await.unwrap().ended.exit_code, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_one() {
    let world = with_pod().await;
    let node = &world.node;
    let start = ExecStart {
        terminal: Some(TerminalSize {
            rows: 40,
            columns: 100,
        }),
        stdin: true,
        pod: "web".into(),
        command: vec!["/bin/sh".into()],
        user: "app".into(),
        ..ExecStart::default()
    };
    let mut session = node.open(start).await.unwrap();
    session.type_in("PS1=; stty -echo; echo rea''dy\n").await;
    session.until("ready\r\n").await;
    session.stdout.clear();
    session
        .type_in("tty; stty size; echo $TERM; stat -c %u $(tty); echo on''e\n")
        .await;
    session.until("one\r\n").await;
    let said = String::from_utf8_lossy(&session.stdout).into_owned();
    let lines: Vec<_> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(lines, ["/dev/pts/0", "40 100", "xterm", "1000", "one"]);
    let resized = "sh -c 'trap \"stty size; echo resi\"\"zed; exit\" WINCH; echo tw\"\"o; \
        while :; do usleep 20000; done'\n";
    session.type_in(resized).await;
    session.until("two").await;
    session.resize(50, 120).await;
    session.until("50 120\r\nresized").await;
    // Ctrl-C ends what runs in front, not the shell.
    session.type_in("echo sle''eps; sleep 1000\n").await;
    session.until("sleeps").await;
    wait_for("the sleep", TEST_TIMEOUT, async || {
        let sleeps = node
            .says("web", "ps | grep -c '[s]leep 1000' || true")
            .await;
        same(sleeps, &"1".to_owned()).map(drop)
    })
    .await;
    session.type_in("\x03").await;
    session.type_in("echo aft''er $?\n").await;
    session.until("after 130").await;
    // A terminal that goes away takes with it what runs on it.
    let pid = session.pid;
    drop(session);
    gone(pid).await;
    let bad = ExecStart {
        terminal: Some(TerminalSize {
            rows: 70_000,
            columns: 1,
        }),
        ..shell("web", "true")
    };
    let error = node.exec(bad).await.unwrap_err();
    assert_eq!(
        field_of(&error).as_deref(),
        Some("start.terminal.rows"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_process_ends_when_the_client_disconnects() {
    let world = with_pod().await;
    let node = &world.node;
    let before = world.daemon.host().settled().await;
    let files = world.daemon.open_files();
    for script in [
        "sleep 1000",
        "trap '' TERM HUP; while :; do sleep 1; done",
        "yes",
        "cat",
    ] {
        let start = ExecStart {
            stdin: true,
            ..shell("web", script)
        };
        let mut session = node.open(start).await.unwrap();
        let pid = session.started().await.unwrap();
        drop(session);
        gone(pid).await;
    }
    // What an ended one left behind in its group is not waited for.
    let background = node.sh("web", "sleep 1000 & echo $!").await.unwrap();
    let left = background.ok().to_owned();
    node.says("web", &format!("kill {left}; true")).await;
    wait_for("the files", TEST_TIMEOUT, async || {
        same(world.daemon.open_files(), &files).map(drop)
    })
    .await;
    // The pod's own sleeps come and go.
    wait_for("the processes", TEST_TIMEOUT, async || {
        same(
            world.daemon.host().look().processes.len(),
            &before.processes.len(),
        )
        .map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_leave_nothing() {
    let world = with_pod().await;
    let node = &world.node;
    node.says("web", "true").await;
    let files = world.daemon.open_files();
    let traces = world.daemon.host().settled().await;
    let all = (0..50).map(|i| {
        let node = node.clone();
        async move {
            let said = node
                .says(
                    "web",
                    &format!("echo {i}; head -c 100000 /dev/zero | wc -c"),
                )
                .await;
            assert_eq!(said, format!("{i}\n100000"));
        }
    });
    futures_util::future::join_all(all).await;
    wait_for("the files", TEST_TIMEOUT, async || {
        match world.daemon.open_files() <= files + 2 {
            true => Ok(()),
            false => Err(format!("{:?}", world.daemon.open_file_names())),
        }
    })
    .await;
    wait_for("the processes", Duration::from_secs(10), async || {
        same(
            world.daemon.host().look().processes.len(),
            &traces.processes.len(),
        )
        .map(drop)
    })
    .await;
    let runs = world.daemon.data_dir();
    let left = std::process::Command::new("find")
        .arg(runs)
        .args(["-name", "*exec-*"])
        .output();
    assert_eq!(String::from_utf8_lossy(&left.unwrap().stdout), "");
}

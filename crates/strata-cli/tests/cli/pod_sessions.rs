//! `strata pod exec` and `attach`: pipes in, pipes out, and how they end.

use crate::common::World;

#[tokio::test]
async fn piped_input_reaches_the_command() {
    let mut world = World::new();
    world.piped = "hi\n";
    insta::assert_snapshot!(world.run("strata pod exec -i web -- cat").await, @r#"
    exit 0
    --- stdout
    ready
    hi
    --- stderr
    "#);
    let calls = world.node.state.lock().calls.clone();
    assert_eq!(
        calls,
        ["exec cat stdin=true terminal=None user=\"\" workdir=\"\""]
    );
}

#[tokio::test]
async fn a_large_input_comes_through_whole() {
    let mut world = World::new();
    let large: String = (0..300_000).map(|n| format!("{n}\n")).collect();
    world.piped = String::leak(large);
    assert_eq!(world.exit("strata pod exec -i web -- cat").await, 0);
    let bytes = world.stdout.bytes();
    let echoed = bytes.strip_prefix(b"ready\r\n").unwrap();
    assert!(echoed == world.piped.as_bytes(), "{} bytes", echoed.len());
}

#[tokio::test]
async fn both_channels_stay_apart_byte_for_byte() {
    let world = World::new();
    assert_eq!(world.exit("strata pod exec web -- both").await, 0);
    assert_eq!(world.stdout.bytes(), b"out \xff\n");
    assert_eq!(world.stderr.bytes(), b"err\n");
}

#[tokio::test]
async fn the_exit_code_is_the_commands() {
    let world = World::new();
    for code in [0, 1, 7, 42, 255] {
        let exit = world
            .exit(&format!("strata pod exec web -- exit {code}"))
            .await;
        assert_eq!(exit, code);
    }
    assert_eq!(world.stderr.take(), "", "a command speaks for itself");
}

#[tokio::test]
async fn client_flags_select_the_server_and_credentials() {
    let world = World::new();
    let line = "strata pod exec web --user 1000 --workdir /srv -e A=1 -e NO_SUCH_ONE_HERE \
                -- exit 0";
    assert_eq!(world.exit(line).await, 0);
    let state = world.node.state.lock();
    assert_eq!(
        state.calls,
        ["exec exit 0 stdin=false terminal=None user=\"1000\" workdir=\"/srv\""]
    );
    assert_eq!(state.environment, ["A=1"]);
}

#[tokio::test]
async fn a_terminal_cannot_be_given_where_there_is_none() {
    insta::assert_snapshot!(World::new().run("strata pod exec -it web -- sh").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: -t requires a terminal, and the input is not one
    hint: omit -t; -i alone forwards piped input
    "#);
}

#[tokio::test]
async fn server_errors_are_reported() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod exec nobody -- ls").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot run ls in the pod nobody
      there is no pod nobody
    hint: `strata pod list` shows those there are
    "#);
    insta::assert_snapshot!(world.run("strata pod attach nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot attach to the pod nobody
      there is no pod nobody
    hint: `strata pod list` shows those there are
    "#);
    insta::assert_snapshot!(world.run("strata pod exec web -- vanish").await, @r#"
    exit 4
    --- stdout
    --- stderr
    error: cannot run vanish in the pod web
      no exit status received
    "#);
    assert_eq!(world.exit("strata pod exec web").await, 2);
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut world = World::new();
    world.stdout_breaks_after = Some(2);
    assert_eq!(world.exit("strata pod exec web -- both").await, 0);
    assert_eq!(world.stdout.bytes(), b"ou");
}

#[tokio::test]
async fn attaching_ends_as_the_pod_does() {
    let mut world = World::with(|state| state.exit_code = 9);
    world.piped = "hello\nq\n";
    insta::assert_snapshot!(world.run("strata pod attach web -i --tail 5").await, @r#"
    exit 9
    --- stdout
    ready
    hello
    q
    --- stderr
    "#);
    assert_eq!(world.node.state.lock().calls, ["attach web 5"]);
}

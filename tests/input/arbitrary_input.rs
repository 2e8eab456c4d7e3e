//! Arbitrary texts at every call: only honest answers, and nothing leaks.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use strata_testkit::{Code, Daemon, Node, Status, TEST_TIMEOUT, wait_for_blocking};

use crate::input::STRATA;

/// One call with whatever texts.
#[derive(Clone, Debug)]
enum Call {
    Allocate(String, u64),
    Start(String, String, String),
    Stop(String, String),
    Free(String),
}

/// A text that is nearly a name, or no name at all.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{1,2}",
        2 => "[a-c](/[a-c]){0,3}",
        2 => "[a-zA-Z0-9./_-]{0,12}",
        1 => ".{0,40}",
        1 => Just("..".to_owned()),
        1 => Just("a\0".to_owned()),
    ]
}

fn command() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("true".to_owned()),
        2 => Just("sleep 1000".to_owned()),
        1 => ".{0,30}".prop_map(|text| format!("echo {text}")),
        // Whatever it is, it does not name a program that does harm.
        1 => ".{0,20}".prop_map(|text| format!("/nowhere/{text}")),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        (text(), prop_oneof![Just(0), any::<u64>()]).prop_map(|(c, n)| Call::Allocate(c, n)),
        (text(), text(), command()).prop_map(|(c, n, w)| Call::Start(c, n, w)),
        (text(), text()).prop_map(|(c, n)| Call::Stop(c, n)),
        text().prop_map(Call::Free),
    ]
}

async fn make(node: &Node, call: &Call) -> Result<(), Status> {
    match call {
        Call::Allocate(name, shares) => {
            let mut cell = strata_testkit::cell(name);
            cell.cpu_shares = *shares;
            node.allocate_as(cell).await.map(drop)
        }
        Call::Start(cell, name, command) => node.start(cell, name, command).await.map(drop),
        Call::Stop(cell, name) => node.stop_within(cell, name, Duration::ZERO).await,
        Call::Free(name) => node.free_now(name).await,
    }
}

#[test]
fn arbitrary_texts_get_honest_answers_and_leak_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (daemon, node) = runtime.block_on(Daemon::up(STRATA));
    // One daemon for all cases: what one leaves behind, the next ones meet.
    let mut runner = TestRunner::new(Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    });
    let calls = proptest::collection::vec(call(), 1..12);
    let outcome = runner.run(&calls, |calls| {
        for call in calls {
            let answer = runtime.block_on(make(&node, &call));
            let code = answer.as_ref().map_or_else(Status::code, |()| Code::Ok);
            prop_assert!(
                matches!(
                    code,
                    Code::Ok
                        | Code::InvalidArgument
                        | Code::NotFound
                        | Code::AlreadyExists
                        | Code::FailedPrecondition
                ),
                "{call:?}: {answer:?}"
            );
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    runtime.block_on(async {
        for name in node.names().await.iter().filter(|name| !name.contains('/')) {
            node.free_now(name).await.unwrap();
        }
        assert!(node.names().await.is_empty());
    });
    // The daemon and the shim are what is left.
    let left = wait_for_blocking("all else to be gone", TEST_TIMEOUT, || {
        let left = daemon.host().look();
        let is_quiet = left.processes.len() == 2 && left.zombies.is_empty();
        is_quiet
            .then(|| left.clone())
            .ok_or_else(|| format!("{left:?}"))
    });
    assert!(left.mounts.is_empty(), "{left:?}");
    let root = daemon.host().cgroup("pids");
    let run = root.file_name().unwrap();
    assert!(
        left.cgroups.iter().all(|group| group.ends_with(run)),
        "{left:?}"
    );
    let _entered = runtime.enter();
    drop(daemon);
}

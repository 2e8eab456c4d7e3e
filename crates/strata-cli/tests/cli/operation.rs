//! `strata operation VERB`: long actions, looked at, waited for, called off.

use crate::common::World;
use crate::common::operations::{ACTIVE, FAILED};

#[tokio::test]
async fn operations_are_listed_shown_and_read() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata operation list").await, @r#"
    exit 0
    --- stdout
    ID                                    KIND        STATUS  ABOUT         AGE
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e  node-drain  active  node/rack1-7  3m12s
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6f  node-drain  failed  node/rack1-8  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata operation list --state active -o wide").await, @r#"
    exit 0
    --- stdout
    ID                                    KIND        STATUS  ABOUT         OWNER  MESSAGE                        AGE
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e  node-drain  active  node/rack1-7  me     empty: 1 on it still: web [2J  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata operation list -o name").await, @r#"
    exit 0
    --- stdout
    operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
    operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6f
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("strata operation show {ACTIVE}")).await, @r#"
    exit 0
    --- stdout
    Id          0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
    Kind        node-drain
    State       active (empty: 1 on it still: web [2J)
    About       node/rack1-7
    Step        close: done
    Step        empty: running, 50%, 1 on it still: web
    Owner       me
    Asked       2026-01-31T11:56:48Z (3m12s ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("strata operation show {FAILED}")).await, @r#"
    exit 0
    --- stdout
    Id          0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6f
    Kind        node-drain
    State       failed (cancelled by ann)
    About       node/rack1-8
    Step        close: stuck
    Step        empty: done, 1 on it still: web
    Left        close: the store does not exist
    Owner       me
    Asked       2026-01-31T11:56:48Z (3m12s ago)
    Ended       2026-01-31T12:00:00Z (0s ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("strata operation log {ACTIVE}")).await, @r#"
    exit 0
    --- stdout
    2026-01-31T12:00:00.001Z  -           begun
    2026-01-31T12:00:00.002Z  close       done [2J
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("strata operation log {ACTIVE} -o json")).await, @r#"
    exit 0
    --- stdout
    {"number":1,"at":"2026-01-31T12:00:00.001Z","text":"begun"}
    {"number":2,"at":"2026-01-31T12:00:00.002Z","step":"close","text":"done\u001b[2J"}
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata operation show x").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the operation x
      there is nothing called x
    hint: see those there are with list
    "#);
    assert_eq!(world.exit("strata operation list --state odd").await, 2);
}

#[tokio::test]
async fn waiting_ends_as_the_operation_does() {
    let world = World::new();
    insta::assert_snapshot!(world.run(&format!("strata operation wait {ACTIVE}")).await, @r"
    exit 0
    --- stdout
    --- stderr
    node-drain of node/rack1-7: empty: 1 on it still: web [2J
    node-drain of node/rack1-7 completed
    ");
    let world = World::with(|state| state.objects.operations_fail = true);
    insta::assert_snapshot!(world.run(&format!("strata operation wait {ACTIVE} -o name")).await, @r"
    exit 7
    --- stdout
    operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
    --- stderr
    node-drain of node/rack1-7: empty: 1 on it still: web [2J
    error: node-drain of node/rack1-7 failed
      cancelled by ann
      not rolled back: close: the store does not exist
    hint: see `strata operation log 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e`
    ");
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_taken_up_again() {
    let world = World::with(|state| state.objects.watches = 2);
    let line = format!("strata operation wait {ACTIVE} -q");
    assert_eq!(world.exit(&line).await, 0);
    assert_eq!(world.node.state.lock().objects.watches, 0);
    let world = World::with(|state| state.objects.watches = 100);
    let line = format!("strata operation wait {ACTIVE} --timeout 100ms");
    assert_eq!(world.exit(&line).await, 7);
    let stderr = world.stderr.take();
    assert!(stderr.contains("has not completed after 100ms"), "{stderr}");
}

#[tokio::test]
async fn operations_are_called_off_once_somebody_is_sure() {
    let mut world = World::new();
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run(&format!("strata operation cancel {ACTIVE}")).await, @r#"
    exit 6
    --- stdout
    --- stderr
    Cancel 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    insta::assert_snapshot!(world.run(&format!("strata operation cancel {ACTIVE} --dry-run")).await, @r#"
    exit 0
    --- stdout
    would cancel node-drain of node/rack1-7, which is active
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("strata operation cancel {ACTIVE} {FAILED} --yes")).await, @r#"
    exit 6
    --- stdout
    --- stderr
    cancelling 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
    error: cannot cancel the operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6f
      it has ended
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    DELETE http://localhost/operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
    DELETE http://localhost/operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6f
    "#);
}

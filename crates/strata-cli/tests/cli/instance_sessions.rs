//! `strata instance logs` and `exec`: over gRPC, by the way that pods go.

use crate::common::World;

#[tokio::test]
async fn logs_go_where_they_came_from() {
    let world = World::new();
    assert_eq!(world.exit("strata instance logs web").await, 0);
    let out = world.stdout.bytes();
    assert_eq!(out, b"first\nraw \xff bytes\nafter a gap\n");
    assert_eq!(world.node.state.lock().calls, ["logs 0192f0c1-default-web"]);
    world.stdout.take();
    world.stderr.take();
    insta::assert_snapshot!(world.run("strata instance logs nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot read the logs of the instance nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
}

#[tokio::test]
async fn a_command_ends_as_ours() {
    let world = World::new();
    assert_eq!(world.exit("strata instance exec web -- exit 42").await, 42);
    let call = world.node.state.lock().calls.join("\n");
    insta::assert_snapshot!(call, @r#"exec exit 42 stdin=false terminal=None user="" workdir="""#);
    let mut world = World::new();
    world.piped = "typed";
    insta::assert_snapshot!(world.run("strata instance exec -i shop/db -- cat").await, @r#"
    exit 0
    --- stdout
    ready
    typed--- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance exec -it web -- sh").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: -t requires a terminal, and the input is not one
    hint: omit -t; -i alone forwards piped input
    "#);
}

//! What went wrong, why, what to do, and the exit code that says it.

use crate::common::World;
use strata_types::{Error, ErrorKind};

#[tokio::test]
async fn nobody_there() {
    let world = World::new();
    world.node.vanish();
    insta::assert_snapshot!(world.run("strata cell list").await, @r#"
    exit 3
    --- stdout
    --- stderr
    error: cannot connect to unix:{}/node.sock
      Connection refused (os error 111)
    hint: start the daemon with `strata up`, or specify it with --data-dir DIR or --node
    "#);
    std::fs::remove_file(world.path("node.sock")).unwrap();
    insta::assert_snapshot!(world.run("strata cell list").await, @r#"
    exit 3
    --- stdout
    --- stderr
    error: cannot connect to unix:{}/node.sock
      No such file or directory (os error 2)
    hint: start the daemon with `strata up`, or specify it with --data-dir DIR or --node
    "#);
    insta::assert_snapshot!(world.run("strata whoami").await, @r#"
    exit 3
    --- stdout
    --- stderr
    error: no server found
      {}/home/config.toml contains no context
      {}/no-data/client/endpoints.json does not exist
    hint: start one with `strata up`, or specify it with --data-dir DIR or --server
    "#);
    insta::assert_snapshot!(world.run("strata cell list --data-dir {}/other").await, @r#"
    exit 3
    --- stdout
    --- stderr
    error: no node found
      {}/other/client/endpoints.json does not exist
    hint: start one with `strata up`, or specify it with --data-dir DIR or --node
    "#);
}

#[tokio::test]
async fn not_allowed() {
    let refusal = Error::new(
        ErrorKind::PermissionDenied,
        "the role viewer may not allocate",
    )
    .with_hint("ask an admin for the role operator");
    let world = World::with(|state| state.refuse = Some(refusal));
    insta::assert_snapshot!(world.run("strata cell allocate web").await, @r#"
    exit 5
    --- stdout
    --- stderr
    error: cannot allocate the cell web
      the role viewer may not allocate
    hint: ask an admin for the role operator
    "#);
}

#[tokio::test]
async fn every_kind_of_answer_has_its_exit_code() {
    for (kind, exit) in [
        (ErrorKind::Invalid, 6),
        (ErrorKind::NotFound, 6),
        (ErrorKind::AlreadyExists, 6),
        (ErrorKind::WrongState, 6),
        (ErrorKind::Exhausted, 6),
        (ErrorKind::Aborted, 6),
        (ErrorKind::Unauthenticated, 5),
        (ErrorKind::PermissionDenied, 5),
        (ErrorKind::Unavailable, 4),
        (ErrorKind::Internal, 4),
    ] {
        let world = World::with(|state| state.refuse = Some(Error::new(kind, "no")));
        assert_eq!(world.exit("strata cell list").await, exit, "{kind:?}");
    }
}

#[tokio::test]
async fn https_without_a_proof_says_how_to_give_one() {
    insta::assert_snapshot!(
        World::new().run("strata cell list --node https://127.0.0.1:1").await, @r#"
    exit 5
    --- stdout
    --- stderr
    error: no credentials for https://127.0.0.1:1
    hint: add --credentials DIRECTORY or --data-dir DIR, set STRATA_TOKEN with --ca FILE, or run `strata login`
    "#);
    insta::assert_snapshot!(
        World::new().run("strata token list --server http://127.0.0.1:1").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'http://127.0.0.1:1' for '--server <URL>': http:// is not supported, TLS is required; use https://HOST:PORT

    For more information, try '--help'.
    "#);
}

#[tokio::test]
async fn damaged_endpoints_are_named() {
    let world = World::new();
    std::fs::create_dir_all(world.path("data/client")).unwrap();
    std::fs::write(world.path("data/client/endpoints.json"), "{\"node\": 3}").unwrap();
    insta::assert_snapshot!(world.run("strata cell list --data-dir {}/data").await, @r#"
    exit 1
    --- stdout
    --- stderr
    error: {}/data/client/endpoints.json is damaged: invalid type: integer `3`, expected a string at line 1 column 10
    "#);
}

#[tokio::test]
async fn a_data_directory_leads_to_its_own_node() {
    let world = World::new();
    std::fs::create_dir_all(world.path("data/client")).unwrap();
    let socket = world.path("node.sock");
    let endpoints = strata_client::Endpoints {
        node_socket: Some(socket),
        ..Default::default()
    };
    endpoints.write(&world.path("data/client")).unwrap();
    insta::assert_snapshot!(world.run("strata cell list -o name --data-dir {}/data").await, @r#"
    exit 0
    --- stdout
    cell/batch
    cell/web
    cell/web/cache
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata whoami -o json --data-dir {}/data").await, @r#"
    exit 0
    --- stdout
    {
      "name": "uid-0",
      "role": "admin",
      "proof": "socket",
      "server": "unix:{}/node.sock"
    }
    --- stderr
    "#);
}

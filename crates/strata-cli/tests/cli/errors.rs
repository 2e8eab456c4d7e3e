//! What went wrong, why, what to do, and the exit code that says it.

use crate::common::World;
use strata_types::{Error, ErrorKind};

#[tokio::test]
async fn nobody_there() {
    let world = World::new();
    world.node.vanish();
    insta::assert_snapshot!(world.run("strata cell list").await, @"");
    std::fs::remove_file(world.path("node.sock")).unwrap();
    insta::assert_snapshot!(world.run("strata cell list").await, @"");
    insta::assert_snapshot!(world.run("strata whoami").await, @"");
    insta::assert_snapshot!(world.run("strata cell list --data-dir {}/other").await, @"");
}

#[tokio::test]
async fn not_allowed() {
    let refusal = Error::new(
        ErrorKind::PermissionDenied,
        "the role viewer may not allocate",
    )
    .with_hint("ask an admin for the role operator");
    let world = World::with(|state| state.refuse = Some(refusal));
    insta::assert_snapshot!(world.run("strata cell allocate web").await, @"");
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
        World::new().run("strata cell list --node https://127.0.0.1:1").await, @"");
    insta::assert_snapshot!(
        World::new().run("strata token list --server http://127.0.0.1:1").await, @"");
}

#[tokio::test]
async fn damaged_endpoints_are_named() {
    let world = World::new();
    std::fs::create_dir_all(world.path("data/client")).unwrap();
    std::fs::write(world.path("data/client/endpoints.json"), "{\"node\": 3}").unwrap();
    insta::assert_snapshot!(world.run("strata cell list --data-dir {}/data").await, @"");
}

#[tokio::test]
async fn a_data_folder_leads_to_its_own_node() {
    let world = World::new();
    std::fs::create_dir_all(world.path("data/client")).unwrap();
    let socket = world.path("node.sock");
    let endpoints = strata_client::Endpoints {
        node_socket: Some(socket),
        ..Default::default()
    };
    endpoints.write(&world.path("data/client")).unwrap();
    insta::assert_snapshot!(world.run("strata cell list -o name --data-dir {}/data").await, @"");
    insta::assert_snapshot!(world.run("strata whoami -o json --data-dir {}/data").await, @"");
}

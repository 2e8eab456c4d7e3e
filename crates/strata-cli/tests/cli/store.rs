//! `strata store`: records of a store that nobody uses, out and in again.

use std::os::unix::fs::PermissionsExt as _;

use strata_store::{Embedded, EmbeddedOptions, Store as _, Transaction};

use crate::common::World;

#[tokio::test]
async fn records_move_from_one_data_directory_to_another() {
    let world = World::new();
    let directory = world.path("a/store");
    {
        let store = Embedded::open(&directory, &EmbeddedOptions::default()).unwrap();
        let put = Transaction::new()
            .put("instance/1", "{}")
            .put("node/n", "{}");
        store.commit(put).await.unwrap();
        insta::assert_snapshot!(world.run("strata store export {}/out --data-dir {}/a").await, @r#"
        exit 6
        --- stdout
        --- stderr
        error: cannot open the store
          the store in {}/a/store is in use
        hint: stop the daemon first: the store must not be in use
        "#);
    }
    insta::assert_snapshot!(world.run("strata store export {}/out --data-dir {}/a").await, @r#"
    exit 0
    --- stdout
    --- stderr
    exported 2 records
    "#);
    let mode = std::fs::metadata(world.path("out"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    insta::assert_snapshot!(world.run("strata store import {}/out --data-dir {}/b --dry-run").await, @r#"
    exit 0
    --- stdout
    would import 2 records
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata store import {}/out --data-dir {}/b").await, @r#"
    exit 0
    --- stdout
    --- stderr
    imported 2 records
    "#);
    let store = Embedded::open(&world.path("b/store"), &EmbeddedOptions::default()).unwrap();
    assert_eq!(store.list("").await.unwrap().entries.len(), 2);
}

#[tokio::test]
async fn drain_shows_why_an_instance_stays() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata store export - --data-dir {}/none").await, @r"
    exit 6
    --- stdout
    --- stderr
    error: there is no store in {}/none/store
    hint: specify the data directory with --data-dir, or an etcd with --etcd
    ");
    assert!(!world.path("none").exists());
    std::fs::write(
        world.path("cut"),
        "{\"format\":\"strata-store\",\"version\":1,\"revision\":1}\n",
    )
    .unwrap();
    insta::assert_snapshot!(world.run("strata store import {}/cut --data-dir {}/b").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot import the records
      the export was cut: its last line is missing
    "#);
    assert_eq!(
        world.exit("strata store import {}/cut --prefix x/").await,
        2
    );
}

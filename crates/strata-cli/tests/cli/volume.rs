//! `strata volume`, whole commands against a fake node.

use crate::common::World;

#[tokio::test]
async fn list_is_a_table() {
    insta::assert_snapshot!(World::new().run("strata volume list").await, @r#"
    exit 0
    --- stdout
    NAME  USED   SIZE  USED-BY        AGE
    data  3MiB  10GiB  db, db-backup  1h
    old   3MiB      -  -              1h
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata volume list -o name").await, @r#"
    exit 0
    --- stdout
    volume/data
    volume/old
    --- stderr
    "#);
    let world = World::with(|state| state.volumes.clear());
    insta::assert_snapshot!(world.run("strata volume list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no volumes; create one with `strata volume create NAME`
    "#);
}

#[tokio::test]
async fn show_tells_all() {
    insta::assert_snapshot!(World::new().run("strata volume show data").await, @r#"
    exit 0
    --- stdout
    Name     data
    Size     10GiB
    Used     3MiB
    Used by  db
    Used by  db-backup
    Created  2026-01-31T11:00:00Z (1h ago)
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata volume show old -o json").await, @r#"
    exit 0
    --- stdout
    {
      "name": "old",
      "size_bytes": null,
      "used_bytes": 3145728,
      "used_by": [],
      "of_image": false,
      "created_at": "2026-01-31T11:00:00Z"
    }
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata volume show no").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the volume no
      there is no volume no
    "#);
}

#[tokio::test]
async fn create_says_what_it_would_do_and_does_it() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata volume create new --dry-run").await, @r#"
    exit 0
    --- stdout
    would create new
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata volume create data --dry-run").await, @r#"
    exit 0
    --- stdout
    data already exists
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata volume create new --size 1GiB -o name").await, @r#"
    exit 0
    --- stdout
    volume/new
    --- stderr
    created new
    "#);
    assert_eq!(world.node.state.lock().volumes[2].size_bytes, Some(1 << 30));
}

#[tokio::test]
async fn remove_takes_several_and_tells_of_each() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata volume remove data old --dry-run").await, @r#"
    exit 0
    --- stdout
    would not remove data: in use by db, db-backup
    would remove old
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata volume remove data old --yes").await, @r#"
    exit 6
    --- stdout
    --- stderr
    removed old
    error: cannot remove the volume data
      volume "data" is in use by db
    "#);
    assert_eq!(world.node.state.lock().volumes.len(), 1);
}

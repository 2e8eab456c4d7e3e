//! `strata storage`: the pool, its devices and its volumes.

use crate::common::World;

#[tokio::test]
async fn the_pool_is_shown_with_its_devices() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata storage show").await, @r"
    exit 0
    --- stdout
    Id       5a1f0c2e-3b4d-4e5f-8a9b-0c1d2e3f4a5b
    State    degraded (d2 answers with errors; replace it)
    Profile  mirrored
    Used     3GiB of 10GiB, 7GiB free
    Volumes  2
    Path     /var/lib/strata/pool/mount
    Scrub    2h ago, read 6GiB, 3 repaired, 0 not repairable

    NAME  STATE     SIZE  ALLOCATED  ERRORS  PATH
    d1    online   10GiB       4GiB       0  /dev/sdb
    d2    failing  10GiB       4GiB      12  /dev/sdc
    d3    spare    10GiB         0B       0  /var/lib/strata/pool/d3
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata storage show -o name").await, @r#"
    exit 0
    --- stdout
    pool/5a1f0c2e-3b4d-4e5f-8a9b-0c1d2e3f4a5b
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage device list -o name").await, @r#"
    exit 0
    --- stdout
    device/d1
    device/d2
    device/d3
    --- stderr
    "#);
}

#[tokio::test]
async fn plans_tell_devices_and_bytes() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata storage expand 5GiB --dry-run").await, @r"
    exit 0
    --- stdout
    NAME  STATE   SIZE  ALLOCATED  ERRORS  PATH
    d3    spare  10GiB         0B       0  /var/lib/strata/pool/d3
    would use 1 spare, gain 10GiB and move nothing
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata storage shrink 5GiB --dry-run").await, @r"
    exit 0
    --- stdout
    NAME  STATE     SIZE  ALLOCATED  ERRORS  PATH
    d2    failing  10GiB       4GiB      12  /dev/sdc
    d1    online   10GiB       4GiB       0  /dev/sdb
    would release 2 devices with 5GiB and move 3GiB; 2GiB would be free
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata storage shrink 5GiB --dry-run -o json").await, @r#"
    exit 0
    --- stdout
    {
      "devices": [
        "d2",
        "d1"
      ],
      "lostBytes": 5368709120,
      "movedBytes": 3221225472,
      "freeBytes": 2147483648
    }
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage expand lots").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'lots' for '<MIN>': "lots" is not a size; write a number with a unit, e.g. 64MiB, 64MB or 4096

    For more information, try '--help'.
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/storage/expand?dryRun=true {"minBytes":5368709120}
    POST http://localhost/storage/shrink?dryRun=true {"maxBytes":5368709120}
    POST http://localhost/storage/shrink?dryRun=true {"maxBytes":5368709120}
    "#);
}

#[tokio::test]
async fn the_pool_grows_shrinks_and_is_scrubbed() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata storage expand 5GB").await, @r#"
    exit 0
    --- stdout
    --- stderr
    expanding the pool; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    storage-expand of storage/pool: work: half of it
    expanded the pool
    "#);
    insta::assert_snapshot!(world.run("strata storage shrink 5GB --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    shrinking the pool; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    insta::assert_snapshot!(world.run("strata storage scrub").await, @r#"
    exit 0
    --- stdout
    --- stderr
    scrubbing the pool; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    storage-scrub of storage/pool: work: half of it
    scrubbed the pool
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/storage/expand {"minBytes":5000000000}
    POST http://localhost/storage/shrink {"maxBytes":5000000000}
    POST http://localhost/storage/scrub {}
    "#);
}

#[tokio::test]
async fn devices_are_added_replaced_and_removed() {
    let mut world = World::new();
    insta::assert_snapshot!(world.run("strata storage device add --bytes 10GB").await, @r#"
    exit 0
    --- stdout
    --- stderr
    added d1, a spare of 9.3GiB; `strata storage expand` adds it to the pool
    "#);
    insta::assert_snapshot!(world.run("strata storage device add /dev/sdd --overwrite --dry-run").await, @r#"
    exit 0
    --- stdout
    would add /dev/sdd as a spare, erasing its data
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage device replace d2 --with d3").await, @r#"
    exit 0
    --- stdout
    --- stderr
    replacing d2; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    storage-replace of device/d2: work: half of it
    replaced d2
    "#);
    insta::assert_snapshot!(world.run("strata storage device remove d1 d3 d9 --dry-run").await, @r#"
    exit 0
    --- stdout
    d1 would not be removed: it is online, not a spare
    would remove d3
    there is no device d9
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage device remove d3 --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    removed d3
    "#);
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata storage device add /dev/sdd --overwrite").await, @r#"
    exit 6
    --- stdout
    --- stderr
    Erase all data on /dev/sdd? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/storage/device/ {"bytes":10000000000,"overwrite":false}
    POST http://localhost/storage/device/d2/replace {"with":"d3"}
    DELETE http://localhost/storage/device/d3
    "#);
}

#[tokio::test]
async fn volumes_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata storage volume list").await, @r#"
    exit 0
    --- stdout
    NAME   KIND   USED   SIZE  SNAPSHOTS  AGE
    data   files  2GiB  10GiB          1  1h
    trial  files  2GiB      -          0  1h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage volume list -o wide").await, @r#"
    exit 0
    --- stdout
    NAME   KIND   USED   SIZE  SNAPSHOTS   OWN  FROM         AGE
    data   files  2GiB  10GiB          1  1GiB  -            1h
    trial  files  2GiB      -          0  4KiB  data@monday  1h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage volume show data").await, @r#"
    exit 0
    --- stdout
    Name      data
    Kind      files
    Size      10GiB
    Used      2GiB, 1GiB exclusive
    Snapshot  monday (30m ago)
    Created   2026-01-31T11:00:00Z (1h ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage volume show nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the volume nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
}

#[tokio::test]
async fn volumes_are_made_changed_and_removed() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata storage volume create new --size 10GB").await, @r#"
    exit 0
    --- stdout
    --- stderr
    created new
    "#);
    insta::assert_snapshot!(world.run("strata storage volume create guest --kind disk --size 20GB").await, @r#"
    exit 0
    --- stdout
    --- stderr
    created guest
    "#);
    insta::assert_snapshot!(world.run("strata storage volume create copy --from data@monday").await, @r#"
    exit 0
    --- stdout
    --- stderr
    created copy
    "#);
    insta::assert_snapshot!(world.run("strata storage volume create data --dry-run").await, @r#"
    exit 0
    --- stdout
    data already exists
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage volume create guest --kind disk").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --size <SIZE>

    Usage: strata storage volume create --kind <KIND> --size <SIZE> <NAME>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata storage volume create copy --from data@").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'data@' for '--from <VOLUME[@SNAPSHOT]>': "" must not be empty (1 to 63 of a-z, 0-9 and -)

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata storage volume resize data 20GiB --dry-run").await, @r#"
    exit 0
    --- stdout
    would resize data: 10GiB -> 20GiB
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage volume resize data 20GiB").await, @r#"
    exit 0
    --- stdout
    --- stderr
    resized data
    "#);
    insta::assert_snapshot!(world.run("strata storage volume resize trial none").await, @r#"
    exit 0
    --- stdout
    --- stderr
    resized trial
    "#);
    insta::assert_snapshot!(world.run("strata storage volume snapshot data tuesday").await, @r#"
    exit 0
    --- stdout
    --- stderr
    created data@tuesday
    "#);
    insta::assert_snapshot!(world.run("strata storage volume unsnapshot data monday").await, @r#"
    exit 0
    --- stdout
    --- stderr
    removed data@monday
    "#);
    insta::assert_snapshot!(world.run("strata storage volume remove data trial --dry-run").await, @r#"
    exit 0
    --- stdout
    would remove data with 1 snapshot
    would remove trial and free 4KiB
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata storage volume remove trial --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    removed trial
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/storage/volume/ {"name":"new","kind":"files","quotaBytes":10000000000}
    PUT http://localhost/storage/volume/ {"name":"guest","kind":"disk","quotaBytes":20000000000}
    PUT http://localhost/storage/volume/ {"name":"copy","kind":"files","from":"data@monday"}
    PATCH http://localhost/storage/volume/data {"quotaBytes":21474836480}
    PATCH http://localhost/storage/volume/trial {"quotaBytes":0}
    PUT http://localhost/storage/volume/data/snapshot {"name":"tuesday"}
    DELETE http://localhost/storage/volume/data/snapshot/monday
    DELETE http://localhost/storage/volume/trial
    "#);
}

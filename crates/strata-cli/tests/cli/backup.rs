//! `strata backup`: made, looked at, brought back, forgotten.

use crate::common::World;

#[tokio::test]
async fn backups_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata backup list").await, @r#"
    exit 0
    --- stdout
    ID        TAKEN             VOLUMES  FILES  SIZE  STORED   TOOK  AGE
    3f9a41c7  2026-01-30 11:00        2   1234  3GiB   20MiB  1m15s  25h
    3f9a41c8  2026-01-31 10:00        2   1234  3GiB   20MiB  1m15s  2h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup list -o wide").await, @r#"
    exit 0
    --- stdout
    ID                                                                TAKEN             VOLUMES  FILES  SIZE  STORED   TOOK    NEW  STATE  HOST     OPERATION  AGE
    3f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c7  2026-01-30 11:00        2   1234  3GiB   20MiB  1m15s  64MiB  yes    rack1-1  -          25h
    3f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c8  2026-01-31 10:00        2   1234  3GiB   20MiB  1m15s  64MiB  yes    rack1-1  -          2h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup list -o name").await, @r#"
    exit 0
    --- stdout
    backup/3f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c7
    backup/3f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c8
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup show latest").await, @r#"
    exit 0
    --- stdout
    Id         3f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c8
    Taken      2026-01-31T10:00:00Z (2h ago)
    Took       1m15s
    Host       rack1-1
    Holds      1234 files, 3GiB
    Added      64MiB, stored as 20MiB
    State      with control-plane state
    Volume     data
    Volume     trial
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup show 3f9a41c7 -o name").await, @r#"
    exit 0
    --- stdout
    backup/3f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c7
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup show 3f9a").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: 2 backups match the prefix 3f9a
    hint: use a longer prefix; `strata backup list -o wide` shows full IDs
    "#);
    insta::assert_snapshot!(world.run("strata backup show zz").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: there is no backup zz
    hint: list backups with `strata backup list`
    "#);
    let world = World::with(|state| state.objects.backends.backups.clear());
    insta::assert_snapshot!(world.run("strata backup list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no backups; create one with `strata backup create`
    "#);
    insta::assert_snapshot!(world.run("strata backup show latest").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: no backup exists
    hint: create one with `strata backup create`
    "#);
}

#[tokio::test]
async fn backups_are_made_and_verified() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata backup create").await, @r#"
    exit 0
    --- stdout
    --- stderr
    creating a backup; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    backup-create of backup/new: work: half of it
    created a backup; see `strata backup show latest`
    "#);
    insta::assert_snapshot!(world.run("strata backup create --limit 10MB/s --no-verify --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    creating a backup; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    insta::assert_snapshot!(world.run("strata backup verify latest --percent 50").await, @r#"
    exit 0
    --- stdout
    --- stderr
    verifying 3f9a41c8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    backup-verify of backup/3f9a41c8: work: half of it
    verified 3f9a41c8
    "#);
    insta::assert_snapshot!(world.run("strata backup verify latest --percent 0").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value '0' for '--percent <N>': 0 is not in 1..=100

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata backup create --limit 0").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value '0' for '--limit <RATE>': "0" is too slow; write it as 10MB/s

    For more information, try '--help'.
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/backup/ {"skipVerify":false}
    POST http://localhost/backup/ {"bytesPerSecond":10000000,"skipVerify":true}
    POST http://localhost/backup/3f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c83f9a41c8/verify {"percent":50}
    "#);
}

#[tokio::test]
async fn backups_are_restored() {
    let mut world = World::new();
    insta::assert_snapshot!(world.run("strata backup restore latest --dry-run").await, @r#"
    exit 0
    --- stdout
    would restore data, trial from 3f9a41c8
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup restore 3f9a41c7 --volume data --path etc/app.toml --as old").await, @r#"
    exit 0
    --- stdout
    --- stderr
    restoring etc/app.toml of data as old from 3f9a41c7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    backup-restore of backup/3f9a41c7: work: half of it
    restored etc/app.toml of data as old from 3f9a41c7
    "#);
    insta::assert_snapshot!(world.run("strata backup restore latest --volume other").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: the backup 3f9a41c8 has no volume other
    hint: it has data, trial
    "#);
    insta::assert_snapshot!(world.run("strata backup restore latest --path etc").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --volume <VOLUME>

    Usage: strata backup restore --volume <VOLUME> --path <PATH> <ID>

    For more information, try '--help'.
    "#);
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata backup restore latest --volume data --replace").await, @r#"
    exit 6
    --- stdout
    --- stderr
    Replace existing data with data from 3f9a41c8? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"POST http://localhost/backup/3f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c7/restore {"volume":"data","path":"etc/app.toml","as":"old","replace":false}"#);
}

#[tokio::test]
async fn backups_are_pruned_once_somebody_is_sure() {
    let mut world = World::new();
    insta::assert_snapshot!(world.run("strata backup prune --keep-last 1 --keep-daily 1 --dry-run").await, @r#"
    exit 0
    --- stdout
    ID        WOULD  BECAUSE
    3f9a41c7  go     no rule keeps it
    3f9a41c8  stay   last, daily
    would delete 1 backup and keep 1
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup prune --dry-run -o name").await, @r#"
    exit 0
    --- stdout
    backup/3f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c73f9a41c7
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup prune").await, @r#"
    exit 0
    --- stdout
    --- stderr
    pruning the backups; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    backup-prune of backup/all: work: half of it
    pruned the backups
    "#);
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata backup prune --keep-monthly 2").await, @r"
    exit 6
    --- stdout
    --- stderr
    Delete 3f9a41c7? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    ");
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/backup/prune?dryRun=true {"keep":{"last":1,"daily":1}}
    POST http://localhost/backup/prune?dryRun=true {}
    POST http://localhost/backup/prune {}
    POST http://localhost/backup/prune?dryRun=true {"keep":{"monthly":2}}
    "#);
}

#[tokio::test]
async fn schedules_are_added_listed_and_removed() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata backup schedule add hourly --when '0 * * * *' --keep-last 24").await, @r#"
    exit 0
    --- stdout
    --- stderr
    added hourly; the next is due in 14h
    "#);
    insta::assert_snapshot!(world.run("strata backup schedule add x --when '0 *'").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value '0 *' for '--when <WHEN>': has 2 fields, not 5; write it as '30 2 * * *', in quotes

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata backup schedule add x --when '0 * * * *' --dry-run").await, @r#"
    exit 0
    --- stdout
    would add x, due at 0 * * * *
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup schedule list").await, @r#"
    exit 0
    --- stdout
    NAME     WHEN        STATE  KEEPS            NEXT    LAST
    nightly  30 2 * * *  on     last 3, daily 7  in 14h  9h30m ago
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata backup schedule remove nightly --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    removed nightly
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/backup-schedule/ {"name":"hourly","when":"0 * * * *","keep":{"last":24},"paused":false}
    DELETE http://localhost/backup-schedule/nightly
    "#);
}

#[tokio::test]
async fn restoring_says_where_a_whole_installation_is_restored() {
    let world = World::new();
    assert_eq!(world.exit("strata backup restore --help").await, 0);
    let help = world.stdout.take();
    assert!(help.contains("`strata restore --help`"), "{help}");
}

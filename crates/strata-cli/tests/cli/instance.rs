//! `strata instance`: what its commands print and exit with.

use strata_types::Error;

use crate::common::World;

#[tokio::test]
async fn instances_are_listed_by_project() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance list").await, @r#"
    exit 0
    --- stdout
    NAME  STATUS   NODE     ADDRESS    PORTS             IMAGE       AGE
    job   failed   -        -          -                 nginx:1.27  3m12s
    web   running  rack1-7  10.42.1.5  8080:80,8443:443  nginx:1.27  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance list -A").await, @r#"
    exit 0
    --- stdout
    NAME         STATUS   NODE     ADDRESS    PORTS       IMAGE                AGE
    default/job  failed   -        -          -           nginx:1.27           3m12s
    default/web  running  rack1-7  10.42.1.5  8080:80,8…  nginx:1.27           3m12s
    shop/db      stopped  -        -          -           registry.lan:5000/…  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance list --project shop -o wide").await, @r#"
    exit 0
    --- stdout
    NAME  STATUS   NODE  ADDRESS  PORTS  IMAGE                                                 TYPE       CPU  MEMORY  DISK  RESTARTS  PROJECT  WORKLOAD          REASON  ID                AGE
    db    stopped  -     -        -      registry.lan:5000/team/postgres-with-a-long-name:v17  container    -       -     -         0  shop     0192f0c1-shop-pg  -       0192f0c1-shop-db  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance list --state failed -o name").await, @r#"
    exit 0
    --- stdout
    instance/job
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance list --project empty").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no instances; create one with `strata instance create NAME --image URI`
    "#);
}

#[tokio::test]
async fn json_is_that_of_the_api() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance show shop/db -o json").await, @r#"
    exit 0
    --- stdout
    {
      "id": "0192f0c1-shop-db",
      "name": "db",
      "type": "CONTAINER",
      "status": "STOPPED",
      "uri": "registry.lan:5000/team/postgres-with-a-long-name:v17",
      "environment": [],
      "resources": {
        "max": {
          "cpu": 0,
          "memory": 0,
          "disk": 0
        },
        "usage": {
          "cpu": 0,
          "memory": 0,
          "disk": 0
        }
      },
      "ports": [],
      "project": "shop",
      "description": "",
      "wanted": "STOPPED",
      "workloadId": "0192f0c1-shop-pg",
      "restarts": 0,
      "generation": 1,
      "owner": "me",
      "createdAt": "2026-01-31T11:56:48Z",
      "changedAt": "2026-01-31T11:56:48Z",
      "placement": {},
      "restart": "on-failure"
    }
    --- stderr
    "#);
}

#[tokio::test]
async fn instance_show_prints_all_fields() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance show web").await, @r#"
    exit 0
    --- stdout
    Name        web
    Project     default
    State       running
    Health      healthy
    Type        container
    Image       docker.io/library/nginx:1.27
    Id          0192f0c1-default-web
    Node        rack1-7
    Address     10.42.1.5
    Ports       8080:80, 8443:443
    Limits      0.5 cpus, memory 256MB, disk 2GB
    Usage       0.12 cpus, memory 64MB
    Env         EVIL= [2J
    Env         TZ=UTC
    Label       app=shop
    Constraint  zone=eu
    Owner       me
    Created     2026-01-31T11:56:48Z (3m12s ago)
    Changed     2026-01-31T11:56:48Z (3m12s ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance show nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the instance nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    insta::assert_snapshot!(world.run("strata instance show a/b/c").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'a/b/c' for '<NAME>': "a/b/c" is neither NAME, PROJECT/NAME nor an id

    For more information, try '--help'.
    "#);
}

#[tokio::test]
async fn placement_is_explained_node_by_node() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance explain web").await, @r#"
    exit 0
    --- stdout
    NODE     FITS  REASON
    rack1-7  best  it fits, and its free room suits the policy best
    rack1-8  no    it is lost
    --- stderr
    web is on rack1-7, which would be chosen today as well
    "#);
}

#[tokio::test]
async fn stats_tell_what_is_used_of_what_may_be() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance stats").await, @r#"
    exit 0
    --- stdout
    NAME   CPU/MAX  MEMORY/MAX  DISK/MAX  NODE
    web   0.12/0.5  64MB/256MB     0/2GB  rack1-7
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance stats web -o json").await, @r#"
    exit 0
    --- stdout
    [
      {
        "name": "web",
        "node": "rack1-7",
        "max": {
          "cpu": 500,
          "memory": 256,
          "disk": 2
        },
        "usage": {
          "cpu": 120,
          "memory": 64,
          "disk": 0
        }
      }
    ]
    --- stderr
    "#);
}

#[tokio::test]
async fn a_watcher_sees_what_there_is_and_outlives_one_stream() {
    let world = World::with(|state| state.objects.watches = 2);
    insta::assert_snapshot!(world.run("strata instance list -w -A").await, @r#"
    exit 4
    --- stdout
    NAME         STATUS   NODE     ADDRESS    PORTS       IMAGE                AGE
    default/web  running  rack1-7  10.42.1.5  8080:80,8…  nginx:1.27           3m12s
    default/job  failed   -        -          -           nginx:1.27           3m12s
    shop/db      stopped  -        -          -           registry.lan:5000/…  3m12s
    --- stderr
    error: cannot watch the instances
      the server is ending
    "#);
}

#[tokio::test]
async fn refusals_keep_their_exit_codes() {
    for (error, exit) in [
        (
            Error::exhausted("the project has 50 instances").with_hint("ask for more"),
            6,
        ),
        (
            Error::new(
                strata_types::ErrorKind::PermissionDenied,
                "viewers only look",
            ),
            5,
        ),
        (Error::unavailable("no leader"), 4),
    ] {
        let world = World::with(|state| state.refuse = Some(error));
        assert_eq!(world.exit("strata instance create a --image x").await, exit);
        assert!(
            world
                .stderr
                .take()
                .starts_with("error: cannot create the instance a\n")
        );
    }
    let world = World::new();
    world.node.vanish();
    assert_eq!(world.exit("strata instance list").await, 3);
}

#[tokio::test]
async fn events_are_lines() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata events").await, @r#"
    exit 0
    --- stdout
    2026-01-31T12:00:00Z  node/rack1-7              registered with 10.42.1.0/24
    2026-01-31T12:00:00Z  instance/default/web      RUNNING [2J
    2026-01-31T12:00:00Z  instance/default/job      FAILED: nothing fits
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata events job --kind instance -o json").await, @r#"
    exit 0
    --- stdout
    {"number":3,"at":"2026-01-31T12:00:00.003Z","kind":"instance","name":"job","project":"default","message":"FAILED: nothing fits"}
    --- stderr
    "#);
}

#[tokio::test]
async fn events_of_a_restarted_server_are_printed() {
    let world = World::with(|state| {
        let old = state.objects.events.clone();
        let mut new = old[..2].to_vec();
        for event in &mut new {
            event.at = event.at.replace("12:00", "12:05");
        }
        let again = [&old[2..], &new[..1]].concat();
        state.objects.event_streams = vec![old[..1].to_vec(), old.clone(), again, new];
    });
    insta::assert_snapshot!(world.run("strata events -f").await, @r#"
    exit 4
    --- stdout
    2026-01-31T12:00:00Z  node/rack1-7              registered with 10.42.1.0/24
    2026-01-31T12:00:00Z  instance/default/web      RUNNING [2J
    2026-01-31T12:00:00Z  instance/default/job      FAILED: nothing fits
    2026-01-31T12:05:00Z  node/rack1-7              registered with 10.42.1.0/24
    2026-01-31T12:05:00Z  instance/default/web      RUNNING [2J
    --- stderr
    error: cannot read the events
      the server is ending
    "#);
}

#[tokio::test]
async fn tables_fit_eighty_columns() {
    for line in [
        "strata instance list -A",
        "strata instance stats",
        "strata instance explain web",
        "strata workload list",
        "strata node list",
        "strata project list",
        "strata operation list",
        "strata events",
    ] {
        let world = World::new();
        assert_eq!(world.exit(line).await, 0, "{line}");
        for row in world.stdout.take().lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

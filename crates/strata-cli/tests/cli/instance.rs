//! `strata instance`: what its commands print, ask for and exit with.

use strata_api::rest::InstanceState;
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
    no instances; make one with `strata instance create NAME --image URI`
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
async fn one_instance_is_shown_with_all_that_is_known() {
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
async fn a_new_instance_is_followed_until_it_runs() {
    let world = World::new();
    let line = "strata instance create shop --image nginx:1.27 --cpu 500m --memory 256MB \
                --disk 1GB -p 8080:80 -e A=1 -v data:/data --restart always -l app=shop \
                --constraint zone=eu --prefer ssd=yes:10 --spread zone --priority 5 \
                --gpus 1:a100 --command '/bin/sh -c' --health-http 80/up --grace 90s -- 'exec x'";
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 0
    --- stdout
    --- stderr
    created shop
    shop: scheduling
    shop: scheduled (on node rack1-7)
    shop: starting (fetching the image)
    shop: running on rack1-7, 10.42.1.9
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"PUT http://localhost/instance/ {"name":"shop","type":"CONTAINER","uri":"nginx:1.27","environment":["A=1"],"resources":{"cpu":500,"memory":256,"disk":1},"ports":["8080:80"],"command":["/bin/sh","-c"],"arguments":["exec x"],"volumes":["data:/data"],"health":{"http":"80/up"},"restart":"always","stopGraceSeconds":90,"labels":{"app":"shop"},"placement":{"constraints":["zone=eu"],"preferences":[{"test":"ssd=yes","weight":10}],"spread":[{"over":"zone","weight":1}],"gpus":{"count":1,"kind":"a100"},"priority":5}}"#);
}

#[tokio::test]
async fn what_cannot_run_exits_with_seven() {
    let world = World::with(|state| {
        state.objects.journey = vec![
            Some((InstanceState::Scheduling, "")),
            Some((
                InstanceState::Failed,
                "nothing fits: rack1-7 has 0.1 cpus left",
            )),
        ];
    });
    insta::assert_snapshot!(world.run("strata instance create big --image x --project shop").await, @r#"
    exit 7
    --- stdout
    --- stderr
    created shop/big
    big: scheduling
    error: big failed
      nothing fits: rack1-7 has 0.1 cpus left
    hint: `strata instance explain shop/big` says why, node by node
    "#);
    let world = World::with(|state| {
        state.objects.journey = vec![Some((InstanceState::Crashed, "crashed: exit 3"))];
    });
    insta::assert_snapshot!(world.run("strata instance start job").await, @r#"
    exit 7
    --- stdout
    --- stderr
    error: job crashed
      crashed: exit 3
    hint: `strata instance logs job` shows what it wrote
    "#);
}

#[tokio::test]
async fn who_does_not_wait_gets_the_id() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance create x --image y --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-default-x
    --- stderr
    created x
    "#);
    insta::assert_snapshot!(world.run("strata instance create x --workload web --stopped -o name").await, @r#"
    exit 0
    --- stdout
    instance/x
    --- stderr
    created x
    "#);
    insta::assert_snapshot!(world.run("strata instance create x").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: an instance needs --image URI, or --workload to be made from
    "#);
    assert_eq!(
        world
            .exit("strata instance create x --workload web --image y")
            .await,
        2
    );
}

#[tokio::test]
async fn stopping_and_deleting_are_seen_through() {
    let mut world = World::with(|state| {
        state.objects.watches = 9;
        state.objects.journey = vec![
            Some((InstanceState::Stopping, "")),
            Some((InstanceState::Stopped, "")),
            Some((InstanceState::Destroying, "")),
            None,
        ];
    });
    insta::assert_snapshot!(world.run("strata instance stop web nobody job").await, @r#"
    exit 6
    --- stdout
    --- stderr
    web: stopping
    web: stopped
    job: stopping
    job: stopped
    error: cannot stop the instance nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    insta::assert_snapshot!(world.run("strata instance delete web").await, @r#"
    exit 0
    --- stdout
    --- stderr
    web: stopping
    web: stopped
    web: destroying
    deleted web
    "#);
    insta::assert_snapshot!(world.run("strata instance delete web job --dry-run").await, @r#"
    exit 0
    --- stdout
    would delete web, which is stopped
    would delete job, which is stopped
    --- stderr
    "#);
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata instance delete web job").await, @r#"
    exit 6
    --- stdout
    --- stderr
    Delete web, job? [y/N] error: nothing was changed
    hint: answer y, or pass --yes
    "#);
}

#[tokio::test]
async fn an_update_says_what_changes_and_sends_no_more() {
    let world = World::new();
    let line = "strata instance update web --image nginx:1.28 -e TZ=CET --unset-env EVIL \
                --label app- --memory 512MB";
    insta::assert_snapshot!(world.run(&format!("{line} --dry-run")).await, @r#"
    exit 0
    --- stdout
    would change web
      environment: ["EVIL=\u001b[2J","TZ=UTC"] -> ["TZ=CET"]
      labels.app: - "shop"
      resources.memory: 256 -> 512
      uri: "docker.io/library/nginx:1.27" -> "nginx:1.28"
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("{line} --detach")).await, @r#"
    exit 0
    --- stdout
    --- stderr
    changed web
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"PATCH http://localhost/instance/0192f0c1-default-web {"environment":["TZ=CET"],"labels":null,"resources":{"memory":512},"uri":"nginx:1.28"}"#);
    insta::assert_snapshot!(world.run("strata instance update web --cpu 0.5").await, @r#"
    exit 0
    --- stdout
    --- stderr
    web is so already
    "#);
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata instance create new --image x --dry-run").await, @r#"
    exit 0
    --- stdout
    would create new
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata instance create web --image x --dry-run").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: another web is there already
      environment: ["EVIL=\u001b[2J","TZ=UTC"] -> []
      labels.app: - "shop"
      placement.constraints: - ["zone=eu"]
      ports: ["8080:80","8443:443"] -> []
      resources.cpu: 500 -> 0
      resources.disk: 2 -> 0
      resources.memory: 256 -> 0
      uri: "docker.io/library/nginx:1.27" -> "x"
    hint: change it with `strata instance update web`
    "#);
    insta::assert_snapshot!(world.run("strata instance create new --image x --cpu 0.5 -p 1:1 -p 1:2 --dry-run").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: new would be refused
      ports[1]: publishes 1/tcp twice
    "#);
    insta::assert_snapshot!(world.run("strata instance start web job --dry-run").await, @r#"
    exit 0
    --- stdout
    web is running already
    would start job
    --- stderr
    "#);
    assert!(world.node.state.lock().objects.requests.is_empty());
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
async fn tables_fit_eighty_columns() {
    for line in [
        "strata instance list -A",
        "strata instance stats",
        "strata instance explain web",
        "strata workload list",
        "strata node list",
        "strata project list",
        "strata events",
    ] {
        let world = World::new();
        assert_eq!(world.exit(line).await, 0, "{line}");
        for row in world.stdout.take().lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

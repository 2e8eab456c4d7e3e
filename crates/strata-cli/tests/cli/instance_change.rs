//! `strata instance create` and the like: what they ask for, and how they see
//! it through.

use strata_api::rest::InstanceState;

use crate::common::World;

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
async fn failed_instance_exits_with_seven() {
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
    hint: `strata instance explain shop/big` explains the placement, node by node
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
    hint: `strata instance logs job` shows its output
    "#);
}

#[tokio::test]
async fn detach_prints_the_operation_id() {
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
    error: an instance requires --image URI or --workload
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
    Delete web, job? [y/N] error: cancelled, nothing was changed
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
    would update web
      environment: ["EVIL=\u001b[2J","TZ=UTC"] -> ["TZ=CET"]
      labels.app: - "shop"
      resources.memory: 256 -> 512
      uri: "docker.io/library/nginx:1.27" -> "nginx:1.28"
    --- stderr
    "#);
    insta::assert_snapshot!(world.run(&format!("{line} --detach")).await, @r"
    exit 0
    --- stdout
    --- stderr
    updated web
    ");
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"PATCH http://localhost/instance/0192f0c1-default-web {"environment":["TZ=CET"],"labels":null,"resources":{"memory":512},"uri":"nginx:1.28"}"#);
    insta::assert_snapshot!(world.run("strata instance update web --cpu 0.5").await, @r#"
    exit 0
    --- stdout
    --- stderr
    web is unchanged
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
    error: web already exists with a different specification
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
    error: new would be rejected
      ports[1]: publishes 1/tcp twice
    "#);
    insta::assert_snapshot!(world.run("strata instance start web job --dry-run").await, @r#"
    exit 0
    --- stdout
    web is already running
    would start job
    --- stderr
    "#);
    assert!(world.node.state.lock().objects.requests.is_empty());
}

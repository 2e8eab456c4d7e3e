//! `strata workload`: templates, and instances of them.

use crate::common::World;

#[tokio::test]
async fn workloads_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata workload list").await, @r#"
    exit 0
    --- stdout
    NAME  TYPE       INSTANCES  CPU  MEMORY  DISK  IMAGE       AGE
    web   container          2  0.5   256MB     -  nginx:1.27  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata workload show web").await, @r#"
    exit 0
    --- stdout
    Name        web
    Project     default
    Instances   2
    Type        container
    Image       nginx:1.27
    Id          0192f0c1-default-web
    Ports       8080:80
    Limits      0.5 cpus, memory 256MB
    Owner       me
    Created     2026-01-31T11:56:48Z (3m12s ago)
    Changed     2026-01-31T11:56:48Z (3m12s ago)
    --- stderr
    "#);
}

#[tokio::test]
async fn workloads_are_made_and_changed() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata workload create api --image x --memory 64MB -o name").await, @r#"
    exit 0
    --- stdout
    workload/api
    --- stderr
    created api
    "#);
    insta::assert_snapshot!(world.run("strata workload create api").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: a workload needs --image URI
    "#);
    insta::assert_snapshot!(world.run("strata workload update web --image nginx:1.28 --dry-run").await, @r#"
    exit 0
    --- stdout
    would update web
      uri: "nginx:1.27" -> "nginx:1.28"
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata workload update web --image nginx:1.28").await, @r"
    exit 0
    --- stdout
    --- stderr
    updated web
    existing instances are not changed: 2 instances
    ");
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/workload/ {"name":"api","type":"CONTAINER","uri":"x","environment":[],"resources":{"cpu":0,"memory":64,"disk":0},"ports":[],"restart":"on-failure","placement":{}}
    PATCH http://localhost/workload/0192f0c1-default-web {"uri":"nginx:1.28"}
    "#);
}

#[tokio::test]
async fn instances_are_made_of_a_workload() {
    let world = World::with(|state| state.objects.watches = 9);
    insta::assert_snapshot!(world.run("strata workload run web --count 2 --as front -o name").await, @r#"
    exit 0
    --- stdout
    instance/front-1
    instance/front-2
    --- stderr
    created front-1
    created front-2
    front-1: scheduling
    front-1: scheduled (on node rack1-7)
    front-1: starting (fetching the image)
    front-1: running on rack1-7, 10.42.1.9
    front-2: scheduling
    front-2: scheduled (on node rack1-7)
    front-2: starting (fetching the image)
    front-2: running on rack1-7, 10.42.1.9
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/instance/ {"name":"front-1","project":"default","workloadId":"0192f0c1-default-web"}
    PUT http://localhost/instance/ {"name":"front-2","project":"default","workloadId":"0192f0c1-default-web"}
    "#);
}

#[tokio::test]
async fn workload_with_instances_is_deleted_only_with_cascade() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata workload delete web --dry-run").await, @r#"
    exit 0
    --- stdout
    web would not be deleted: it has 2 instances
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata workload delete web --cascade --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    deleted web
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"DELETE http://localhost/workload/web?cascade=true"#);
}

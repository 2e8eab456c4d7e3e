//! `strata apply`: from a file to what is done.

use crate::common::World;

const SHOP: &str = "\
kind: instance
name: web
spec:
  uri: docker.io/library/nginx:1.28
  ports: ['8080:80', '8443:443']
  environment: [TZ=UTC]
  resources: {cpu: 500, memory: 256, disk: 2}
  labels: {app: shop}
  placement: {constraints: [zone=eu]}
---
kind: project
name: shop
spec:
  quota: {cpu: 8000, memory: 16000, instances: 50}
---
kind: workload
name: api
project: shop
spec: {uri: 'registry.lan/api:1'}
";

#[tokio::test]
async fn a_file_is_applied_and_says_what_it_did() {
    let world = World::new();
    std::fs::write(world.path("shop.yaml"), SHOP).unwrap();
    insta::assert_snapshot!(world.run("strata apply -f {}/shop.yaml --dry-run").await, @r#"
    exit 0
    --- stdout
    project/shop unchanged
    workload/shop/api would be created
    instance/web would be updated
      environment: ["EVIL=\u001b[2J","TZ=UTC"] -> ["TZ=UTC"]
      uri: "docker.io/library/nginx:1.27" -> "docker.io/library/nginx:1.28"
    --- stderr
    "#);
    assert!(world.node.state.lock().objects.requests.is_empty());
    insta::assert_snapshot!(world.run("strata apply -f {}/shop.yaml").await, @r#"
    exit 0
    --- stdout
    project/shop unchanged
    workload/shop/api created
    instance/web changed
      environment: ["EVIL=\u001b[2J","TZ=UTC"] -> ["TZ=UTC"]
      uri: "docker.io/library/nginx:1.27" -> "docker.io/library/nginx:1.28"
    --- stderr
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/workload/ {"name":"api","project":"shop","type":"CONTAINER","uri":"registry.lan/api:1","environment":[],"resources":{"cpu":0,"memory":0,"disk":0},"ports":[],"restart":"on-failure","placement":{}}
    PATCH http://localhost/instance/web?project=default {"environment":["TZ=UTC"],"uri":"docker.io/library/nginx:1.28"}
    "#);
    insta::assert_snapshot!(world.run("strata apply -f {}/shop.yaml -o json").await, @r#"
    exit 0
    --- stdout
    [
      {
        "kind": "project",
        "name": "shop",
        "action": "unchanged",
        "changes": []
      },
      {
        "kind": "workload",
        "name": "api",
        "project": "shop",
        "action": "created",
        "changes": []
      },
      {
        "kind": "instance",
        "name": "web",
        "project": "default",
        "action": "unchanged",
        "changes": []
      }
    ]
    --- stderr
    "#);
}

#[tokio::test]
async fn a_slip_anywhere_does_nothing() {
    let mut world = World::new();
    world.piped = r#"{"kind": "project", "name": "a"}
---
{"kind": "instance", "name": "web", "spec": {"uri": "x", "resources": {"cpus": 1}}}"#;
    insta::assert_snapshot!(world.run("strata apply -f -").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: cannot apply stdin
      document 2: spec.resources.cpus: unknown field `cpus`, expected one of `cpu`, `memory`, `disk`
    "#);
    assert!(world.node.state.lock().objects.requests.is_empty());
    world.piped = "kind: [";
    assert_eq!(world.exit("strata apply -f -").await, 2);
    assert_eq!(world.exit("strata apply -f {}/none.yaml").await, 1);
    assert_eq!(world.exit("strata apply").await, 2);
}

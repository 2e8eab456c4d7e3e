//! `strata project`: what each has and may have.

use crate::common::World;

#[tokio::test]
async fn projects_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata project list").await, @r#"
    exit 0
    --- stdout
    NAME     INSTANCES  CPU  MEMORY  DISK  AGE
    default          2  2.5   1.8GB   2GB  3m12s
    shop          0/50  0/8  0/16GB     0  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata project show shop").await, @r"
    exit 0
    --- stdout
    Name        shop
    Instances   0 (of 50)
    Cpus        0 (of 8)
    Memory      0 (of 16GB)
    Disk        0 (unlimited)
    Processes   0 (unlimited)
    Created     2026-01-31T11:56:48Z (3m12s ago)
    --- stderr
    ");
}

#[tokio::test]
async fn quotas_are_set_and_taken_away() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata project create blog --cpu 1.5 --memory 2GB --instances 3").await, @r#"
    exit 0
    --- stdout
    --- stderr
    created blog
    "#);
    insta::assert_snapshot!(world.run("strata project update shop --cpu none --disk 1TB --dry-run").await, @r"
    exit 0
    --- stdout
    would update shop
      quota.cpu: - 8000
      quota.disk: + 1000
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata project update shop --cpu none --disk 1TB").await, @r"
    exit 0
    --- stdout
    --- stderr
    updated shop
    ");
    insta::assert_snapshot!(world.run("strata project delete shop --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    deleted shop
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/project/ {"name":"blog","quota":{"cpu":1500,"memory":2000,"instances":3}}
    PATCH http://localhost/project/shop {"quota":{"cpu":null,"disk":1000}}
    DELETE http://localhost/project/shop
    "#);
}

#[tokio::test]
async fn defaults_and_who_may_reach_it_are_set_and_taken_away() {
    let world = World::new();
    let words = "strata project create blog --pids 1000 --default-memory 64MB --allow-from shop \
        --allow-from front";
    insta::assert_snapshot!(world.run(words).await, @r#"
    exit 0
    --- stdout
    --- stderr
    created blog
    "#);
    let words = "strata project update shop --default-cpu 250m --allow-from blog \
        --privileged-ports true";
    insta::assert_snapshot!(world.run(words).await, @r"
    exit 0
    --- stdout
    --- stderr
    updated shop
    ");
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/project/ {"name":"blog","quota":{"pids":1000},"defaults":{"memory":64},"allowFrom":["front","shop"]}
    PATCH http://localhost/project/shop {"allowFrom":["blog"],"defaults":{"cpu":250},"privilegedPorts":true}
    "#);
}

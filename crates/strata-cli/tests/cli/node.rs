//! `strata node VERB`: the nodes of the server.

use crate::common::World;

#[tokio::test]
async fn nodes_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata node list").await, @r#"
    exit 0
    --- stdout
    NAME     STATUS  INSTANCES    CPU      MEMORY       DISK  AGE
    rack1-7  ready           1  0.5/8  256MB/64GB  2GB/500GB  3m12s
    rack1-8  lost            0    0/8      0/64GB    0/500GB  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata node list -o wide").await, @r#"
    exit 0
    --- stdout
    NAME     STATUS  INSTANCES    CPU      MEMORY       DISK  ADDRESS    SUBNET        VMS  GPUS    LABELS   REASON                      VERSION  AGE
    rack1-7  ready           1  0.5/8  256MB/64GB  2GB/500GB  192.0.2.7  10.42.1.0/24  yes  -       zone=eu  -                           0.1.0    3m12s
    rack1-8  lost            0    0/8      0/64GB    0/500GB  192.0.2.7  10.42.1.0/24  yes  2 a100  -        nothing was heard for 10 s  0.1.0    3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata node show rack1-8").await, @r#"
    exit 0
    --- stdout
    Name        rack1-8
    State       lost (nothing was heard for 10 s)
    Instances   0
    Capacity    8 cpus, memory 64GB, disk 500GB
    Used        0.3 cpus, memory 4GB, disk 20GB
    GPUs        2 a100
    VMs         yes
    Address     192.0.2.7
    Subnet      10.42.1.0/24
    Encryption  wireguard
    Version     0.1.0
    Joined      2026-01-31T11:56:48Z (3m12s ago)
    Changed     2026-01-31T11:56:48Z (3m12s ago)
    --- stderr
    "#);
}

#[tokio::test]
async fn nodes_are_drained_opened_and_removed() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata node drain rack1-7 --dry-run").await, @r#"
    exit 0
    --- stdout
    would drain rack1-7, which has 1 instance
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata node drain rack1-8").await, @r#"
    exit 0
    --- stdout
    --- stderr
    draining rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    node-drain of node/rack1-8: empty: 1 on it still: web [2J
    drained rack1-8
    "#);
    insta::assert_snapshot!(world.run("strata node drain rack1-7 rack1-8 --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    draining rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    draining rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    insta::assert_snapshot!(world.run("strata node undrain rack1-8").await, @r#"
    exit 0
    --- stdout
    --- stderr
    opened rack1-8
    "#);
    insta::assert_snapshot!(world.run("strata node remove rack1-7 nobody --yes").await, @r#"
    exit 6
    --- stdout
    --- stderr
    removing rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    node-drain of node/rack1-7: empty: 1 on it still: web [2J
    removed rack1-7
    error: cannot remove the node nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    insta::assert_snapshot!(world.run("strata node remove rack1-7 --detach -o name").await, @r#"
    exit 0
    --- stdout
    operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    removing rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    insta::assert_snapshot!(world.run("strata node remove rack1-8 --now --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    revoked rack1-8
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/node/rack1-8/drain {"leave":false}
    POST http://localhost/node/rack1-7/drain {"leave":false}
    POST http://localhost/node/rack1-8/drain {"leave":false}
    PATCH http://localhost/node/rack1-8 {"draining":false}
    POST http://localhost/node/rack1-7/drain {"leave":true}
    POST http://localhost/node/nobody/drain {"leave":true}
    POST http://localhost/node/rack1-7/drain {"leave":true}
    DELETE http://localhost/node/rack1-8?now=true
    "#);
}

#[tokio::test]
async fn cancelled_drain_is_reported() {
    let world = World::with(|state| state.objects.operations_fail = true);
    insta::assert_snapshot!(world.run("strata node drain rack1-7").await, @r"
    exit 7
    --- stdout
    --- stderr
    draining rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    node-drain of node/rack1-7: empty: 1 on it still: web [2J
    error: node-drain of node/rack1-7 failed
      cancelled by ann
      not rolled back: close: the store does not exist
    hint: see `strata operation log 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70`
    ");
}

#[tokio::test]
async fn labels_are_said_and_taken_back() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata node label rack1-7 zone=us ssd=yes old- --dry-run").await, @r"
    exit 0
    --- stdout
    would label rack1-7
      zone: eu -> us
      + ssd=yes
      old is not there
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata node label rack1-7 ssd=yes zone-").await, @r#"
    exit 0
    --- stdout
    --- stderr
    labelled rack1-7
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"PATCH http://localhost/node/rack1-7 {"labels":{"ssd":"yes","zone":null}}"#);
    assert_eq!(world.exit("strata node label rack1-7 ssd").await, 2);
}

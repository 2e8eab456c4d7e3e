//! `strata hypervisor`: machines brought up, emptied and taken down.

use crate::common::World;

#[tokio::test]
async fn hypervisors_are_listed_with_what_can_be_done() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata hypervisor list").await, @r"
    exit 0
    --- stdout
    ID       PHASE      ACTIONS  INSTANCES  CPU    RAM  MESSAGE                  AGE
    m1       stopping   -                0    -      -  its node did not come …  1m
    rack1-7  up         destroy          2   32  128GB  -                        1m
    rack1-8  available  create           0   32  128GB  -                        1m
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata hypervisor list -o wide").await, @r"
    exit 0
    --- stdout
    ID       PHASE      ACTIONS  INSTANCES  CPU    RAM  WITH         PROVIDER  ADDRESS    OPERATION  MESSAGE                                                      AGE
    m1       stopping   -                0    -      -  storage,gpu  local     192.0.2.7  -          its node did not come within 5 min [2J; look at its console  1m
    rack1-7  up         destroy          2   32  128GB  storage,gpu  redfish   192.0.2.7  -          -                                                            1m
    rack1-8  available  create           0   32  128GB  -            redfish   -          -          -                                                            1m
    --- stderr
    ");
}

#[tokio::test]
async fn hypervisors_are_created_drained_and_destroyed() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata hypervisor create rack1-8").await, @r#"
    exit 0
    --- stdout
    --- stderr
    creating rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    machine-create of machine/rack1-8: work: half of it
    created rack1-8
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor create rack1-7 rack1-8 nobody --detach").await, @r#"
    exit 6
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    creating rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    creating rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    error: cannot create the hypervisor nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor create rack1-7 rack1-8 --dry-run").await, @r#"
    exit 0
    --- stdout
    rack1-7 would not change: up
    would create rack1-8
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor drain rack1-7 --destroy").await, @r#"
    exit 0
    --- stdout
    --- stderr
    draining rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    machine-drain of machine/rack1-7: work: half of it
    drained and destroyed rack1-7
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor drain rack1-7 --dry-run").await, @r#"
    exit 0
    --- stdout
    would evict 2 instances from rack1-7
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor destroy rack1-7 --dry-run").await, @r#"
    exit 0
    --- stdout
    would destroy rack1-7 with 2 instances on it
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor destroy rack1-7").await, @r#"
    exit 0
    --- stdout
    --- stderr
    destroying rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    machine-destroy of machine/rack1-7: work: half of it
    destroyed rack1-7
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/hypervisor/rack1-8/create {}
    POST http://localhost/hypervisor/rack1-7/create {}
    POST http://localhost/hypervisor/rack1-8/create {}
    POST http://localhost/hypervisor/nobody/create {}
    POST http://localhost/hypervisor/rack1-7/drain {"destroy":true}
    POST http://localhost/hypervisor/rack1-7/destroy {}
    "#);
}

#[tokio::test]
async fn hypervisor_destroy_with_instances_prompts() {
    let mut world = World::new();
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata hypervisor destroy rack1-7").await, @r#"
    exit 6
    --- stdout
    --- stderr
    warning: 2 instances will be stopped and rescheduled: nothing is evicted first.
    `strata hypervisor drain ID --destroy` evicts them first.
    Destroy rack1-7? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor destroy rack1-7 --yes --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    destroying rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor destroy rack1-8 --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    destroying rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/hypervisor/rack1-7/destroy {}
    POST http://localhost/hypervisor/rack1-8/destroy {}
    "#);
}

#[tokio::test]
async fn failed_hypervisor_is_reported() {
    let world = World::with(|state| state.objects.operations_fail = true);
    insta::assert_snapshot!(world.run("strata hypervisor create rack1-8").await, @r"
    exit 7
    --- stdout
    --- stderr
    creating rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    machine-create of machine/rack1-8: work: half of it
    error: machine-create of machine/rack1-8 failed
      cancelled by ann
      not rolled back: close: the store does not exist
    hint: see `strata operation log 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70`
    ");
}

#[tokio::test]
async fn autoscaling_is_shown_set_and_planned() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata hypervisor autoscale show").await, @r#"
    exit 0
    --- stdout
    State   on
    Free    4 cpus, memory 8GB, 1 gpu
    Least   1
    Most    all machines
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor autoscale show -o json").await, @r#"
    exit 0
    --- stdout
    {
      "enabled": true,
      "cpu": 4000,
      "memory": 8000,
      "gpu": 1,
      "least": 1,
      "most": 0
    }
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor autoscale set --cpu 1.5 --memory 2GB --most 3 --off --dry-run").await, @r#"
    exit 0
    --- stdout
    would change cpu: 4000 -> 1500
    would change enabled: true -> false
    would change memory: 8000 -> 2000
    would change most: 0 -> 3
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor autoscale set --cpu 0 --least 2 --on").await, @r"
    exit 0
    --- stdout
    --- stderr
    updated the autoscaler settings
    ");
    insta::assert_snapshot!(world.run("strata hypervisor autoscale plan").await, @r#"
    exit 0
    --- stdout
    ID       WOULD   WHY
    rack1-8  create  2.5 cpus are missing, and it is the smallest that has them
    free: 1.5 cpus, memory 2GB; target: 4 cpus, memory 8GB, 1 gpu
    unschedulable: 0.5 cpus, memory 256MB
    no machine with a gpu is left
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor autoscale set").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <--cpu <N>|--memory <SIZE>|--gpu <N>|--least <N>|--most <N>|--on|--off>

    Usage: strata hypervisor autoscale set <--cpu <N>|--memory <SIZE>|--gpu <N>|--least <N>|--most <N>|--on|--off>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata hypervisor autoscale set --least 3 --most 2").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: --least 3 is more than --most 2
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"PATCH http://localhost/autoscaling/ {"cpu":0,"enabled":true,"least":2}"#);
}

//! `strata machine`: the inventory, and machines by hand.

use crate::common::World;

#[tokio::test]
async fn machines_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata machine list").await, @r#"
    exit 0
    --- stdout
    ID       PROVIDER  PHASE      POWER    CPU    RAM  MESSAGE                 AGE
    m1       local     stopping   unknown    -      -  its node did not come…  3m12s
    rack1-7  redfish   up         on        32  128GB  -                       3m12s
    rack1-8  redfish   available  off       32  128GB  -                       3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine list -o wide").await, @r#"
    exit 0
    --- stdout
    ID       PROVIDER  PHASE      POWER    CPU    RAM  HANDLE                 ADDRESS           LABELS   OPERATION  MESSAGE                                                      AGE
    m1       local     stopping   unknown    -      -  /redfish/v1/Systems/1  https://10.0.9.7  zone=eu  -          its node did not come within 5 min [2J; look at its console  3m12s
    rack1-7  redfish   up         on        32  128GB  /redfish/v1/Systems/1  https://10.0.9.7  zone=eu  -          -                                                            3m12s
    rack1-8  redfish   available  off       32  128GB  /redfish/v1/Systems/1  https://10.0.9.7  zone=eu  -          -                                                            3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine list -o name").await, @r#"
    exit 0
    --- stdout
    machine/m1
    machine/rack1-7
    machine/rack1-8
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine show m1").await, @r#"
    exit 0
    --- stdout
    Id            m1
    State         stopping (its node did not come within 5 min [2J; look at its console)
    Failed        joining: nothing was heard of its node, 1m ago
    Instances     0
    Power         unknown
    Provider      local
    Handle        /redfish/v1/Systems/1
    Management    https://10.0.9.7
    Credentials   rack1
    With          storage,gpu
    Node          192.0.2.7
    Label         zone=eu
    Added         2026-01-31T11:56:48Z (3m12s ago)
    Changed       2026-01-31T11:59:00Z (1m ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine show rack1-7").await, @r#"
    exit 0
    --- stdout
    Id            rack1-7
    State         up
    Can           destroy
    Instances     2
    Power         on
    Provider      redfish
    Handle        /redfish/v1/Systems/1
    Management    https://10.0.9.7
    Credentials   rack1
    Size          32 threads, memory 128GB
    With          storage,gpu
    Node          192.0.2.7
    Label         zone=eu
    Added         2026-01-31T11:56:48Z (3m12s ago)
    Changed       2026-01-31T11:59:00Z (1m ago)
    --- stderr
    "#);
    let world = World::with(|state| state.objects.backends.machines.clear());
    insta::assert_snapshot!(world.run("strata machine list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no machines; register one with `strata machine add ID --provider KIND`
    "#);
}

#[tokio::test]
async fn machines_are_added_from_flags() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata machine add rack1-9 --provider redfish --address https://10.0.9.9 --credentials-name rack1 --cpu 2 --ram 4GB --disk 20GB --label zone=eu").await, @r#"
    exit 0
    --- stdout
    --- stderr
    added rack1-9
    "#);
    insta::assert_snapshot!(world.run("strata machine add rack1-7 --provider sim -o name").await, @r#"
    exit 0
    --- stdout
    machine/rack1-7
    --- stderr
    rack1-7 already exists
    "#);
    insta::assert_snapshot!(world.run("strata machine add new --provider sim --dry-run").await, @r#"
    exit 0
    --- stdout
    would add new
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine add x").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --provider <KIND>

    Usage: strata machine add --provider <KIND> <ID>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata machine add x --provider aws").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'aws' for '--provider <KIND>'
      [possible values: local, qemu, redfish, maas, sim]

      tip: a similar value exists: 'maas'

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata machine add x --provider sim -f inventory.yaml").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the argument '[ID]' cannot be used with '--file <FILE>'

    Usage: strata machine add --provider <KIND> <ID>

    For more information, try '--help'.
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/machine/ {"id":"rack1-9","provider":"redfish","address":"https://10.0.9.9","credentials":"rack1","cpu":2,"ram":4000,"disk":20,"labels":{"zone":"eu"}}
    PUT http://localhost/machine/ {"id":"rack1-7","provider":"sim"}
    "#);
}

#[tokio::test]
async fn machines_are_added_from_files() {
    let world = World::new();
    let yaml = "- id: a\n  provider: local\n  ram: 4GB\n  labels: {ssd: yes}\n- id: rack1-7\n  provider: sim\n";
    std::fs::write(world.path("inventory.yaml"), yaml).unwrap();
    let toml = "[[machines]]\nid = \"t\"\nprovider = \"qemu\"\ndisk = 20\n";
    std::fs::write(world.path("inventory.toml"), toml).unwrap();
    std::fs::write(
        world.path("bad.json"),
        "[{\"id\": \"a\", \"provider\": \"sim\", \"rum\": 1}]",
    )
    .unwrap();
    std::fs::write(world.path("bad.toml"), "[[machines]\n").unwrap();
    insta::assert_snapshot!(world.run("strata machine add -f {}/inventory.yaml --dry-run").await, @r#"
    exit 0
    --- stdout
    would add a
    rack1-7 already exists
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine add -f {}/inventory.yaml -o name").await, @r#"
    exit 0
    --- stdout
    machine/a
    machine/rack1-7
    --- stderr
    added a
    rack1-7 already exists
    "#);
    insta::assert_snapshot!(world.run("strata machine add -f {}/inventory.toml").await, @r#"
    exit 0
    --- stdout
    --- stderr
    added t
    "#);
    insta::assert_snapshot!(world.run("strata machine add -f {}/bad.json").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: {}/bad.json is not an inventory
      machine 1: rum: unknown field `rum`, expected one of `provider`, `handle`, `address`, `credentials`, `cpu`, `ram`, `disk`, `labels`
    hint: write a list of machines, each with `id` and `provider`
    "#);
    insta::assert_snapshot!(world.run("strata machine add -f {}/bad.toml").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: {}/bad.toml is not an inventory
      unclosed array table, expected `]`
    hint: write a list of machines, each with `id` and `provider`
    "#);
    insta::assert_snapshot!(world.run("strata machine add -f {}/nowhere.yaml").await, @r#"
    exit 1
    --- stdout
    --- stderr
    error: cannot read {}/nowhere.yaml
      No such file or directory (os error 2)
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/machine/ {"id":"a","provider":"local","ram":4000,"labels":{"ssd":"yes"}}
    PUT http://localhost/machine/ {"id":"rack1-7","provider":"sim"}
    PUT http://localhost/machine/ {"id":"t","provider":"qemu","disk":20}
    "#);
}

#[tokio::test]
async fn machines_are_switched_read_and_forgotten() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata machine power rack1-8 on").await, @r"
    exit 0
    --- stdout
    --- stderr
    powering on rack1-8; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    machine-power of machine/rack1-8: work: half of it
    powered on rack1-8
    ");
    insta::assert_snapshot!(world.run("strata machine power rack1-7 cycle --force --detach").await, @r"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    powering off and on rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    ");
    insta::assert_snapshot!(world.run("strata machine power rack1-7 off --no-wait -o name").await, @r"
    exit 0
    --- stdout
    operation/0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    powering off rack1-7; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    ");
    insta::assert_snapshot!(world.run("strata machine power rack1-7 off --dry-run").await, @r#"
    exit 0
    --- stdout
    would power off rack1-7, which is on and has 2 instances
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine console rack1-7").await, @r#"
    exit 0
    --- stdout
    boot
    login: --- stderr
    the console was closed
    "#);
    insta::assert_snapshot!(world.run("strata machine console nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot read the console of the machine nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    insta::assert_snapshot!(world.run("strata machine remove rack1-7 rack1-8 --dry-run").await, @r#"
    exit 0
    --- stdout
    rack1-7 would not be removed: it is up
    would remove rack1-8
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata machine remove rack1-8 nobody --yes").await, @r#"
    exit 6
    --- stdout
    --- stderr
    removed rack1-8
    error: cannot remove the machine nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/machine/rack1-8/power {"power":"on","force":false}
    POST http://localhost/machine/rack1-7/power {"power":"cycle","force":true}
    POST http://localhost/machine/rack1-7/power {"power":"off","force":false}
    DELETE http://localhost/machine/rack1-8
    DELETE http://localhost/machine/nobody
    "#);
}

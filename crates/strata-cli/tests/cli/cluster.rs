//! `strata cluster` and `strata pool`: Kubernetes made of machines.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::World;
use crate::common::clusters::KUBECONFIG;

#[tokio::test]
async fn clusters_are_listed_and_shown() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cluster list").await, @r#"
    exit 0
    --- stdout
    NAME  VERSION  STATUS    READY  MESSAGE                                      AGE
    dev   v1.34.4  running   3/3    -                                            1h
    prod  v1.34.4  degraded  4/5    m3 is NotReady: its kubelet is silent [2J;…  1h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster list -o wide").await, @r#"
    exit 0
    --- stdout
    NAME  VERSION  STATUS    READY  SERVER                  POOLS  OPERATION                             MESSAGE                                                             AGE
    dev   v1.34.4  running   3/3    https://127.0.0.1:7800  web=2  0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e  -                                                                   1h
    prod  v1.34.4  degraded  4/5    https://127.0.0.1:7800  web=2  0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e  m3 is NotReady: its kubelet is silent [2J; it is replaced in 3 min  1h
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster show prod").await, @r#"
    exit 0
    --- stdout
    Name           prod
    State          degraded (m3 is NotReady: its kubelet is silent [2J; it is replaced in 3 min)
    Version        v1.34.4
    Server         https://127.0.0.1:7800
    Machines       4 of 5 ready
    Control plane  3 standard
    Pool           web: 2 standard, tier=web
    Operation      0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
    Created        2026-01-31T11:00:00Z (1h ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster show nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the cluster nobody
      there is nothing called nobody
    hint: see those there are with list
    "#);
    insta::assert_snapshot!(world.run("strata cluster nodes prod").await, @r#"
    exit 0
    --- stdout
    MACHINE  POOL           STATUS    VERSION  PHASE  MESSAGE
    m1       control-plane  Ready     v1.34.4  up     -
    m2       web            Ready     v1.34.4  up     -
    m3       web            NotReady  v1.34.4  up     its kubelet is silent
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pool list dev -o wide").await, @r#"
    exit 0
    --- stdout
    NAME  TYPE      READY  LABELS    MACHINES
    web   standard  1/2    tier=web  m2,m3
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster versions").await, @r#"
    exit 0
    --- stdout
    VERSION  ETCD     COREDNS
    v1.34.4  3.6.6-0  v1.12.1
    v1.35.1  3.6.6-0  v1.12.1
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster snapshot list dev").await, @r#"
    exit 0
    --- stdout
    ID               VERSION  SIZE  REASON                         AGE
    20260131T110000  v1.34.4  5MiB  before the upgrade to v1.35.1  1h
    --- stderr
    "#);
}

#[tokio::test]
async fn cluster_create_shows_progress_of_each_machine() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cluster create new --version 1.34 --workers 1 --dry-run").await, @r"
    exit 0
    --- stdout
    MACHINE  WOULD  POOL           WHY
    m1       add    control-plane  the smallest that fits
    m2       add    workers        the next by its id
    would allocate 2 machines
    --- stderr
    ");
    insta::assert_snapshot!(world.run("strata cluster create new --version 1.34 --workers 1 --pool train=2:gpu --label team=shop --pod-security restricted").await, @r#"
    exit 0
    --- stdout
    --- stderr
    creating the cluster new; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-create of cluster/new: join: m1: installs v1.34.4
    cluster-create of cluster/new: join: m2: waits for m1
    created the cluster new; get credentials with `strata cluster kubeconfig new --merge`
    "#);
    insta::assert_snapshot!(world.run("strata cluster create new --version 1.34 --detach").await, @r#"
    exit 0
    --- stdout
    0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    --- stderr
    creating the cluster new; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    "#);
    insta::assert_snapshot!(world.run("strata cluster create new --version 1.34 --pool train=2:fast").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'train=2:fast' for '--pool <NAME=COUNT[:gpu]>': "fast" must be standard or gpu

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata cluster create New --version 1.34").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'New' for '<NAME>': "New" has 'N' in it; only a-z, 0-9 and - are allowed

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata operation show 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70").await, @r#"
    exit 0
    --- stdout
    Id          0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    Kind        cluster-create
    State       active (join: m1: installs v1.34.4 m2: waits for m1)
    About       cluster/new
    Step        boot: done
    Step        join: running
                  m1: installs v1.34.4
                  m2: waits for m1
    Owner       me
    Asked       2026-01-31T11:56:48Z (3m12s ago)
    --- stderr
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/cluster/?dryRun=true {"name":"new","version":"1.34","controlPlane":{"count":1,"instanceType":"standard"},"pools":[{"name":"workers","count":1,"instanceType":"standard"}]}
    PUT http://localhost/cluster/ {"name":"new","version":"1.34","controlPlane":{"count":1,"instanceType":"standard","labels":{"team":"shop"},"podSecurity":"restricted"},"pools":[{"name":"workers","count":1,"instanceType":"standard","labels":{"team":"shop"}},{"name":"train","count":2,"instanceType":"gpu","labels":{"team":"shop"}}]}
    PUT http://localhost/cluster/ {"name":"new","version":"1.34","controlPlane":{"count":1,"instanceType":"standard"},"pools":[]}
    "#);
}

#[tokio::test]
async fn a_cluster_is_upgraded_kept_put_back_and_deleted() {
    let mut world = World::new();
    insta::assert_snapshot!(world.run("strata cluster upgrade dev").await, @r#"
    exit 0
    --- stdout
    v1.35.1
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster upgrade dev 1.35 --dry-run").await, @r#"
    exit 0
    --- stdout
    MACHINE  ROLE           HAS      DRAIN
    m1       control-plane  v1.34.4  no
    m2       worker         v1.34.4  yes
    would upgrade 2 machines from v1.34.4 to v1.35.1
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster upgrade prod 1.35 --dry-run").await, @r#"
    exit 6
    --- stdout
    MACHINE  ROLE           HAS      DRAIN
    m1       control-plane  v1.34.4  no
    m2       worker         v1.34.4  yes
    would upgrade 2 machines from v1.34.4 to v1.35.1
    --- stderr
    error: 1 thing in the way of v1.35.1
      the budget default/db allows no disruption
    hint: let it allow one, or scale what it guards
    "#);
    insta::assert_snapshot!(world.run("strata cluster upgrade dev 1.35").await, @r#"
    exit 0
    --- stdout
    --- stderr
    upgrading the cluster dev to 1.35; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-upgrade of cluster/dev: work: half of it
    upgraded the cluster dev to 1.35
    "#);
    insta::assert_snapshot!(world.run("strata cluster snapshot create dev").await, @r#"
    exit 0
    --- stdout
    --- stderr
    creating a snapshot of dev; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-snapshot of cluster/dev: work: half of it
    created a snapshot of dev
    "#);
    insta::assert_snapshot!(world.run("strata cluster restore dev latest").await, @r#"
    exit 0
    --- stdout
    --- stderr
    restoring the cluster dev; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-restore of cluster/dev: work: half of it
    restored the cluster dev
    "#);
    insta::assert_snapshot!(world.run("strata cluster delete dev --dry-run").await, @r#"
    exit 0
    --- stdout
    would delete dev and release 3 machines
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata cluster delete dev --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    deleting dev; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-delete of cluster/dev: work: half of it
    deleted dev
    "#);
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata cluster delete dev prod").await, @r#"
    exit 6
    --- stdout
    --- stderr
    Delete dev, prod with everything in them? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    POST http://localhost/cluster/dev/upgrade {"version":"1.35"}
    POST http://localhost/cluster/dev/snapshot {}
    POST http://localhost/cluster/dev/restore {"snapshot":"latest"}
    DELETE http://localhost/cluster/dev
    "#);
}

#[tokio::test]
async fn pools_are_added_scaled_and_deleted() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pool add dev train=2:gpu --label tier=gpu").await, @r#"
    exit 0
    --- stdout
    --- stderr
    adding train to dev; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-scale of cluster/dev: work: half of it
    added train to dev
    "#);
    insta::assert_snapshot!(world.run("strata pool add dev web=2 --dry-run").await, @r#"
    exit 0
    --- stdout
    dev already has a pool web
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pool scale dev web 1 --dry-run").await, @r#"
    exit 0
    --- stdout
    MACHINE  WOULD   POOL  WHY
    m3       remove  web   it is NotReady
    would release 1 machine
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pool scale dev web 1").await, @r#"
    exit 0
    --- stdout
    --- stderr
    scaling web of dev to 1; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-scale of cluster/dev: work: half of it
    scaled web of dev to 1
    "#);
    insta::assert_snapshot!(world.run("strata pool scale dev web -1").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: unexpected argument '-1' found

      tip: to pass '-1' as a value, use '-- -1'

    Usage: strata pool scale [OPTIONS] <CLUSTER> <POOL> <COUNT>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata pool delete dev web none --dry-run").await, @r#"
    exit 0
    --- stdout
    would delete web and release 2 machines
    dev has no pool none
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pool delete dev web --yes").await, @r#"
    exit 0
    --- stdout
    --- stderr
    deleting web; operation 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70
    cluster-scale of cluster/dev: work: half of it
    deleted web
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    PUT http://localhost/cluster/dev/pool {"name":"train","count":2,"instanceType":"gpu","labels":{"tier":"gpu"}}
    PATCH http://localhost/cluster/dev/pool/web?dryRun=true {"count":1}
    PATCH http://localhost/cluster/dev/pool/web {"count":1}
    DELETE http://localhost/cluster/dev/pool/web
    "#);
}

#[tokio::test]
async fn credentials_are_printed_written_and_merged() {
    let world = World::new();
    assert_eq!(world.exit("strata cluster kubeconfig dev").await, 0);
    assert_eq!(world.stdout.take(), KUBECONFIG);
    let write = "strata cluster kubeconfig dev --output {}/dev.yaml --ttl 8h";
    insta::assert_snapshot!(world.run(write).await, @r"
    exit 0
    --- stdout
    --- stderr
    wrote {}/dev.yaml, valid for 12h
    ");
    let file = world.path("dev.yaml");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), KUBECONFIG);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let merge = "strata cluster kubeconfig dev --merge {}/kube/config";
    insta::assert_snapshot!(world.run(merge).await, @r"
    exit 0
    --- stdout
    --- stderr
    merged strata-dev into {}/kube/config, valid for 12h; kubectl uses it now
    ");
    let other = "strata cluster kubeconfig prod --merge {}/kube/config --context work";
    insta::assert_snapshot!(world.run(other).await, @r"
    exit 0
    --- stdout
    --- stderr
    merged work into {}/kube/config, valid for 12h; use it with `kubectl --context work`
    ");
    let used = "strata cluster kubeconfig prod --merge {}/kube/config --context work --use";
    insta::assert_snapshot!(world.run(used).await, @r"
    exit 0
    --- stdout
    --- stderr
    merged work into {}/kube/config, valid for 12h; kubectl uses it now
    ");
    let text = std::fs::read_to_string(world.path("kube/config")).unwrap();
    insta::assert_snapshot!(text, @r#"
    apiVersion: 'v1'
    clusters:
    - cluster:
        server: 'https://127.0.0.1:7800'
      name: 'strata-dev'
    - cluster:
        server: 'https://127.0.0.1:7800'
      name: 'work'
    contexts:
    - context:
        cluster: 'strata-dev'
        user: 'strata-dev'
      name: 'strata-dev'
    - context:
        cluster: 'work'
        user: 'work'
      name: 'work'
    current-context: 'work'
    kind: 'Config'
    users:
    - name: 'strata-dev'
      user:
        client-key-data: 'S0VZ'
    - name: 'work'
      user:
        client-key-data: 'S0VZ'
    "#);
    std::fs::write(world.path("kube/config"), "no kubeconfig").unwrap();
    insta::assert_snapshot!(world.run(merge).await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: {}/kube/config is not a kubeconfig
      it is not a mapping
    hint: choose another file: --merge FILE, or --output FILE
    "#);
}

#[tokio::test]
async fn credentials_are_taken_back() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata cluster kubeconfig dev --revoke").await, @r#"
    exit 0
    --- stdout
    --- stderr
    credentials of you for dev are revoked
    "#);
    insta::assert_snapshot!(world.run("strata cluster kubeconfig dev --revoke --user ann").await, @r#"
    exit 0
    --- stdout
    --- stderr
    credentials of ann for dev are revoked
    "#);
    insta::assert_snapshot!(world.run("strata cluster kubeconfig dev --revoke --ttl 1h").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the argument '--revoke' cannot be used with '--ttl <DURATION>'

    Usage: strata cluster kubeconfig --revoke <NAME>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(world.run("strata cluster kubeconfig dev --use").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --merge [<FILE>]

    Usage: strata cluster kubeconfig --merge [<FILE>] --use <NAME>

    For more information, try '--help'.
    "#);
    let requests = world.node.state.lock().objects.requests.join("\n");
    insta::assert_snapshot!(requests, @r#"
    DELETE http://localhost/cluster/dev/kubeconfig
    DELETE http://localhost/cluster/dev/kubeconfig?user=ann
    "#);
}

//! `strata pod`, whole commands against a fake node: what is looked at and
//! what is switched on and off.

use crate::common::World;

#[tokio::test]
async fn list_is_a_table() {
    insta::assert_snapshot!(World::new().run("strata pod list").await, @r#"
    exit 0
    --- stdout
    NAME  IMAGE       STATE      ADDRESS    PORTS                    RESTARTS  AGE
    job   alpine      exit 3     -          -                               4  3m12s
    slow  registry.…  unhealthy  10.66.0.3  -                               0  3m12s
    web   nginx:1.27  running    10.66.0.2  8080:80,127.0.0.1:8443…         0  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata pod list -l app=shop -o wide").await, @r#"
    exit 0
    --- stdout
    NAME  IMAGE                         STATE    ADDRESS    PORTS                       RESTARTS  MEMORY  CPU-TIME   PID  REASON  ID            AGE
    web   docker.io/library/nginx:1.27  running  10.66.0.2  8080:80,127.0.0.1:8443:443         0   12MiB     1.23s  4711  -       web-0192f0c1  3m12s
    --- stderr
    "#);
}

#[tokio::test]
async fn tables_are_not_cut_in_a_pipe() {
    let mut world = World::new();
    world.columns = None;
    let shown = world.run("strata pod list").await;
    assert!(!shown.contains('…'), "{shown}");
    assert!(shown.contains("8080:80,127.0.0.1:8443:443"), "{shown}");
}

#[tokio::test]
async fn empty_pod_list_prints_a_hint_to_stderr() {
    let world = World::with(|state| state.pods.clear());
    insta::assert_snapshot!(world.run("strata pod list").await, @r#"
    exit 0
    --- stdout
    --- stderr
    no pods; create one with `strata pod run NAME IMAGE`
    "#);
}

#[tokio::test]
async fn list_watches_for_changes_until_the_end_of_the_stream() {
    insta::assert_snapshot!(World::new().run("strata pod list -w -o name").await, @r#"
    exit 0
    --- stdout
    pod/job
    pod/slow
    pod/web
    --- stderr
    "#);
}

#[tokio::test]
async fn show_tells_all_and_steers_no_terminal() {
    insta::assert_snapshot!(World::new().run("strata pod show web").await, @r#"
    exit 0
    --- stdout
    Name        web
    State       running
    Health      healthy
    Image       docker.io/library/nginx:1.27
    Digest      sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    Id          web-0192f0c1
    Address     10.66.0.2
    Ports       8080:80, 127.0.0.1:8443:443
    Limits      1.5 cpus, memory 64MiB
    Env         EVIL= [2J
    Label       app=shop
    Created     2026-01-31T11:56:48Z (3m12s ago)
    Started     2026-01-31T11:59:00Z (1m ago)
    Usage       12MiB memory, 1.23s cpu, 2MiB disk, 4KiB received, 1MiB sent, 3 pids
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata pod show nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot show the pod nobody
      there is no pod nobody
    hint: `strata pod list` shows those there are
    "#);
}

#[tokio::test]
async fn yaml_has_a_stable_shape_and_can_be_made_again() {
    let world = World::new();
    let shown = world.run("strata pod show web -o yaml").await;
    insta::assert_snapshot!(shown, @r#"
    exit 0
    --- stdout
    name: web
    image: docker.io/library/nginx:1.27
    environment:
    - "EVIL=\e[2J"
    limits:
      cpus: 1.5
      memory: 67108864
    ports:
    - 8080:80
    - 127.0.0.1:8443:443
    labels:
      app: shop
    status:
      state: running
      id: web-0192f0c1
      image_digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      address: "10.66.0.2"
      process_id: 4711
      created_at: "2026-01-31T11:56:48Z"
      started_at: "2026-01-31T11:59:00Z"
      ended_at: null
      out_of_memory: false
      restarts: 0
      health: healthy
      usage:
        cpu_usec: 1230000
        memory_bytes: 12582912
        memory_peak_bytes: 20971520
        pids: 3
        io_read_bytes: 0
        io_write_bytes: 0
        disk_bytes: 2097152
        network_received_bytes: 4096
        network_sent_bytes: 1048576
    --- stderr
    "#);
    assert_eq!(world.exit("strata pod show web -o yaml").await, 0);
    std::fs::write(world.path("web.yaml"), world.stdout.take()).unwrap();
    assert_eq!(world.exit("strata pod create -f {}/web.yaml").await, 0);
    let state = world.node.state.lock();
    let before = state.pods.iter().find(|pod| {
        let spec = pod.spec.as_ref().unwrap();
        spec.name == "web"
    });
    let wanted = &state.created[0];
    let before = before.unwrap().spec.as_ref().unwrap();
    assert_eq!(wanted.ports, before.ports);
    assert_eq!(wanted.limits, before.limits);
    assert_eq!(wanted.labels, before.labels);
}

#[tokio::test]
async fn start_and_stop_take_several_and_tell_of_each() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod start job web").await, @r#"
    exit 0
    --- stdout
    --- stderr
    started job
    started web
    "#);
    insta::assert_snapshot!(world.run("strata pod stop web nobody job --grace 30s").await, @r#"
    exit 6
    --- stdout
    --- stderr
    stopped web
    stopped job
    error: cannot stop the pod nobody
      there is no pod nobody
    "#);
    let calls = world.node.state.lock().calls.clone();
    assert!(
        calls.contains(&"stop web Some(30000)".to_owned()),
        "{calls:?}"
    );
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod start job web --dry-run").await, @r#"
    exit 0
    --- stdout
    would start job
    web is already running
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pod stop job web --dry-run").await, @r#"
    exit 0
    --- stdout
    job is not running: exit 3
    would stop web
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pod destroy job --dry-run").await, @r#"
    exit 0
    --- stdout
    would destroy job (exit 3)
    --- stderr
    "#);
    assert!(world.node.state.lock().calls.is_empty());
}

#[tokio::test]
async fn destroying_asks_where_there_is_somebody_to_ask() {
    let mut world = World::new();
    world.answer = Some("n\n");
    insta::assert_snapshot!(world.run("strata pod destroy web").await, @r#"
    exit 6
    --- stdout
    --- stderr
    Destroy web? [y/N] error: cancelled, nothing was changed
    hint: answer y, or pass --yes
    "#);
    insta::assert_snapshot!(world.run("strata pod destroy web --yes --grace 1s").await, @r#"
    exit 0
    --- stdout
    --- stderr
    destroyed web
    "#);
    assert_eq!(world.node.state.lock().calls, ["destroy web Some(1000)"]);
}

#[tokio::test]
async fn waiting_ends_as_the_pod_did() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod wait web").await, @r#"
    exit 0
    --- stdout
    --- stderr
    web ended: exit 0
    "#);
    insta::assert_snapshot!(world.run("strata pod wait job").await, @r#"
    exit 7
    --- stdout
    --- stderr
    error: job ended: exit 3
    "#);
}

#[tokio::test]
async fn logs_go_where_they_came_from() {
    let world = World::new();
    assert_eq!(world.exit("strata pod logs web").await, 0);
    assert_eq!(
        world.stdout.bytes(),
        b"first\nraw \xff bytes\nafter a gap\n"
    );
    world.stdout.take();
    assert_eq!(
        world.stderr.take(),
        "a complaint\nwarning: 2KiB were lost here\n"
    );
    insta::assert_snapshot!(world.run("strata pod logs web --tail 1 --timestamps").await, @r#"
    exit 0
    --- stdout
    2026-01-31T12:00:00.005Z after a gap
    --- stderr
    warning: 2KiB were lost here
    "#);
    insta::assert_snapshot!(world.run("strata pod logs web --previous").await, @r#"
    exit 0
    --- stdout
    first
    --- stderr
    "#);
}

#[tokio::test]
async fn stats_tell_rates_between_two_looks() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod stats --once").await, @r#"
    exit 0
    --- stdout
    NAME  CPU%    MEM/LIMIT  DISK  NET-IN/S  NET-OUT/S  PIDS
    job   50.0      12MiB/-  2MiB     10KiB         0B     3
    slow  50.0      12MiB/-  2MiB     10KiB         0B     3
    web   50.0  12MiB/64MiB  2MiB     10KiB         0B     3
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata pod stats web --once -o json").await, @r#"
    exit 0
    --- stdout
    {"at":"2026-01-31T12:00:00Z","pods":[{"name":"web","state":"running","cpu_percent":50.0,"memory_bytes":12582912,"memory_limit_bytes":67108864,"disk_bytes":2097152,"disk_limit_bytes":null,"received_bytes_per_second":10240,"sent_bytes_per_second":0,"pids":3}]}
    --- stderr
    "#);
}

#[tokio::test]
async fn events_end_with_what_is_remembered() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata pod events").await, @r#"
    exit 0
    --- stdout
    2026-01-31T12:00:00.001Z  web               running     started
    2026-01-31T12:00:00.002Z  job               waiting     exit 3 [2J
    2026-01-31T12:00:00.003Z  job               exited      exit 3
    --- stderr
    warning: 2 events were dropped here
    "#);
    insta::assert_snapshot!(world.run("strata pod events web -o json").await, @r#"
    exit 0
    --- stdout
    {"at":"2026-01-31T12:00:00.001Z","pod":"web","pod_id":"web-0192f0c1","state":"running","message":"started"}
    --- stderr
    "#);
}

#[tokio::test]
async fn names_are_refused_before_anything_is_sent() {
    insta::assert_snapshot!(World::new().run("strata pod show Web_1").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'Web_1' for '<NAME>': "Web_1" has 'W' in it; only a-z, 0-9 and - are allowed

    For more information, try '--help'.
    "#);
}

#[tokio::test]
async fn tables_fit_eighty_columns() {
    for line in [
        "strata pod list",
        "strata pod stats --once",
        "strata vm list",
        "strata vm stats --once",
        "strata volume list",
        "strata spawn list",
    ] {
        let world = World::new();
        assert_eq!(world.exit(line).await, 0);
        for row in world.stdout.take().lines() {
            assert!(row.chars().count() <= 80, "{line}: {row}");
        }
    }
}

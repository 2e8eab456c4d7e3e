//! `strata vm` and `strata spawn`, whole commands against a fake node.

use strata_api::strata::v1::vm_spec::Boot;
use strata_api::strata::v1::{VmAccelerator, VmMachine};

use crate::common::World;

#[tokio::test]
async fn list_is_a_table() {
    insta::assert_snapshot!(World::new().run("strata vm list").await, @r#"
    exit 0
    --- stdout
    NAME   STATE    CPUS  MEMORY  ADDRESS     PORTS    AGE
    build  running     2    2GiB  10.66.0.20  2222:22  3m12s
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata vm list -o wide").await, @r#"
    exit 0
    --- stdout
    NAME   STATE    CPUS  MEMORY  ADDRESS     PORTS    ACCELERATOR  MAC                DISK  RESTARTS   PID  BOOT               REASON  AGE
    build  running     2    2GiB  10.66.0.20  2222:22  tcg          52:54:00:00:00:01  3MiB         0  4800  /srv/debian.qcow2  -       3m12s
    --- stderr
    "#);
}

#[tokio::test]
async fn show_tells_all() {
    insta::assert_snapshot!(World::new().run("strata vm show build").await, @r#"
    exit 0
    --- stdout
    Name         build
    State        running
    Hardware     2 cpus, 2GiB memory
    Accelerator  tcg
    Image        /srv/debian.qcow2
    Id           build-0192f0c1
    Address      10.66.0.20
    Mac          52:54:00:00:00:01
    Ports        2222:22
    Created      2026-01-31T11:56:48Z (3m12s ago)
    Started      2026-01-31T11:59:00Z (1m ago)
    Usage        0B memory, 0.00s cpu, 3MiB disk
    --- stderr
    "#);
    insta::assert_snapshot!(World::new().run("strata vm show build -o yaml").await, @r#"
    exit 0
    --- stdout
    name: build
    cpus: 2
    memory: 2147483648
    image: /srv/debian.qcow2
    ports:
    - "2222:22"
    status:
      state: running
      id: build-0192f0c1
      address: "10.66.0.20"
      mac: "52:54:00:00:00:01"
      accelerator: tcg
      process_id: 4800
      created_at: "2026-01-31T11:56:48Z"
      started_at: "2026-01-31T11:59:00Z"
      ended_at: null
      restarts: 0
      usage:
        cpu_usec: 0
        memory_bytes: 0
        memory_peak_bytes: 0
        pids: 0
        io_read_bytes: 0
        io_write_bytes: 0
      disk_bytes: 3145728
    --- stderr
    "#);
}

#[tokio::test]
async fn flags_become_the_pod_spec() {
    let world = World::new();
    std::fs::write(world.path("seed"), "#cloud-config\n").unwrap();
    let line = "strata vm run db --image /srv/debian.qcow2 --cpus 2 --memory 2GiB \
                --disk-size 20GiB --disk 10GiB --disk /srv/data.raw:ro -p 2222:22 \
                --machine q35 --accelerator tcg --user-data {}/seed --grace 1m -l app=shop";
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 0
    --- stdout
    --- stderr
    started db on 10.66.0.20
    "#);
    let spec = world.node.state.lock().created_vms.remove(0);
    assert_eq!(spec.boot, Some(Boot::Image("/srv/debian.qcow2".into())));
    assert_eq!((spec.cpus, spec.memory_bytes), (2, 2 << 30));
    assert_eq!(spec.disk_bytes, 20 << 30);
    assert_eq!(spec.disks[0].bytes, 10 << 30);
    assert_eq!(spec.disks[1].image, "/srv/data.raw");
    assert!(spec.disks[1].read_only);
    assert_eq!(spec.machine(), VmMachine::Q35);
    assert_eq!(spec.accelerator(), VmAccelerator::Tcg);
    assert_eq!(spec.ports, ["2222:22"]);
    assert_eq!(spec.user_data, "#cloud-config\n");
    assert_eq!(spec.stop_grace_ms, Some(60_000));
    assert_eq!(spec.labels["app"], "shop");
}

#[tokio::test]
async fn a_kernel_is_found_from_the_users_directory() {
    let world = World::new();
    let line = "strata vm create tiny --kernel vmlinuz --initrd boot/initrd \
                --append 'console=ttyS0 quiet' --machine microvm --no-network";
    assert_eq!(world.exit(line).await, 0);
    let spec = world.node.state.lock().created_vms.remove(0);
    let here = std::env::current_dir().unwrap();
    let Some(Boot::Kernel(kernel)) = spec.boot else {
        panic!("no kernel");
    };
    assert_eq!(kernel.kernel, here.join("vmlinuz").display().to_string());
    assert_eq!(
        kernel.initrd,
        here.join("boot/initrd").display().to_string()
    );
    assert_eq!(kernel.command_line, "console=ttyS0 quiet");
    assert!(spec.no_network);
}

#[tokio::test]
async fn invalid_flags_are_rejected_before_the_call() {
    let world = World::new();
    for line in [
        "strata vm create tiny",
        "strata vm create tiny --kernel a --image b",
        "strata vm create tiny --image b --append x",
        "strata vm create tiny --image b --no-network -p 1:1",
        "strata vm create tiny --image b --machine toaster",
    ] {
        assert_eq!(world.exit(line).await, 2, "{line}");
    }
    world.stderr.take();
    insta::assert_snapshot!(world.run("strata vm create tiny --cpus 2").await, @r#"
    exit 2
    --- stdout
    --- stderr
    error: tiny has no boot source
    hint: pass --image FILE, or --kernel FILE with --initrd and --append
    "#);
}

#[tokio::test]
async fn printed_resource_can_be_created_again() {
    let world = World::new();
    assert_eq!(world.exit("strata vm show build -o yaml").await, 0);
    std::fs::write(world.path("vm.yaml"), world.stdout.take()).unwrap();
    insta::assert_snapshot!(world.run("strata vm create -f {}/vm.yaml --dry-run").await, @r#"
    exit 0
    --- stdout
    build already exists, would not change
    --- stderr
    "#);
    assert_eq!(world.exit("strata vm create -f {}/vm.yaml").await, 0);
    let state = world.node.state.lock();
    assert_eq!(Some(&state.created_vms[0]), state.vms[0].spec.as_ref());
}

#[tokio::test]
async fn power_goes_on_and_off() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata vm stop build --grace 0s").await, @r#"
    exit 0
    --- stdout
    --- stderr
    stopped build
    "#);
    insta::assert_snapshot!(world.run("strata vm start build nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    started build
    error: cannot start the vm nobody
      there is no vm nobody
    "#);
    insta::assert_snapshot!(world.run("strata vm logs build").await, @r#"
    exit 0
    --- stdout
    login:
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata vm destroy build").await, @r#"
    exit 0
    --- stdout
    --- stderr
    destroyed build
    "#);
    assert_eq!(
        world.node.state.lock().calls,
        ["stop build Some(0)", "destroy build"]
    );
}

#[tokio::test]
async fn the_console_takes_pipes_too() {
    let mut world = World::new();
    // Without a terminal nobody can have typed the escape.
    world.piped = "ls\x1d\nq";
    assert_eq!(world.exit("strata vm console build").await, 0);
    assert_eq!(world.stdout.take(), "login: ls\x1d\nq");
    insta::assert_snapshot!(world.run("strata vm console nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    error: cannot open the console of the vm nobody
      there is no vm nobody
    "#);
}

#[tokio::test]
async fn machines_are_spawned_and_listed() {
    let world = World::new();
    std::fs::write(world.path("token"), "secret\n").unwrap();
    let line = "strata spawn create n2 --cpu 0.5 --memory 256MiB \
                --join https://10.0.0.1:7700 --join-token-file {}/token";
    insta::assert_snapshot!(world.run(line).await, @r#"
    exit 0
    --- stdout
    --- stderr
    created n2; its node listens at https://10.66.0.30:7710
    "#);
    insta::assert_snapshot!(world.run("strata spawn list").await, @r#"
    exit 0
    --- stdout
    NAME  STATE    ENDPOINT                 AGE
    n1    running  https://10.66.0.30:7710  9s
    n2    running  https://10.66.0.30:7710  9s
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata spawn show n2").await, @r#"
    exit 0
    --- stdout
    Name       n2
    State      running
    Endpoint   https://10.66.0.30:7710
    Address    10.66.0.30
    Cpus       0.5
    Memory     256MiB
    Server     https://10.0.0.1:7700
    Id         n2-0192f0c1
    Created    2026-01-31T11:59:51Z (9s ago)
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata spawn destroy n1 nobody").await, @r#"
    exit 6
    --- stdout
    --- stderr
    destroyed n1
    error: cannot destroy the machine nobody
      there is no machine nobody
    "#);
    let state = world.node.state.lock();
    let spec = &state.created_machines[0];
    assert_eq!(
        (spec.cpu_millis, spec.join_token.as_str()),
        (Some(500), "secret")
    );
}

#[tokio::test]
async fn stats_events_and_wait_are_as_those_of_pods() {
    let world = World::new();
    insta::assert_snapshot!(world.run("strata vm stats --once").await, @r#"
    exit 0
    --- stdout
    NAME   CPU%    MEM/LIMIT  DISK  NET-IN/S  NET-OUT/S  PIDS
    build  50.0  300MiB/2GiB  3MiB        0B         0B     5
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata vm stats --once -o json").await, @r#"
    exit 0
    --- stdout
    {"at":"2026-01-31T12:00:00Z","vms":[{"name":"build","state":"running","cpu_percent":50.0,"memory_bytes":314572800,"memory_limit_bytes":2147483648,"disk_bytes":3145728,"disk_limit_bytes":null,"received_bytes_per_second":0,"sent_bytes_per_second":0,"pids":5}]}
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata vm events").await, @r#"
    exit 0
    --- stdout
    2026-01-31T12:00:00.000Z  build             running     started
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata vm events -o json").await, @r#"
    exit 0
    --- stdout
    {"at":"2026-01-31T12:00:00Z","vm":"build","vm_id":"build-0192f0c1","state":"running","message":"started"}
    --- stderr
    "#);
    insta::assert_snapshot!(world.run("strata vm wait build").await, @r"
    exit 0
    --- stdout
    --- stderr
    build ended: powered off
    ");
    let world = World::with(|state| state.exit_code = 1);
    insta::assert_snapshot!(world.run("strata vm wait build -o name").await, @r#"
    exit 7
    --- stdout
    vm/build
    --- stderr
    error: build ended: exit 1
    "#);
}

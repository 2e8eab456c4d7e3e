//! A machine from the first to the last: on the bridge, on its console, over
//! a restart of the daemon, switched off and destroyed.

use std::path::Path;

use strata_testkit::images::busybox_layout;
use strata_testkit::pods::idle;
use strata_testkit::v1::console_input::Input;
use strata_testkit::v1::{
    ConsoleInput, DestroyVmRequest, PodState, Vm, VmEvent, VmStats, VmStatsRequest, WaitVmRequest,
    WatchVmsRequest,
};
use strata_testkit::{Code, refused};

use crate::vms::{World, world};

const SHELL: &str = "echo ready-to-serve; while :; do sh </dev/ttyS0 >/dev/ttyS0 2>&1; done";
/// Switches off when the power button is pressed, which the kernel counts: it
/// has a driver for it.
const OBEYS: &str = "echo ready-to-serve; \
    until read -r pressed rest </sys/firmware/acpi/interrupts/ff_pwr_btn && [ \"$pressed\" != 0 ]; \
    do sleep 0.1; done; echo told-to-leave; poweroff -f";

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_machine() {
    let Some(mut world) = world().await else {
        return;
    };
    let web = "echo page >/tmp/index.html; httpd -h /tmp -p 80; ";
    let mut guest = world.guest("guest", &format!("{web}{SHELL}"));
    guest.ports = vec!["8080:80".into()];
    let vm = world.run(guest).await.unwrap();
    assert_eq!(vm.state(), PodState::Running);
    assert!(vm.process_id > 0);
    world.says("guest", "ready-to-serve").await;

    // From the node, through the published port, and from a pod by its name.
    for (host, port) in [(vm.address.as_str(), 80), ("127.0.0.1", 8080)] {
        let page = world.network.get(host, port);
        assert!(page.ends_with("page\n"), "{page}");
    }
    let image = busybox_layout(&world.daemon.scratch());
    // A name is one thing's.
    refused(
        world.node.run_pod(idle("guest", &image)).await,
        Code::AlreadyExists,
    );
    world.node.run_pod(idle("pod", &image)).await.unwrap();
    let page = world
        .node
        .sh("pod", "wget -q -O- http://guest/")
        .await
        .unwrap();
    assert_eq!(page.ok(), "page");

    // QEMU has no capability.
    let status = std::fs::read_to_string(format!("/proc/{}/status", vm.process_id)).unwrap();
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{status}");
    }
    // And it sees nothing of the machine but its own program.
    let root = format!("/proc/{}/root", vm.process_id);
    let root = Path::new(&root);
    for path in ["etc/shadow", "home", "proc/self", "run", "var"] {
        assert!(!root.join(path).exists(), "{path}");
    }
    let data_dir = world.daemon.data_dir();
    let inside = root.join(data_dir.strip_prefix("/").unwrap());
    assert!(!inside.exists());

    // The daemon dies; the machine does not notice.
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let again = world.get("guest").await;
    assert_eq!(
        (again.state(), again.process_id),
        (PodState::Running, vm.process_id)
    );
    let page = world
        .node
        .sh("pod", "wget -q -O- http://guest/")
        .await
        .unwrap();
    assert_eq!(page.ok(), "page");

    // What is typed is done, and seen by whoever types and in the log.
    let (sender, input) = tokio::sync::mpsc::channel(4);
    for input in [
        Input::Vm("guest".into()),
        Input::Typed("echo typed-$((40+2))\n".into()),
    ] {
        sender
            .send(ConsoleInput { input: Some(input) })
            .await
            .unwrap();
    }
    let input = tokio_stream::wrappers::ReceiverStream::new(input);
    let answer = world.node.client().vms().console(input).await.unwrap();
    let mut console = answer.into_inner();
    let mut printed = String::new();
    while !printed.contains("typed-42") {
        let piece = console
            .message()
            .await
            .unwrap()
            .expect("the console goes on");
        printed.push_str(&String::from_utf8_lossy(&piece.printed));
    }
    // One at a time: the next one is told so.
    let second = Input::Vm("guest".into());
    let second = tokio_stream::once(ConsoleInput {
        input: Some(second),
    });
    let answer = world.node.client().vms().console(second).await;
    assert_eq!(answer.unwrap_err().code(), Code::FailedPrecondition);
    drop((console, sender));
    world.says("guest", "typed-42").await;

    // It has no ear for the power button: the plug is pulled.
    let vm = world.stop("guest", 300).await;
    assert_eq!(vm.state(), PodState::Stopped);
    assert!(vm.reason.contains("forced off"), "{}", vm.reason);
    let request = DestroyVmRequest {
        name: "guest".into(),
    };
    world.node.client().vms().destroy(request).await.unwrap();
    world.node.destroy_pod("pod").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_listens_switches_off_by_itself() {
    let Some(world) = world().await else { return };
    world.run(world.guest("polite", OBEYS)).await.unwrap();
    world.says("polite", "ready-to-serve").await;
    let vm = world.stop("polite", 60_000).await;
    assert_eq!(vm.state(), PodState::Stopped);
    world.says("polite", "told-to-leave").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_crashes_is_started_again_and_one_that_leaves_is_not() {
    let Some(mut world) = world().await else {
        return;
    };
    let vm = world.run(world.guest("crash", SHELL)).await.unwrap();
    world.says("crash", "ready-to-serve").await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(vm.process_id).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    strata_testkit::wait_for("another process", crate::vms::BOOT, async || {
        let now = world.get("crash").await;
        match now.process_id > 0 && now.process_id != vm.process_id {
            true => Ok(()),
            false => Err(format!("{:?}", now.state())),
        }
    })
    .await;
    assert_eq!(world.get("crash").await.restarts, 1);
    assert_eq!(world.get("crash").await.address, vm.address);

    world
        .run(world.guest("leaves", "echo bye; poweroff -f"))
        .await
        .unwrap();
    let request = WaitVmRequest {
        name: "leaves".into(),
    };
    let answer = world.node.client().vms().wait(request).await;
    let vm = answer.unwrap().into_inner();
    assert_eq!(
        (vm.state(), vm.reason.as_str()),
        (PodState::Exited, "exit 0")
    );
    assert_eq!(vm.exit_code, Some(0));
    let happened = events(&world, "leaves", "ended").await;
    let happened: Vec<_> = happened
        .iter()
        .map(|event| event.message.as_str())
        .collect();
    assert_eq!(happened, ["created", "started", "ended: exit 0"]);
    // The next daemon tells the same of it.
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let again = world.becomes("leaves", PodState::Exited).await;
    let told = |vm: &Vm| {
        (
            vm.reason.clone(),
            vm.exit_code,
            vm.started_at_ms,
            vm.ended_at_ms,
        )
    };
    assert_eq!(told(&again), told(&vm));
}

/// What happened to a machine so far, and goes on to until this is among it.
async fn events(world: &World, name: &str, last: &str) -> Vec<VmEvent> {
    let request = WatchVmsRequest {
        name: name.into(),
        history: true,
    };
    let answer = world.node.client().vms().watch(request).await;
    let mut stream = answer.expect("the node tells").into_inner();
    let mut events: Vec<VmEvent> = Vec::new();
    while events
        .last()
        .is_none_or(|event| !event.message.contains(last))
    {
        let next = tokio::time::timeout(crate::vms::BOOT, stream.message()).await;
        events.push(
            next.expect("it comes in time")
                .expect("the node tells")
                .expect("it goes on"),
        );
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_usage_is_streamed() {
    let Some(world) = world().await else { return };
    // Of its host a guest reaches names, and ICMP.
    let ask = "while :; do ping -c 1 $(ip route | awk '/^default/{print $3}') && echo asked; done";
    world.run(world.guest("busy", ask)).await.unwrap();
    world.says("busy", "asked").await;
    let request = VmStatsRequest {
        name: "busy".into(),
        interval_ms: Some(100),
    };
    let answer = world.node.client().vms().stats(request).await;
    let mut stats = answer.unwrap().into_inner();
    let first = stats.message().await.unwrap().unwrap();
    let usage = |stats: &VmStats| stats.vms[0].usage.unwrap();
    let cpu = |stats: &VmStats| usage(stats).cell.unwrap().cpu_usec;
    assert_eq!(
        (first.vms[0].cpus, first.vms[0].memory_bytes),
        (1, 192 << 20)
    );
    assert!(
        usage(&first).cell.unwrap().memory_bytes > 32 << 20,
        "{first:?}"
    );
    let busy = async {
        loop {
            let next = stats.message().await.unwrap().unwrap();
            if cpu(&next) > cpu(&first)
                && usage(&next).network_sent_bytes > 0
                && usage(&next).network_received_bytes > 0
            {
                return next.observed_at_ms;
            }
        }
    };
    let later = tokio::time::timeout(crate::vms::BOOT, busy).await.unwrap();
    assert!(later > first.observed_at_ms);
    let unknown = VmStatsRequest {
        name: "nobody".into(),
        interval_ms: None,
    };
    refused(
        world.node.client().vms().stats(unknown).await.map(drop),
        Code::NotFound,
    );
}

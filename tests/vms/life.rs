//! A machine from the first to the last: on the bridge, on its console, over
//! a restart of the daemon, switched off and destroyed.

use std::path::Path;

use strata_testkit::images::busybox_layout;
use strata_testkit::pods::idle;
use strata_testkit::v1::console_input::Input;
use strata_testkit::v1::{ConsoleInput, DestroyVmRequest, PodState};
use strata_testkit::{Code, refused};

use crate::world;

const SHELL: &str = "echo ready-to-serve; while :; do sh </dev/ttyS0 >/dev/ttyS0 2>&1; done";
/// Looks for the power button and leaves when it is pressed.
const OBEYS: &str = "(cat /dev/input/event0 | head -c 1 >/dev/null; echo told-to-leave; poweroff -f) & \
    echo ready-to-serve; while :; do sleep 60; done";

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

    // QEMU has no capability, and cannot write but to its own folder.
    let status = std::fs::read_to_string(format!("/proc/{}/status", vm.process_id)).unwrap();
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{status}");
    }
    // And it sees nothing of the machine but programs and its own files.
    let root = format!("/proc/{}/root", vm.process_id);
    let root = Path::new(&root);
    for path in ["etc/shadow", "home", "run", "var"] {
        assert!(!root.join(path).exists(), "{path}");
    }
    let data_dir = world.daemon.data_dir();
    let inside = root.join(data_dir.strip_prefix("/").unwrap());
    assert!(inside.join("node/_vms/folders").exists());
    assert!(!inside.join("ca").exists() && !inside.join("node.sock").exists());

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
    let Some(world) = world().await else { return };
    let vm = world.run(world.guest("crash", SHELL)).await.unwrap();
    world.says("crash", "ready-to-serve").await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(vm.process_id).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    strata_testkit::wait_for("another process", crate::BOOT, async || {
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
    let vm = world.becomes("leaves", PodState::Exited).await;
    assert_eq!(vm.reason, "exit 0");
}

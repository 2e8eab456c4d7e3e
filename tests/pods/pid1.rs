//! Who gets which signal, and pods whose program is PID 1 itself.

use strata_testkit::images::Image;
use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{PodSecurity, PodSpec, PodState, RestartPolicy};

use crate::pods::{World, logged, world};

/// Ends once its child has, which ends when it is asked to by its parent.
const DRAIN: &str = "(while [ ! -e /tmp/drain ]; do sleep 0.05; done; exit 7) & child=$!; \
    trap 'touch /tmp/drain; wait $child; echo child $?; exit 0' TERM; echo ready; wait $child";

fn without_init(spec: PodSpec) -> PodSpec {
    PodSpec {
        init: Some(false),
        ..spec
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_signal_goes_to_the_main_process_alone() {
    let World { node, image, .. } = &world().await;
    for (name, init) in [("drain", None), ("drain-first", Some(false))] {
        let mut spec = script(name, image, DRAIN);
        (spec.init, spec.stop_grace_ms) = (init, Some(30_000));
        node.run_pod(spec).await.unwrap();
        logged(node, name, "ready").await;
        let stopped = node.stop_pod(name).await.unwrap();
        logged(node, name, "child 7").await;
        assert_eq!(stopped.exit_code, Some(0), "{stopped:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_for_pid_1_reaches_the_main_process_and_no_exec() {
    let World { node, image, .. } = &world().await;
    let main = "trap 'echo again' USR1; (trap 'echo child' USR1; while :; do sleep 0.1; done) & \
        echo ready; while :; do wait; done";
    for (name, init) in [("web", None), ("web-first", Some(false))] {
        let mut spec = script(name, image, main);
        spec.init = init;
        node.run_pod(spec).await.unwrap();
        logged(node, name, "ready").await;
        assert_eq!(node.says(name, "kill -USR1 1; echo alive").await, "alive");
        logged(node, name, "again").await;
        let lines = node.pod_log(name).await.unwrap();
        assert!(!lines.contains(&"child".to_owned()), "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_can_be_pid_1_of_all_that_it_sees() {
    let World { node, image, .. } = &world().await;
    let main = "echo pid $$; trap 'exit 9' TERM; while :; do sleep 60 & wait; done";
    for (name, own_users) in [("own", true), ("host", false)] {
        let mut spec = without_init(script(name, image, main));
        spec.set_restart(RestartPolicy::Never);
        spec.security = Some(PodSecurity {
            user_namespace: Some(own_users),
            ..PodSecurity::default()
        });
        let pod = node.run_pod(spec).await.unwrap();
        logged(node, name, "pid 1").await;
        assert!(pod.process_id > 1, "as the host sees it: {pod:?}");
        // An exec is among the same processes, and there is no init.
        let seen = "cat /proc/1/comm; grep -l strata-init /proc/[0-9]*/comm; ps | grep -c sleep";
        let said = node.sh(name, seen).await.unwrap();
        assert!(said.stdout.starts_with("sh\n"), "{said:?}");
        assert!(!said.stdout.contains("/proc/"), "{said:?}");
        // What is hidden and locked is so in this view too.
        let hidden = "for file in /proc/kcore /proc/keys /proc/timer_list; do \
            [ ! -e $file ] || [ \"$(wc -c < $file)\" = 0 ] || echo $file; done";
        assert_eq!(node.says(name, hidden).await, "");
        let why = node
            .fails(name, "echo 1 > /proc/sys/vm/overcommit_memory")
            .await;
        assert!(why.contains("Read-only"), "{why}");
        assert_eq!(
            node.says(name, "cut -d: -f3 /proc/self/cgroup | sort -u")
                .await,
            "/"
        );
        // Its end is that of all; how it ended is known.
        let session = node
            .open(strata_testkit::pods::shell(name, "sleep 1000"))
            .await;
        let mut session = session.unwrap();
        session.started().await.unwrap();
        // Perhaps with whoever sent it.
        let _ = node.sh(name, "kill -TERM 1").await;
        let ended = node.wait_pod(name).await.unwrap();
        assert_eq!(ended.exit_code, Some(9), "{ended:?}");
        assert_ne!(session.finish().await.unwrap().ended.exit_code, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_is_pid_1_starts_again_and_outlives_the_daemon() {
    let mut world = world().await;
    let main = "echo pid $$; trap 'exit 0' TERM; while :; do sleep 60 & wait; done";
    let mut spec = without_init(script("web", &world.image, main));
    spec.terminal = true;
    let first = world.node.run_pod(spec).await.unwrap();
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let node = &world.node;
    assert_eq!(node.pod("web").await.unwrap().process_id, first.process_id);
    assert_eq!(node.says("web", "cat /proc/1/comm").await, "sh");
    node.stop_pod("web").await.unwrap();
    let again = node.start_pod("web").await.unwrap();
    assert_ne!(again.process_id, first.process_id);
    assert_eq!(node.says("web", "cat /proc/1/comm").await, "sh");
}

/// A program of this host with the libraries that it is linked with.
fn with_program(image: Image, program: &str) -> Image {
    let linked = std::process::Command::new("ldd").arg(program).output();
    let linked = String::from_utf8(linked.expect("ldd").stdout).expect("text");
    let libraries = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    libraries.chain([program]).fold(image, |image, path| {
        image.program(
            path.trim_start_matches('/'),
            &std::fs::read(path).expect("a file"),
        )
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_is_pid_1_changes_its_own_limits() {
    let world = world().await;
    let node = &world.node;
    let image = with_program(Image::busybox(), "/usr/bin/prlimit")
        .write_layout(&world.daemon.scratch().join("limits"), "v1");
    let main = "prlimit --pid 1 --nofile=100:200; echo status $?; ulimit -n; exec sleep 1000";
    node.run_pod(without_init(script("own", &image, main)))
        .await
        .unwrap();
    logged(node, "own", "status 0").await;
    logged(node, "own", "100").await;
    // Where an init of ours is PID 1, its limits are not the pod's to change.
    node.run_pod(script("ours", &image, main)).await.unwrap();
    logged(node, "ours", "status 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_of_busybox_runs() {
    let world = world().await;
    let node = &world.node;
    let image = Image::busybox()
        .file(
            "etc/inittab",
            b"::sysinit:/bin/echo booted\n::respawn:/bin/sleep 1000\n::shutdown:/bin/echo down\n",
        )
        .entrypoint(["/bin/init"])
        .set("StopSignal", "SIGUSR2".into())
        .write_layout(&world.daemon.scratch().join("init"), "v1");
    let spec = PodSpec {
        entrypoint: Vec::new(),
        ..idle("box", &image)
    };
    // With an init of ours it is not PID 1, and says so.
    let mut refused = spec.clone();
    refused.name = "refused".into();
    refused.set_restart(RestartPolicy::Never);
    node.run_pod(refused).await.unwrap();
    let ended = node.wait_pod("refused").await.unwrap();
    assert_ne!(ended.exit_code, Some(0), "{ended:?}");
    node.run_pod(without_init(spec)).await.unwrap();
    logged(node, "box", "booted").await;
    assert_eq!(node.pod("box").await.unwrap().state(), PodState::Running);
    assert_eq!(node.says("box", "cat /proc/1/comm").await, "init");
    node.stop_pod("box").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_is_pid_1_and_cannot_be_run_is_refused() {
    let World { node, image, .. } = &world().await;
    let mut spec = without_init(idle("none", image));
    spec.entrypoint = vec!["/no/such/program".into()];
    let error = node.run_pod(spec).await.unwrap_err();
    assert!(error.message().contains("no such file"), "{error}");
}

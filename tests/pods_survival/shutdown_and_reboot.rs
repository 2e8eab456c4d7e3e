//! The daemon ends as told, and the machine loses all processes.

use std::collections::BTreeMap;

use strata_testkit::pods::script;
use strata_testkit::v1::{Pod, PodLimits, PodSpec, PodState, RestartPolicy};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::pods_survival::world::{PodAction, World};

const VICTIM: &str = "victim";

async fn by_name(world: &World) -> BTreeMap<String, Pod> {
    let pods = world.settled().await;
    let named = pods
        .into_iter()
        .map(|pod| (pod.spec.clone().unwrap_or_default().name, pod));
    named.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_on_without_the_daemon_and_are_adopted() {
    let mut world = World::new().await;
    world.prepare(PodAction::Stop).await;
    let before = by_name(&world).await;
    let (status, _) = world.daemon.terminate().await;
    assert!(status.success(), "{status}");
    let alive = world.daemon.host().look();
    for pod in before.values() {
        let pid = i32::try_from(pod.process_id).unwrap();
        assert!(alive.processes.contains_key(&pid), "{pod:?}");
    }
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let after = by_name(&world).await;
    for (name, pod) in &before {
        assert_eq!(after[name].process_id, pod.process_id);
        assert_eq!(
            (&after[name].id, &after[name].address),
            (&pod.id, &pod.address)
        );
        assert_eq!(after[name].restarts, pod.restarts);
        world.serves(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_stop_workloads_all_pods_rest_until_the_daemon_is_back() {
    let mut world = World::with_arguments(&["--stop-workloads"]).await;
    world.prepare(PodAction::Stop).await;
    let keep = "echo kept > /etc/kept";
    world.node.sh(VICTIM, keep).await.unwrap().ok();
    let stopped = script("stopped", &world.image, "sleep 1000");
    world.node.run_pod(stopped).await.unwrap();
    world.node.stop_pod("stopped").await.unwrap();
    // It ends well when told to, which by itself is no reason to start it again.
    let calm = strata_testkit::pods::idle("calm", &world.image);
    world.node.run_pod(calm).await.unwrap();
    let before = by_name(&world).await;
    let (status, _) = world.daemon.terminate().await;
    assert!(status.success(), "{status}\n{}", world.daemon.log());
    wait_for("all pods to be gone", TEST_TIMEOUT, async || {
        let left = world.daemon.host().look();
        let pods = left.cgroups.iter().any(|group| group.ends_with(VICTIM));
        holds(!pods && left.processes.len() <= 1).map_err(|_| format!("{left:?}"))
    })
    .await;
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let after = by_name(&world).await;
    assert_eq!(after["stopped"].state(), PodState::Stopped);
    assert_eq!(after["calm"].state(), PodState::Running);
    for name in ["beside", VICTIM] {
        world.serves(name).await;
        assert_eq!(after[name].address, before[name].address);
    }
    let kept = world.node.sh(VICTIM, "cat /etc/kept").await.unwrap();
    assert_eq!(kept.ok(), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_come_back_when_the_machine_lost_all_processes() {
    let mut world = World::new().await;
    world.prepare(PodAction::Stop).await;
    world
        .node
        .sh(VICTIM, "echo kept > /etc/kept")
        .await
        .unwrap()
        .ok();
    let stopped = script("stopped", &world.image, "sleep 1000");
    world.node.run_pod(stopped).await.unwrap();
    world.node.stop_pod("stopped").await.unwrap();
    let before = by_name(&world).await;
    // Not the daemon first: nothing may see the others die.
    let host = world.daemon.host();
    world.daemon.kill();
    for pid in host.look().processes.into_keys() {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    wait_for("all processes to be gone", TEST_TIMEOUT, async || {
        let left = host.look().processes;
        holds(left.is_empty()).map_err(|_| format!("{left:?}"))
    })
    .await;
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let after = by_name(&world).await;
    assert_eq!(after["stopped"].state(), PodState::Stopped);
    for name in ["beside", VICTIM] {
        world.serves(name).await;
        assert_eq!(after[name].address, before[name].address);
        assert_ne!(after[name].process_id, before[name].process_id);
    }
    let kept = world.node.sh(VICTIM, "cat /etc/kept").await.unwrap();
    assert_eq!(kept.ok(), "kept");
}

/// What is told of a pod that is over.
fn told(pod: &Pod) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        (pod.state(), pod.reason.clone(), pod.restarts),
        (pod.exit_code, pod.signal, pod.out_of_memory),
        (pod.started_at_ms, pod.ended_at_ms),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_exits_are_known_after_a_restart() {
    let mut world = World::new().await;
    let once = |name: &str, text: &str| PodSpec {
        restart: RestartPolicy::Never.into(),
        ..script(name, &world.image, text)
    };
    let mut hungry = once("hungry", "tail /dev/zero");
    hungry.limits = Some(PodLimits {
        memory_bytes: Some(16 << 20),
        ..PodLimits::default()
    });
    let ended = [
        once("well", "true"),
        once("badly", "exit 3"),
        once("killed", "kill -9 $$"),
        hungry,
        once("again", "true"),
    ];
    for spec in ended {
        let name = spec.name.clone();
        world.node.run_pod(spec).await.unwrap();
        world.node.pod_becomes(&name, PodState::Exited).await;
    }
    // What could not be started: its volume went away meanwhile.
    let volume = world.daemon.scratch().join("volume");
    std::fs::create_dir(&volume).unwrap();
    let mut failed = once("failed", "exec sleep 1000");
    failed.volumes = vec![strata_testkit::pods::dir(&volume, "/volume")];
    world.node.run_pod(failed).await.unwrap();
    world.node.stop_pod("failed").await.unwrap();
    std::fs::remove_dir(&volume).unwrap();
    world.node.start_pod("failed").await.unwrap_err();
    world
        .node
        .run_pod(once("stopped", "exec sleep 1000"))
        .await
        .unwrap();
    world.node.stop_pod("stopped").await.unwrap();
    let before = by_name(&world).await;
    assert_eq!(before["failed"].state(), PodState::Failed);
    assert!(before["failed"].ended_at_ms > 0);
    assert!(before["hungry"].out_of_memory, "{:?}", before["hungry"]);
    // By a death, and in order; and what is known does not wear off.
    for death in [true, false] {
        match death {
            true => world.daemon.kill(),
            false => drop(world.daemon.terminate().await),
        }
        world.daemon.restart().await;
        world.node = world.daemon.node().await;
        let after = by_name(&world).await;
        for (name, pod) in before.iter().filter(|(_, pod)| pod.ended_at_ms > 0) {
            assert_eq!(told(&after[name]), told(pod), "{name}");
        }
    }
    // To be told to end changes nothing of it; to be started does.
    assert_eq!(
        world.node.stop_pod("badly").await.unwrap().state(),
        PodState::Exited
    );
    std::fs::create_dir(&volume).unwrap();
    world.node.start_pod("failed").await.unwrap();
    world.node.stop_pod("failed").await.unwrap();
    world.daemon.kill();
    world.daemon.restart().await;
    world.node = world.daemon.node().await;
    let after = by_name(&world).await;
    assert_eq!(after["failed"].state(), PodState::Stopped);
    assert_eq!(after["badly"].state(), PodState::Exited);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_no_image_from_a_pod_that_rests() {
    // Every disk is fuller than this.
    let mut world = World::with("[images]\nhigh_water = 1\nlow_water = 0").await;
    world.prepare(PodAction::Stop).await;
    world.node.stop_pod(VICTIM).await.unwrap();
    for _ in 0..3 {
        world.again().await;
        world.node.start_pod(VICTIM).await.unwrap();
        world.serves(VICTIM).await;
        world.node.stop_pod(VICTIM).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn down_takes_all_pods_and_the_network_away() {
    let world = World::new().await;
    world.prepare(PodAction::Stop).await;
    let data = world.daemon.data_dir();
    let host = world.daemon.host();
    let cli = world.daemon.cli();
    let data = data.to_string_lossy();
    cli.run(["down", "--yes", "--data-dir", &data]).await.ok();
    let left = host.look();
    assert!(left.is_empty(), "{left:#?}");
    assert!(
        !world.network.look().contains("st-"),
        "{}",
        world.network.look()
    );
    assert!(world.rules().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_died_with_its_first_pod_leaves_no_network() {
    // Also where nothing had to be chosen, and so nothing was written down.
    for config in ["", "[network]\nsubnet = \"10.42.7.0/24\""] {
        let mut world = World::with(config).await;
        world.node.destroy_pod("beside").await.unwrap();
        world.again().await;
        let (status, _) = world.daemon.terminate().await;
        assert!(status.success(), "{status}");
        let left = world.daemon.host().look();
        assert!(left.is_empty(), "{config:?}: {left:#?}");
    }
}

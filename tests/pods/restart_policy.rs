//! What follows when a pod ends: nothing, or another start, in time.

use std::fs;

use strata_testkit::pods::{dir, idle, script};
use strata_testkit::v1::{Pod, PodState, RestartPolicy, StopPodRequest};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::pods::{World, world};

#[tokio::test(flavor = "multi_thread")]
async fn policies_say_what_follows_an_end() {
    let world = world().await;
    let node = &world.node;
    let cases = [
        ("always-well", RestartPolicy::Always, "exit 0", true),
        ("always-badly", RestartPolicy::Always, "exit 1", true),
        ("failure-well", RestartPolicy::OnFailure, "exit 0", false),
        ("failure-badly", RestartPolicy::OnFailure, "exit 1", true),
        (
            "failure-killed",
            RestartPolicy::OnFailure,
            "kill -9 $$",
            true,
        ),
        ("never-badly", RestartPolicy::Never, "exit 1", false),
    ];
    for (name, policy, text, again) in cases {
        let mut spec = script(name, &world.image, text);
        spec.restart = policy.into();
        node.run_pod(spec).await.unwrap();
        let over = [PodState::Waiting, PodState::Exited];
        let pod = node
            .pod_until(name, |pod| over.contains(&pod.state()))
            .await;
        let expected = if again {
            PodState::Waiting
        } else {
            PodState::Exited
        };
        assert_eq!(pod.state(), expected, "{name}: {}", pod.reason);
        assert_eq!(
            (pod.restarts > 0, pod.next_start_at_ms > 0),
            (again, again),
            "{name}"
        );
        assert!(
            pod.ended_at_ms >= pod.started_at_ms && pod.process_id == 0,
            "{pod:?}"
        );
    }
    // One that waits can be stopped, and then waits no more.
    let pod = node.stop_pod("always-well").await.unwrap();
    assert_eq!((pod.state(), pod.next_start_at_ms), (PodState::Stopped, 0));
    // The others are started again, after longer and longer waits.
    let pod = node
        .pod_until("always-badly", |pod| {
            pod.restarts >= 2 && pod.state() == PodState::Waiting
        })
        .await;
    assert!(pod.next_start_at_ms - pod.ended_at_ms >= 1_500, "{pod:?}");
    assert_eq!(
        node.pod("always-well").await.unwrap().state(),
        PodState::Stopped
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_what_the_pod_has() {
    let world = world().await;
    let node = &world.node;
    let gate = world.daemon.scratch().join("gate");
    fs::create_dir(&gate).unwrap();
    let serve = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; httpd -h /srv; \
        while [ ! -e /gate/end$n ]; do usleep 20000; done; exit 1";
    let mut spec = script("web", &world.image, serve);
    spec.volumes = vec![dir(&gate, "/gate")];
    spec.ports = vec!["18080:80".into()];
    let before = node.run_pod(spec).await.unwrap();
    fetches(&world, "http://127.0.0.1:18080/n", "1").await;
    fs::write(gate.join("end0"), "").unwrap();
    let after = node
        .pod_until("web", |pod| {
            pod.restarts == 1 && started_again(pod, &before)
        })
        .await;
    assert_eq!((&before.id, &before.address), (&after.id, &after.address));
    assert_ne!(before.process_id, after.process_id);
    fetches(&world, "http://127.0.0.1:18080/n", "2").await;
    fetches(&world, &format!("http://{}/n", after.address), "2").await;
    // Started by hand it counts again.
    node.stop_pod("web").await.unwrap();
    assert_eq!(node.start_pod("web").await.unwrap().restarts, 0);
    node.destroy_pod("web").await.unwrap();
}

/// Fetches a page from the daemon's network until it says what it should.
async fn fetches(world: &World, url: &str, text: &str) {
    wait_for("an answer", TEST_TIMEOUT, async || {
        let got = world.network.output(["curl", "-sf", "-m", "2", url]);
        let said = String::from_utf8_lossy(&got.stdout).trim().to_owned();
        if said == text {
            Ok(())
        } else {
            Err(format!("{got:?}"))
        }
    })
    .await;
}

fn started_again(pod: &Pod, before: &Pod) -> bool {
    pod.state() == PodState::Running && ![0, before.process_id].contains(&pod.process_id)
}

/// The pod's init: the parent of its process.
fn init_of(pid: i64) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let parent = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    parent.expect("it has a parent")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_init_is_killed_is_started_again() {
    let world = world().await;
    let node = &world.node;
    let before = node.run_pod(idle("web", &world.image)).await.unwrap();
    node.says("web", "echo kept > /srv/file").await;
    let init = init_of(before.process_id);
    assert_eq!(
        fs::read_to_string(format!("/proc/{init}/comm"))
            .unwrap()
            .trim(),
        "strata-init"
    );
    std::process::Command::new("kill")
        .args(["-9", &init.to_string()])
        .status()
        .unwrap();
    let after = node
        .pod_until("web", |pod| {
            pod.restarts == 1 && started_again(pod, &before)
        })
        .await;
    assert_eq!(before.address, after.address);
    assert_eq!(node.says("web", "cat /srv/file").await, "kept");
    let gateway = "ping -c 1 -W 5 $(ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p')";
    let _ = node.sh("web", gateway).await.unwrap();
    // The same for one that is never started again.
    let mut never = idle("never", &world.image);
    never.restart = RestartPolicy::Never.into();
    let pod = node.run_pod(never).await.unwrap();
    let init = init_of(pod.process_id).to_string();
    std::process::Command::new("kill")
        .args(["-9", &init])
        .status()
        .unwrap();
    let pod = node.wait_pod("never").await.unwrap();
    assert_eq!(pod.state(), PodState::Exited);
    assert!(pod.reason.contains("init"), "{}", pod.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_daemon_is_not_noticed() {
    let mut world = world().await;
    let before = world.node.run_pod(idle("web", &world.image)).await.unwrap();
    let gate = world.daemon.scratch().join("gate");
    fs::create_dir(&gate).unwrap();
    for (name, policy) in [
        ("ends", RestartPolicy::Never),
        ("again", RestartPolicy::Always),
    ] {
        let mut spec = script(
            name,
            &world.image,
            "while [ ! -e /gate/end ]; do usleep 20000; done; exit 4",
        );
        spec.volumes = vec![dir(&gate, "/gate")];
        spec.restart = policy.into();
        world.node.run_pod(spec).await.unwrap();
    }
    let mut stopped = idle("stopped", &world.image);
    stopped.restart = RestartPolicy::Always.into();
    world.node.run_pod(stopped).await.unwrap();
    world.node.stop_pod("stopped").await.unwrap();
    let ends = world.node.pod("ends").await.unwrap().process_id;
    world.daemon.kill();
    fs::write(gate.join("end"), "").unwrap();
    wait_for("the end", TEST_TIMEOUT, async || {
        let stat = fs::read_to_string(format!("/proc/{ends}/stat")).unwrap_or_default();
        holds(stat.is_empty() || stat.contains(") Z "))
    })
    .await;
    world.daemon.restart().await;
    let node = world.daemon.node().await;
    let after = node.pod_becomes("web", PodState::Running).await;
    assert_eq!(before.process_id, after.process_id);
    // As the pod's init wrote it down, not as the daemon saw it.
    assert!(before.started_at_ms.abs_diff(after.started_at_ms) < 1000);
    assert_eq!(node.says("web", "echo works").await, "works");
    let ended = node.pod_becomes("ends", PodState::Exited).await;
    assert_eq!(ended.exit_code, Some(4), "{}", ended.reason);
    node.pod_until("again", |pod| pod.restarts >= 1 && pod.exit_code == Some(4))
        .await;
    assert_eq!(
        node.pod("stopped").await.unwrap().state(),
        PodState::Stopped
    );
    let request = StopPodRequest {
        name: "web".into(),
        grace_ms: Some(10_000),
    };
    let pod = node
        .client()
        .pods()
        .stop(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(pod.exit_code, Some(143), "{}", pod.reason);
}

//! Whether pods work, found out by asking them.

use std::fs;

use strata_testkit::images::Image;
use strata_testkit::pods::{dir, idle, script};
use strata_testkit::v1::health_check::Probe;
use strata_testkit::v1::{
    ExecProbe, HealthCheck, HttpProbe, Pod, PodHealth, PodSpec, PodState, RestartPolicy, TcpProbe,
    WatchPodsRequest,
};
use strata_testkit::{TEST_TIMEOUT, same, serde_json, wait_for};

use crate::pods::world;

fn asked(spec: PodSpec, probe: Probe) -> PodSpec {
    PodSpec {
        health: Some(HealthCheck {
            probe: Some(probe),
            interval_ms: Some(100),
            timeout_ms: Some(1000),
            retries: Some(2),
            start_period_ms: None,
        }),
        ..spec
    }
}

fn shell(text: &str) -> Probe {
    let command = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    Probe::Exec(ExecProbe { command })
}

const SERVE: &str = "mkdir -p www; echo ok > www/health; httpd -h www -p 8080; \
    trap exit TERM; while :; do sleep 60 & wait; done";

#[tokio::test(flavor = "multi_thread")]
async fn every_way_of_asking_finds_out() {
    let world = world().await;
    let node = &world.node;
    let http = |path: &str| {
        Probe::Http(HttpProbe {
            port: 8080,
            path: path.into(),
        })
    };
    let tcp = |port| Probe::Tcp(TcpProbe { port });
    let cases = [
        ("exec-well", shell("[ -e www/health ]"), true),
        ("exec-badly", shell("exit 3"), false),
        (
            "exec-missing",
            Probe::Exec(ExecProbe {
                command: vec!["/no/such".into()],
            }),
            false,
        ),
        ("exec-talks", shell("head -c 1000000 /dev/zero"), true),
        ("http-well", http("/health"), true),
        ("http-badly", http("/nothing"), false),
        ("tcp-well", tcp(8080), true),
        ("tcp-badly", tcp(8081), false),
    ];
    for (name, probe, _) in &cases {
        let mut spec = asked(script(name, &world.image, SERVE), probe.clone());
        // It is told and left alone: nothing is to follow.
        spec.restart = RestartPolicy::Never.into();
        let pod = node.run_pod(spec).await.unwrap();
        assert_eq!(pod.health(), PodHealth::Starting);
    }
    for (name, _, well) in cases {
        let expected = if well {
            PodHealth::Healthy
        } else {
            PodHealth::Unhealthy
        };
        let pod = node.pod_until(name, |pod| pod.health() == expected).await;
        assert_eq!(pod.state(), PodState::Running, "{name}");
        assert_eq!(
            pod.reason.starts_with("unhealthy: "),
            !well,
            "{name}: {}",
            pod.reason
        );
    }
    assert_eq!(
        node.run_pod(idle("silent", &world.image))
            .await
            .unwrap()
            .health(),
        PodHealth::Unspecified
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unhealthy_pod_is_restarted() {
    let world = world().await;
    let node = &world.node;
    let gate = world.daemon.scratch().join("gate");
    fs::create_dir(&gate).unwrap();
    fs::write(gate.join("well"), "").unwrap();
    let mut spec = asked(idle("web", &world.image), shell("[ -e /gate/well ]"));
    spec.volumes = vec![dir(&gate, "/gate")];
    node.run_pod(spec).await.unwrap();
    node.pod_until("web", |pod| pod.health() == PodHealth::Healthy)
        .await;
    fs::remove_file(gate.join("well")).unwrap();
    let pod = node
        .pod_until("web", |pod| pod.state() == PodState::Waiting)
        .await;
    assert!(pod.reason.contains("unhealthy"), "{}", pod.reason);
    assert_eq!(pod.exit_code, Some(143));
    fs::write(gate.join("well"), "").unwrap();
    let pod = node
        .pod_until("web", |pod| {
            pod.health() == PodHealth::Healthy && pod.restarts == 1
        })
        .await;
    assert_eq!(pod.state(), PodState::Running);
    let request = WatchPodsRequest {
        name: "web".into(),
        history: true,
    };
    let mut events = node
        .client()
        .pods()
        .watch(request)
        .await
        .unwrap()
        .into_inner();
    let mut told = Vec::new();
    while told.iter().filter(|message| *message == "healthy").count() < 2 {
        told.push(events.message().await.unwrap().unwrap().message);
    }
    assert!(
        told.iter()
            .any(|message| message.starts_with("unhealthy: ")),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_starting_pod_is_waited_for() {
    let world = world().await;
    let node = &world.node;
    let mut spec = asked(
        script(
            "slow",
            &world.image,
            "sleep 1; touch up; while :; do sleep 60 & wait; done",
        ),
        shell("[ -e up ]"),
    );
    if let Some(health) = &mut spec.health {
        health.start_period_ms = Some(60_000);
        health.retries = Some(1);
    }
    node.run_pod(spec).await.unwrap();
    let pod = node
        .pod_until("slow", |pod| pod.health() == PodHealth::Healthy)
        .await;
    assert_eq!(pod.restarts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_hangs_is_given_up_and_leaves_nothing() {
    let world = world().await;
    let node = &world.node;
    let mut spec = asked(idle("web", &world.image), shell("trap '' TERM; sleep 4000"));
    spec.restart = RestartPolicy::Never.into();
    if let Some(health) = &mut spec.health {
        health.timeout_ms = Some(100);
    }
    node.run_pod(spec).await.unwrap();
    let pod = node
        .pod_until("web", |pod| pod.health() == PodHealth::Unhealthy)
        .await;
    assert!(pod.reason.contains("no answer within"), "{}", pod.reason);
    // Each is ended soon; they do not pile up.
    node.pod_until("web", |pod| pod.reason.contains("no answer"))
        .await;
    let hanging = async || {
        let said = node
            .says("web", "ps | grep -c '[s]leep 4000' || true")
            .await;
        said.parse::<usize>().unwrap()
    };
    assert!(hanging().await <= 16);
    node.stop_pod("web").await.unwrap();
    let files = world.daemon.open_files();
    node.start_pod("web").await.unwrap();
    node.pod_until("web", |pod| pod.health() == PodHealth::Unhealthy)
        .await;
    node.stop_pod("web").await.unwrap();
    wait_for("the files", TEST_TIMEOUT, async || {
        same(world.daemon.open_files(), &files).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_can_say_how_it_is_asked() {
    let world = world().await;
    let node = &world.node;
    let image = Image::busybox().set(
        "Healthcheck",
        serde_json::json!({
            "Test": ["CMD-SHELL", "[ -e /well ]"],
            "Interval": 100_000_000,
            "Timeout": 1_000_000_000,
            "Retries": 2,
        }),
    );
    let image = image.write_layout(&world.daemon.scratch().join("asked"), "v1");
    let text = "touch /well; trap exit TERM; while :; do sleep 60 & wait; done";
    let mut spec = script("asked", &image, text);
    spec.restart = RestartPolicy::Never.into();
    node.run_pod(spec.clone()).await.unwrap();
    let healthy = |pod: &Pod| pod.health() == PodHealth::Healthy;
    node.pod_until("asked", healthy).await;
    node.says("asked", "rm /well").await;
    let unhealthy = |pod: &Pod| pod.health() == PodHealth::Unhealthy;
    node.pod_until("asked", unhealthy).await;
    // Not where it is not wanted.
    spec.name = "left-alone".into();
    spec.no_image_health = true;
    let pod = node.run_pod(spec).await.unwrap();
    assert_eq!(pod.health(), PodHealth::Unspecified);
}

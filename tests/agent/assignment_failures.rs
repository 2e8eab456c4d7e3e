//! What cannot be had: told as a failure, tried again, or refused.

use strata_testkit::pods::{idle, script};
use strata_testkit::v1::assignment::Spec;
use strata_testkit::v1::node_message::Message as Said;
use strata_testkit::v1::server_message::Message;
use strata_testkit::v1::{Assignment, PodSpec, PodState, ServerMessage, VmSpec, Welcome};
use strata_testkit::{TEST_TIMEOUT, holds, wait_for};

use crate::agent::{never, run, stopped, world};

#[tokio::test(flavor = "multi_thread")]
async fn failed_pull_or_start_is_reported_with_its_reason() {
    let mut world = world().await;
    let server = world.followed().await;
    let missing = world.daemon.scratch().join("later");
    let later = format!("oci:{}:v1", missing.display());
    server
        .assign(&run("once", never(idle("once", &later))))
        .await;
    let report = server.becomes("once", PodState::Failed).await;
    assert!(!report.reason.contains("tried again"), "{report:?}");
    // What is to be tried again is, once the image is there.
    server.assign(&run("later", idle("later", &later))).await;
    let report = server.becomes("later", PodState::Failed).await;
    assert!(report.reason.contains("tried again in"), "{report:?}");
    strata_testkit::images::Image::busybox().write_layout(&missing, "v1");
    server.becomes("later", PodState::Running).await;
    // No program, no hope.
    let nothing = PodSpec {
        entrypoint: vec!["/no/such/program".into()],
        ..idle("nothing", &world.image)
    };
    server.assign(&run("nothing", nothing)).await;
    let report = server.becomes("nothing", PodState::Failed).await;
    assert!(report.reason.contains("/no/such/program"), "{report:?}");
    // Another wish is another try.
    let again = Assignment {
        starts: 1,
        ..run("once", never(idle("once", &later)))
    };
    server.assign(&again).await;
    server.becomes("once", PodState::Running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_instance_is_reported_with_its_exit() {
    let mut world = world().await;
    let server = world.followed().await;
    let crash = script("crash", &world.image, "sleep 0.2; exit 7");
    server.assign(&run("crash", crash)).await;
    let report = server.until("crash", |report| report.restarts >= 1).await;
    assert_eq!(report.exit_code, Some(7), "{report:?}");
    let kill = never(script("kill", &world.image, "kill -9 $$"));
    server.assign(&run("kill", kill)).await;
    let report = server.becomes("kill", PodState::Exited).await;
    assert_eq!(report.exit_code, Some(137), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_local_failure_refuses_the_assignment() {
    let mut world = world().await;
    let server = world.followed().await;
    let node = &world.node;
    let port = |name: &str| PodSpec {
        ports: vec!["8080:80".into()],
        ..idle(name, &world.image)
    };
    node.run_pod(port("mine")).await.unwrap();
    server.assign(&run("port", port("web"))).await;
    let why = server.refusal("port").await;
    assert!(why.contains("8080"), "{why}");
    server
        .assign(&run("name", idle("mine", &world.image)))
        .await;
    let why = server.refusal("name").await;
    assert!(why.contains("mine"), "{why}");
    let elsewhere = PodSpec {
        address: "10.42.1.7".into(),
        ..idle("elsewhere", &world.image)
    };
    server.assign(&run("elsewhere", elsewhere)).await;
    let why = server.refusal("elsewhere").await;
    assert!(why.contains("10.42.1.7"), "{why}");
    // Only what was there before is there.
    let pods = node.pods().await.unwrap();
    assert_eq!(pods.len(), 1, "{pods:?}");
    assert_eq!(pods[0].state(), PodState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn assignment_that_cannot_be_read_neither_refuses_nor_ends_what_runs() {
    let mut world = world().await;
    let server = world.followed().await;
    let web = Assignment {
        epoch: 3,
        ..run("web", idle("web", &world.image))
    };
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    // As a later release may write the same specification.
    let unreadable = Assignment {
        spec: None,
        ..web.clone()
    };
    server.assign(&unreadable).await;
    server.assign(&stopped(&unreadable)).await;
    server.becomes("web", PodState::Stopped).await;
    assert!(world.node.pod("web").await.is_ok(), "it was destroyed");
    let again = Assignment {
        starts: 1,
        ..unreadable
    };
    server.assign(&again).await;
    server.becomes("web", PodState::Running).await;
    let refused = |said: &Said| matches!(said, Said::Refusal(_));
    assert!(!server.heard().iter().any(refused), "{:?}", server.heard());
    // Another specification it cannot have; but what runs, runs until the
    // server withdraws it.
    let other = Assignment {
        generation: 2,
        spec: None,
        ..web
    };
    server.assign(&other).await;
    server.refusal("web").await;
    let pod = world.node.pod("web").await.expect("it is there");
    assert_eq!(pod.state(), PodState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_ran_before_is_neither_refused_nor_destroyed_for_a_taken_port() {
    let mut world = world().await;
    let server = world.followed().await;
    let port = |name: &str| PodSpec {
        ports: vec!["8080:80".into()],
        ..idle(name, &world.image)
    };
    let web = run("web", port("web"));
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    world.node.says("web", "echo data > /data; cat /data").await;
    server.assign(&stopped(&web)).await;
    server.becomes("web", PodState::Stopped).await;
    world.node.run_pod(port("mine")).await.unwrap();
    let again = Assignment { starts: 1, ..web };
    server.assign(&again).await;
    // More than once: the first failure is forgotten by the second.
    for _ in 0..2 {
        let told = server.heard().len();
        let tried = |said: &Said| match said {
            Said::Report(report) => report.reason.contains("tried again in"),
            _ => false,
        };
        wait_for("another try", TEST_TIMEOUT, async || {
            let heard = server.heard();
            holds(heard[told..].iter().any(tried)).map_err(|_| format!("{heard:?}"))
        })
        .await;
    }
    let refused = |said: &Said| matches!(said, Said::Refusal(_));
    assert!(!server.heard().iter().any(refused), "{:?}", server.heard());
    world.node.destroy_pod("mine").await.unwrap();
    server.becomes("web", PodState::Running).await;
    assert_eq!(world.node.says("web", "cat /data").await, "data");
}

#[tokio::test(flavor = "multi_thread")]
async fn released_resources_are_available_to_the_next_instance() {
    let mut world = world().await;
    let server = world.followed().await;
    let port = |name: &str| PodSpec {
        ports: vec!["8080:80".into()],
        ..idle(name, &world.image)
    };
    server.assign(&run("old", port("old"))).await;
    server.becomes("old", PodState::Running).await;
    server.withdraw("old").await;
    server.assign(&run("new", port("new"))).await;
    server.becomes("new", PodState::Running).await;
    server.becomes("old", PodState::Unspecified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_from_a_server_harms_nothing() {
    let mut world = world().await;
    let server = world.server.next().await;
    server.send(ServerMessage { message: None }).await;
    server.complete().await;
    server
        .say(Message::Welcome(Welcome {
            subnet: "not a subnet".into(),
            range: String::new(),
            lease_ms: u32::MAX,
            alone: false,
            control_plane: "\u{0}/..".into(),
            ..Welcome::default()
        }))
        .await;
    server
        .peers(&[("nowhere", "x"), ("", ""), ("::1", "10.42.1.0/24")])
        .await;
    let good = || idle("web", &world.image);
    for (id, assignment) in [
        ("../x", run("../x", good())),
        ("", run("", good())),
        (
            "empty",
            Assignment {
                spec: None,
                ..run("empty", good())
            },
        ),
        (
            "wish",
            Assignment {
                wanted: 77,
                ..run("wish", good())
            },
        ),
        (
            "vm",
            Assignment {
                spec: Some(Spec::Vm(VmSpec::default())),
                ..run("vm", good())
            },
        ),
        (
            "bad",
            run(
                "bad",
                PodSpec {
                    name: "Not A Name".into(),
                    ..good()
                },
            ),
        ),
    ] {
        server.assign(&assignment).await;
        assert!(!server.refusal(id).await.is_empty());
    }
    for _ in 0..100 {
        server.say(Message::Beat(Default::default())).await;
        server.complete().await;
        server.withdraw("never").await;
    }
    server.welcome().await;
    server.assign(&run("good", good())).await;
    server.becomes("good", PodState::Running).await;
}

//! A cluster with a control plane of three that loses machines: those that
//! only go down for a moment come back, the dead are replaced, and the API
//! answers all the while.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use strata_testkit::serde_json::Value;
use strata_testkit::wait_for;

use crate::kubernetes::hardening;
use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::tell;
use crate::kubernetes::world::{CLUSTER, TEST_TIMEOUT, World};

#[tokio::test(flavor = "multi_thread")]
async fn lost_machines_are_replaced_while_the_api_answers() {
    let Some(world) = World::start(6).await else {
        return;
    };
    let before = world.before().await;
    let create = format!("cluster create {CLUSTER} --version 1.34 --control-planes 3 --workers 1");
    world.done(&create).await;
    world.is("RUNNING").await;
    let kubectl = world.kubectl().await;
    kubectl.nodes_ready(4).await;
    let worker = world.members("workers").await.remove(0);
    world.import_image(std::slice::from_ref(&worker)).await;
    kubectl.deploy_web().await;
    hardening::make_secret(&kubectl).await;
    hardening::secret_is_readable(&world).await;
    comes_back(&world, &kubectl, &worker).await;
    are_replaced(&world, &kubectl, &worker).await;
    hardening::secret_is_readable(&world).await;
    world.done(&format!("cluster delete {CLUSTER} --yes")).await;
    world.returns_to(&before).await;
}

/// A machine whose first process dies is started again, and is the node that
/// it was with the pods that it had.
async fn comes_back(world: &World, kubectl: &Kubectl, worker: &str) {
    let begun = Instant::now();
    let node = world.daemon.node().await;
    let was = node.machine(worker).await.unwrap().process_id;
    let pods = kubectl.web_pods().await;
    let pid = Pid::from_raw(i32::try_from(was).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    node.machine_until(worker, |now| now.running && now.process_id != was)
        .await;
    let restarts =
        "get pods -l app=web -o jsonpath={.items[*].status.containerStatuses[0].restartCount}";
    kubectl.until(restarts, |said| said == "1 1").await;
    kubectl.web_is_ready().await;
    kubectl.nodes_ready(4).await;
    world.is("RUNNING").await;
    assert_eq!(kubectl.web_pods().await, pods);
    assert_eq!(world.members("workers").await, [worker]);
    tell(&format!(
        "a worker rebooted and serves: {:.1?}",
        begun.elapsed()
    ));
}

/// A member of the control plane that is switched off, and the only worker,
/// that nobody switched off: it is cut from the network, and runs on.
async fn are_replaced(world: &World, kubectl: &Kubectl, worker: &str) {
    let control = world.members("control-plane").await;
    let dead = [control[0].as_str(), worker];
    let begun = Instant::now();
    let off = format!("machine power {} off --force", control[0]);
    world.done(&off).await;
    let cut = world.on(worker, "ip link set eth0 down").await;
    assert!(cut.status.success(), "{cut:?}");
    let lost = Instant::now();
    let notices = async {
        let mut noticed = Vec::new();
        for name in dead {
            // The message is about the machine that is replaced first.
            let path = format!("/cluster/{CLUSTER}");
            let tells = |one: &Value| {
                let told = one["message"].as_str().unwrap_or_default();
                one["status"] != "RUNNING" && told.contains(name)
            };
            let told = world.until(&path, tells).await;
            tell(&format!("{}: {}", told["status"], told["message"]));
            noticed.push(lost.elapsed());
        }
        noticed
    };
    // Meanwhile the other API servers reply.
    let (slowest, noticed) = tokio::join!(answers(kubectl, 5), notices);
    // With the default lease of ten seconds.
    assert!(noticed[0] < Duration::from_secs(15), "{noticed:?}");
    let slowest = slowest.max(answers(kubectl, 5).await);
    wait_for("others in their place", TEST_TIMEOUT, async || {
        let (control, workers) = (
            world.members("control-plane").await,
            world.members("workers").await,
        );
        let gone = |name: &&str| !control.iter().chain(&workers).any(|it| it == name);
        let whole = control.len() == 3 && workers.len() == 1 && dead.iter().all(gone);
        whole
            .then_some(())
            .ok_or(format!("{control:?} {workers:?}"))
    })
    .await;
    world.is("RUNNING").await;
    kubectl.nodes_ready(4).await;
    tell(&format!(
        "lost two machines: noticed after {noticed:.1?}, whole after {:.1?}, \
         the slowest answer of the API after {slowest:.1?}",
        begun.elapsed()
    ));
    let known: Vec<Value> = kubectl.list("nodes").await;
    for node in known {
        let name = node["metadata"]["name"].as_str().unwrap();
        assert!(!dead.contains(&name), "{name} is known still");
    }
    // What ran on the dead one runs on its successor.
    world.import_image(&world.members("workers").await).await;
    kubectl.web_is_ready().await;
}

/// Asks the API so many times; how long the slowest answer took.
async fn answers(kubectl: &Kubectl, times: u32) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..times {
        let asked = Instant::now();
        let output = kubectl.output("get --raw /readyz", "").await;
        assert!(output.status.success(), "{output:?}");
        slowest = slowest.max(asked.elapsed());
    }
    slowest
}

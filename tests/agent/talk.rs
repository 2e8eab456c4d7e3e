//! What a node tells while all goes well, and when its server is slow.

use strata_testkit::pods::{idle, script};
use strata_testkit::v1::PodState;
use strata_testkit::v1::node_message::Message as Said;

use crate::{run, world};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_is_measured() {
    let mut world = world().await;
    let server = world.followed().await;
    let busy = script("busy", &world.image, "while :; do :; done");
    server.assign(&run("busy", busy)).await;
    let load = server
        .hears("the load of a busy pod", |said| match said {
            Said::Load(load) => {
                let cpu = |one: &strata_testkit::v1::InstanceLoad| one.used.unwrap().cpu;
                let found = load
                    .each
                    .iter()
                    .any(|one| one.id == "busy" && cpu(one) > 100);
                found.then(|| load.clone())
            }
            _ => None,
        })
        .await;
    let (machine, instances) = (load.machine.unwrap(), load.instances.unwrap());
    assert!(
        machine.memory > 1 << 20 && machine.disk > 1 << 20,
        "{load:?}"
    );
    assert!(machine.cpu > 0 && instances.cpu > 100, "{load:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_hears_the_latest() {
    let mut world = world().await;
    let server = world.followed().await;
    let web = run("web", idle("web", &world.image));
    server.assign(&web).await;
    server.becomes("web", PodState::Running).await;
    world.server.reads(false);
    for _ in 0..20 {
        world.node.stop_pod("web").await.unwrap();
        world.node.start_pod("web").await.unwrap();
    }
    world.node.stop_pod("web").await.unwrap();
    world.server.reads(true);
    server.becomes("web", PodState::Stopped).await;
    // What it says is done all the while.
    world.server.reads(false);
    server
        .assign(&run("next", idle("next", &world.image)))
        .await;
    world
        .node
        .pod_until("next", |pod| pod.state() == PodState::Running)
        .await;
    world.server.reads(true);
    server.becomes("next", PodState::Running).await;
}

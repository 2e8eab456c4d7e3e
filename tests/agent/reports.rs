//! What a node tells while all goes well, and when its server is slow.

use strata_testkit::pods::{idle, script, volume};
use strata_testkit::pool::TestPool;
use strata_testkit::v1::PodState;
use strata_testkit::v1::node_message::Message as Said;
use strata_testkit::v1::pod_volume::Source;

use crate::agent::{run, world, world_with};

#[tokio::test(flavor = "multi_thread")]
async fn instance_usage_is_reported() {
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
    let server = world.server.next().await;
    // It answers nothing for a while, which is not to be half of the lease.
    server.welcome_with(120_000, true).await;
    server.complete().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn pool_reachability_changes_are_reported() {
    let pool = TestPool::unmounted();
    let mut world = world_with(&pool.config()).await;
    let server = world.followed().await;
    assert_eq!(server.hello().await.pool, "");
    let told = |said: &Said| match said {
        Said::Load(load) => load.pool.clone(),
        _ => None,
    };
    let tells = |wanted: &'static str| move |said: &Said| told(said).filter(|id| id == wanted);
    // What cannot be had here is another node's.
    let mut web = idle("web", &world.image);
    web.volumes = vec![volume(Source::Pool("v1".into()), "/data")];
    server.assign(&run("early", web.clone())).await;
    let why = server.refusal("early").await;
    assert!(why.contains("does not reach the storage pool"), "{why}");
    pool.mount();
    server.hears("the pool", tells(pool.id())).await;
    // A volume that is missing is waited for.
    server.assign(&run("web", web)).await;
    let report = server.becomes("web", PodState::Failed).await;
    assert!(
        report.reason.contains("there is no volume v1"),
        "{report:?}"
    );
    assert!(report.reason.contains("tried again in"), "{report:?}");
    pool.volume("v1");
    server.becomes("web", PodState::Running).await;
    world.node.says("web", "echo x > /data/x").await;
    pool.unmount();
    let latest = |server: &crate::agent::Conversation| server.heard().iter().rev().find_map(told);
    strata_testkit::wait_for(
        "no pool",
        strata_testkit::TEST_TIMEOUT,
        async || match latest(&server) {
            Some(id) if id.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    server.withdraw("web").await;
    server.becomes("web", PodState::Unspecified).await;
}

//! What the server says of the network: subnet, peers, further names.

use strata_testkit::pods::{idle, script};
use strata_testkit::v1::{PodSpec, PodState};
use strata_testkit::{TEST_TIMEOUT, wait_for};

use crate::agent::{World, run, world, world_with};

const WEB: &str = "mkdir -p /www; echo here > /www/index.html; exec httpd -f -p 80 -h /www";

/// The routes over the overlay.
fn routes(world: &World) -> String {
    let links = world.network.run(["ip", "-o", "link"]);
    let device = links
        .split([' ', ':'])
        .find(|word| word.starts_with("st-") && word.ends_with("-vx"));
    match device {
        Some(device) => world.network.run(["ip", "route", "show", "dev", device]),
        None => String::new(),
    }
}

async fn routed(world: &World, subnet: &str, is: bool) {
    wait_for("the route", TEST_TIMEOUT, async || {
        let routes = routes(world);
        match routes.contains(subnet) == is {
            true => Ok(()),
            false => Err(routes),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_are_reached_once_there_is_something_to_reach_them() {
    let mut world = world().await;
    let server = world.followed().await;
    server.peers(&[("192.0.2.9", "10.42.9.0/24")]).await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.becomes("web", PodState::Running).await;
    routed(&world, "10.42.9.0/24", true).await;
    server
        .peers(&[("192.0.2.9", "10.42.9.0/24"), ("192.0.2.8", "10.42.8.0/24")])
        .await;
    routed(&world, "10.42.8.0/24", true).await;
    // They are known without the server.
    world.server.die().await;
    world.daemon.kill();
    world.network.run(["ip", "route", "flush", "10.42.8.0/24"]);
    world.daemon.restart().await;
    routed(&world, "10.42.8.0/24", true).await;
    world.server.listen();
    let server = world.followed().await;
    server.peers(&[("192.0.2.8", "10.42.8.0/24")]).await;
    routed(&world, "10.42.9.0/24", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subnet_in_use_is_kept_and_reported() {
    let mut world = world_with("[network]\nsubnet = '10.42.5.0/24'\naddress = '192.0.2.7'\n[node]\nlabels = { zone = 'a' }").await;
    let server = world.followed().await;
    let hello = server.hello().await;
    assert_eq!(hello.subnet, "10.42.5.0/24");
    assert_eq!(hello.address, "192.0.2.7");
    assert_eq!(hello.labels["zone"], "a");
    assert!(hello.labels.contains_key("strata.dev/arch"));
    let capacity = hello.capacity.unwrap();
    assert!(capacity.cpu >= 1000 && capacity.memory > 0 && capacity.disk > 0);
    server.assign(&run("web", idle("web", &world.image))).await;
    let report = server.becomes("web", PodState::Running).await;
    assert!(report.address.starts_with("10.42.5."), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_is_resolved_by_its_aliases() {
    let mut world = world().await;
    let server = world.followed().await;
    let web = |name: &str| PodSpec {
        aliases: vec!["web".into(), "web.shop".into()],
        ..script(name, &world.image, WEB)
    };
    server.assign(&run("a", web("web-1f"))).await;
    let first = server.becomes("a", PodState::Running).await.address;
    server.assign(&run("b", web("web-2f"))).await;
    let second = server.becomes("b", PodState::Running).await.address;
    server
        .assign(&run("asks", idle("asks", &world.image)))
        .await;
    server.becomes("asks", PodState::Running).await;
    let node = &world.node;
    let asks = async |name: &str, wanted: &str| {
        wait_for("the name", TEST_TIMEOUT, async || {
            let said = node
                .sh("asks", &format!("nslookup {name}.strata.internal"))
                .await;
            let said = said.map_err(|e| e.to_string())?.stdout;
            match said.contains(wanted) {
                true => Ok(()),
                false => Err(said),
            }
        })
        .await;
    };
    asks("web", &first).await;
    asks("web.shop", &first).await;
    server.withdraw("a").await;
    server.becomes("a", PodState::Unspecified).await;
    asks("web.shop", &second).await;
}

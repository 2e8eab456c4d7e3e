//! Every instance reaches every other, in both directions, by address and by
//! name, wherever they are: on the host's own node, on its hypervisors, on
//! nodes elsewhere, in whatever order they came to be.

use strata_testkit::cluster::Switch;
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{Daemon, NetworkNamespace, wait_for};

use crate::operations::STRATA;
use crate::operations::world::{TEST_TIMEOUT, World};

/// An instance that says its name.
pub(crate) struct Web {
    name: String,
    address: String,
}

/// Has an instance answer on a node, from an image that the node has.
pub(crate) async fn web(world: &World, name: &str, node: &str, image: &str) -> Web {
    let script = format!(
        "mkdir -p /www; echo {name} > /www/name; trap exit TERM; httpd -f -p 80 -h /www & wait"
    );
    let id = world
        .instance(
            name,
            json!({
                "uri": image,
                "environment": [format!("SCRIPT={script}")],
                "placement": { "constraints": [format!("node={node}")] },
            }),
        )
        .await;
    let runs = world.runs(&id, Some(node)).await;
    Web {
        name: name.to_owned(),
        address: runs["ip"].as_str().unwrap().to_owned(),
    }
}

/// Waits until an instance is answered at a host.
async fn answers(world: &World, from: &Web, host: &str, name: &str) {
    let what = format!("{} to reach {name} at {host}", from.name);
    wait_for(&what, TEST_TIMEOUT, async || {
        // By netcat: the static busybox does not survive looking up hosts.
        let get = format!("printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {host} 80");
        let words = ["instance", "exec", &from.name, "--", "sh", "-c", &get];
        let ran = world.daemon.cli_with_endpoints().run(words).await;
        match ran.stdout.trim().ends_with(name) {
            true => Ok(()),
            false => Err(format!("{ran:?}")),
        }
    })
    .await;
}

/// Waits until an instance finds another by each of its names. The static
/// busybox looks names up by `nslookup` alone.
async fn resolves(world: &World, from: &Web, to: &Web) {
    for domain in ["strata.internal", "default.strata.internal"] {
        let name = format!("{}.{domain}", to.name);
        let what = format!("{} to find {name}", from.name);
        wait_for(&what, TEST_TIMEOUT, async || {
            let words = ["instance", "exec", &from.name, "--", "nslookup", &name];
            let asked = world.daemon.cli_with_endpoints().run(words).await;
            match asked.stdout.contains(&to.address) {
                true => Ok(()),
                false => Err(format!("{asked:?}")),
            }
        })
        .await;
    }
}

/// Each reaches each.
pub(crate) async fn all_reach_all(world: &World, all: &[Web]) {
    for from in all {
        for to in all.iter().filter(|to| to.name != from.name) {
            answers(world, from, &to.address, &to.name).await;
            resolves(world, from, to).await;
        }
    }
}

async fn hypervisor(world: &World, id: &str) {
    world
        .done(&format!("/hypervisor/{id}/create"), Value::Null)
        .await;
}

/// The name of the host's own node.
pub(crate) async fn own_node(world: &World) -> String {
    let nodes = world.rest().get("/node").await;
    let names = nodes.as_array().unwrap().iter();
    let mut names = names.map(|node| node["name"].as_str().unwrap());
    let own =
        names.find(|name| !name.starts_with("local-") && *name != "remote" && *name != "qemu-1");
    own.unwrap().to_owned()
}

/// The image as the nested nodes have it.
async fn image_within(world: &mut World, machines: &[&str]) -> String {
    let outside = world.image.clone();
    world.use_image_within(machines).await;
    std::mem::replace(&mut world.image, outside)
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_the_host_and_of_its_hypervisors_reach_each_other() {
    let mut world = World::start("").await;
    let (own, image) = (own_node(&world).await, world.image.clone());
    let mut all = vec![web(&world, "one", &own, &image).await];
    hypervisor(&world, "local-1").await;
    let within = image_within(&mut world, &["local-1"]).await;
    all.push(web(&world, "two", "local-1", &within).await);
    hypervisor(&world, "local-2").await;
    image_within(&mut world, &["local-2"]).await;
    all.push(web(&world, "three", "local-2", &within).await);
    all.push(web(&world, "four", &own, &image).await);
    all_reach_all(&world, &all).await;

    // The host itself reaches them too.
    let network = world.network();
    for web in &all {
        let page = network.get(&web.address, 80);
        assert!(page.starts_with("HTTP/1"), "{page}");
    }
    // One that moved away has no name; the others keep theirs.
    let gone = world
        .rest()
        .call("DELETE", "/instance/two", Value::Null)
        .await;
    assert!(gone.status < 300, "{gone:?}");
    wait_for("the name to go", TEST_TIMEOUT, async || {
        let words = [
            "instance",
            "exec",
            "three",
            "--",
            "nslookup",
            "two.default.strata.internal",
        ];
        let asked = world.daemon.cli_with_endpoints().run(words).await;
        match asked.stdout.contains("NXDOMAIN") || asked.stderr.contains("NXDOMAIN") {
            true => Ok(()),
            false => Err(format!("{asked:?}")),
        }
    })
    .await;

    // A daemon that starts again has all of it as before.
    world.kill_and_restart().await;
    all.remove(1);
    all_reach_all(&world, &all).await;
}

/// A node elsewhere, which joins the server at 192.0.2.1.
pub(crate) async fn remote(world: &World, network: &NetworkNamespace) -> Daemon {
    let token = world.cli("token create --join --name remote -q").await;
    Daemon::build(STRATA)
        .role("node")
        .config("[images]\nhigh_water = 100\n")
        .within(network)
        .arg("--server")
        .arg("https://192.0.2.1:7700")
        .arg("--join-token")
        .arg(token.trim())
        .arg("--name")
        .arg("remote")
        .start()
        .await
}

/// Every node is there: none lost its way to the server.
async fn all_nodes_are_ready(world: &World, count: usize) {
    let nodes = world.rest().get("/node").await;
    let nodes = nodes.as_array().unwrap();
    assert_eq!(nodes.len(), count, "{nodes:?}");
    for node in nodes {
        assert_eq!(node["status"], "READY", "{node:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_remote_nodes_and_of_hypervisors_reach_each_other() {
    let switch = Switch::new();
    let (here, there) = (switch.plug(1), switch.plug(2));
    let mut world = World::stopped_on(&here.network, "192.0.2.1:7700", "").await;
    world.daemon.restart().await;
    hypervisor(&world, "local-1").await;
    let within = image_within(&mut world, &["local-1"]).await;
    let (own, image) = (own_node(&world).await, world.image.clone());
    let mut all = vec![web(&world, "one", "local-1", &within).await];
    let _remote = remote(&world, &there.network).await;
    all.push(web(&world, "two", "remote", &image).await);
    all.push(web(&world, "three", &own, &image).await);
    all_reach_all(&world, &all).await;
}

/// The remote node is there before the first hypervisor is.
#[tokio::test(flavor = "multi_thread")]
async fn instances_of_hypervisors_that_come_after_a_remote_node_reach_all() {
    let switch = Switch::new();
    let (here, there) = (switch.plug(1), switch.plug(2));
    let mut world = World::stopped_on(&here.network, "192.0.2.1:7700", "").await;
    world.daemon.restart().await;
    let _remote = remote(&world, &there.network).await;
    let (own, image) = (own_node(&world).await, world.image.clone());
    let mut all = vec![web(&world, "one", "remote", &image).await];
    hypervisor(&world, "local-1").await;
    let within = image_within(&mut world, &["local-1"]).await;
    all.push(web(&world, "two", "local-1", &within).await);
    all.push(web(&world, "three", &own, &image).await);
    hypervisor(&world, "local-2").await;
    image_within(&mut world, &["local-2"]).await;
    all.push(web(&world, "four", "local-2", &within).await);
    all_reach_all(&world, &all).await;
    all_nodes_are_ready(&world, 4).await;
}

/// With an address that the configuration sets, at which the host's own node is
/// reached by others.
#[tokio::test(flavor = "multi_thread")]
async fn instances_reach_each_other_where_the_address_of_the_host_is_set() {
    let switch = Switch::new();
    let (here, there) = (switch.plug(1), switch.plug(2));
    // A node that lost its way to the server would be lost within the test.
    let config = "[network]\naddress = \"192.0.2.1\"\n[scheduler]\nlease_seconds = 10\n";
    let mut world = World::stopped_on(&here.network, "192.0.2.1:7700", config).await;
    world.daemon.restart().await;
    hypervisor(&world, "local-1").await;
    let within = image_within(&mut world, &["local-1"]).await;
    let mut all = vec![web(&world, "one", "local-1", &within).await];
    let (own, image) = (own_node(&world).await, world.image.clone());
    all.push(web(&world, "two", &own, &image).await);
    hypervisor(&world, "local-2").await;
    image_within(&mut world, &["local-2"]).await;
    all.push(web(&world, "three", "local-2", &within).await);
    let _remote = remote(&world, &there.network).await;
    all.push(web(&world, "four", "remote", &image).await);
    all_reach_all(&world, &all).await;
    all_nodes_are_ready(&world, 4).await;
}

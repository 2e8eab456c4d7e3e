//! Virtual machines as hypervisors: made again without waiting for their former
//! life, with the registries of their host, and in reach of all others.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use strata_testkit::cluster::Switch;
use strata_testkit::guest::{Guest, kernel};
use strata_testkit::serde_json::{Value, json};
use strata_testkit::{skip, wait_for};

use crate::operations::connectivity::{all_reach_all, own_node, remote, web};
use crate::operations::world::{TEST_TIMEOUT, World};

/// A guest without KVM on a busy host.
const BOOT: Duration = Duration::from_secs(300);
/// A machine that is made again waited half a minute for the tunnel of its
/// former life.
const SLACK: Duration = Duration::from_secs(15);
const CONFIG: &str = r#"
[scheduler]
lease_seconds = 120
[network]
subnet = "10.42.7.0/24"
[images]
high_water = 100
plain_http = ["10.42.7.1:5999"]
[images.registries."10.42.7.1:5999"]
user = "strata"
password = "hunter2"
"#;
/// Asks for credentials, and writes down which it was given.
const REGISTRY: &str = r#"
import http.server, sys
class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        given = self.headers.get("Authorization")
        if given is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="registry"')
        else:
            open(sys.argv[1], "w").write(given)
            self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_HEAD = do_GET
http.server.ThreadingHTTPServer(("0.0.0.0", 5999), Registry).serve_forever()
"#;

/// Ends with the test.
struct Registry(Child);

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn create(world: &World, id: &str) -> Duration {
    let begin = Instant::now();
    let path = format!("/hypervisor/{id}/create");
    let operation = world.begin(&path, Value::Null).await;
    wait_for("the machine to be up", BOOT, async || {
        let one = world.rest().get(&format!("/operation/{operation}")).await;
        match one["status"].as_str() {
            Some("COMPLETED") => Ok(()),
            Some("FAILED") => panic!("{one:#}"),
            _ => Err(one.to_string()),
        }
    })
    .await;
    begin.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_hypervisor_like_others() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let switch = Switch::new();
    let (here, there) = (switch.plug(1), switch.plug(2));
    let mut world = World::stopped_on(&here.network, "192.0.2.1:7700", "").await;
    let kernel = kernel();
    let kernel = kernel.parent().unwrap().display();
    let config = format!("{CONFIG}[machines.qemu]\nkernel_folder = \"{kernel}\"\n");
    world.daemon.set_config(&config);
    world.daemon.restart().await;
    let machine = json!({ "id": "qemu-1", "provider": "qemu", "cpu": 1, "ram": 1000 });
    let added = world.rest().call("PUT", "/machine", machine).await;
    assert_eq!(added.status, 201, "{added:?}");
    let first = create(&world, "qemu-1").await;
    let begin = Instant::now();
    world.done("/hypervisor/qemu-1/destroy", Value::Null).await;
    let destroyed = begin.elapsed();
    let again = create(&world, "qemu-1").await;
    println!("created in {first:?}, destroyed in {destroyed:?}, created again in {again:?}");
    assert!(again < first + SLACK, "{first:?}, then {again:?}");

    // Images are asked for as its host asks for them.
    let given = world.daemon.scratch().join("given");
    let words = ["python3", "-c", REGISTRY, given.to_str().unwrap()];
    let command: Command = world.network().command(words);
    let _registry = Registry({ command }.spawn().unwrap());
    let private = json!({
        "uri": "10.42.7.1:5999/app:1",
        "placement": { "constraints": ["node=qemu-1"] },
    });
    world.instance("private", private).await;
    wait_for("the registry to be asked", TEST_TIMEOUT, async || {
        let given = fs::read_to_string(&given).map_err(|error| error.to_string())?;
        // strata:hunter2
        (given == "Basic c3RyYXRhOmh1bnRlcjI=")
            .then_some(())
            .ok_or(given)
    })
    .await;
    let gone = world
        .rest()
        .call("DELETE", "/instance/private", Value::Null)
        .await;
    assert!(gone.status < 300, "{gone:?}");

    // Instances of the host, of a nested node, of a node elsewhere and of this
    // one, from an image that the host alone has.
    create(&world, "local-1").await;
    let _remote = remote(&world, &there.network).await;
    let (own, image) = (own_node(&world).await, world.image.clone());
    let mut all = Vec::new();
    for (name, node) in [
        ("one", "qemu-1"),
        ("two", "local-1"),
        ("three", own.as_str()),
        ("four", "remote"),
    ] {
        all.push(web(&world, name, node, &image).await);
    }
    all_reach_all(&world, &all).await;
}

//! An image that is a file of the server's host runs where that file is not,
//! and is given to nobody else.

use strata_testkit::images::Image;
use strata_testkit::serde_json::{Value, json};
use strata_testkit::v1::{ServerBlobRequest, ServerImageRequest};
use strata_testkit::{Code, refused};

use crate::operations::connectivity::own_node;
use crate::operations::world::World;

fn request(reference: &str) -> ServerImageRequest {
    ServerImageRequest {
        reference: reference.into(),
        os: "linux".into(),
        architecture: "amd64".into(),
        variant: String::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_the_servers_host_runs_on_machines_without_it() {
    let world = World::start("").await;
    for machine in ["local-1", "local-2"] {
        let path = format!("/hypervisor/{machine}/create");
        world.done(&path, Value::Null).await;
    }
    let archive = world.daemon.scratch().join("archive.tar");
    let archive = Image::busybox().write_archive(&archive, "app:1");
    let layout = world.image.clone();
    for (name, image) in [("layout", &layout), ("archive", &archive)] {
        let fields = json!({
            "uri": image,
            "command": ["/bin/sh", "-c", "trap exit TERM; while :; do sleep 1; done"],
            "environment": ["SCRIPT=trap exit TERM; while :; do sleep 1; done"],
            "placement": { "constraints": ["node=local-1"] },
        });
        let id = world.instance(name, fields).await;
        world.runs(&id, Some("local-1")).await;
    }

    // The node has what its instances are made of; the other one has not.
    let identity = async |machine: &str| {
        let machine = world.daemon.node().await.machine(machine).await.unwrap();
        let dirs = world.daemon.data_dir().join("node/_machines/folders");
        let dir = dirs.join(&machine.id).join("lib/strata/identity");
        world.client_with(&dir).await.server_images()
    };
    let (mut own, mut other) = (identity("local-1").await, identity("local-2").await);
    let manifest = own.manifest(request(&layout)).await.unwrap().into_inner();
    assert!(!manifest.manifest.is_empty());
    refused(
        other.manifest(request(&layout)).await,
        Code::PermissionDenied,
    );
    refused(
        own.manifest(request("docker-archive:/etc/shadow")).await,
        Code::PermissionDenied,
    );
    let blob = |digest: String| ServerBlobRequest {
        image: Some(request(&layout)),
        digest,
        from: 0,
    };
    let none = format!("sha256:{}", "0".repeat(64));
    refused(own.blob(blob(none)).await, Code::NotFound);
    // People are not nodes.
    let mut admin = world.client().await.server_images();
    refused(
        admin.manifest(request(&layout)).await,
        Code::PermissionDenied,
    );

    // A file that is nowhere is said to be so.
    let missing = json!({
        "uri": "oci:/nowhere/at-all:1",
        "placement": { "constraints": ["node=local-1"] },
    });
    let id = world.instance("missing", missing).await;
    world
        .until(&format!("/instance/{id}"), |one| one["status"] == "FAILED")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_is_placed_where_its_image_is() {
    let mut world = World::start("").await;
    world.done("/hypervisor/local-1/create", Value::Null).await;
    let own = own_node(&world).await;
    // A file of that machine's own disk: neither the server nor its host has it.
    world.use_image_within(&["local-1"]).await;
    let fields = json!({ "uri": world.image });
    let closed = async |draining: bool| {
        let body = json!({ "draining": draining });
        world.rest().patch("/node/local-1", body).await;
    };
    closed(true).await;
    let id = world.instance("first", fields.clone()).await;
    let path = format!("/instance/{id}");
    world.until(&path, |one| one["status"] == "FAILED").await;
    // It is explained which node refused it, and why.
    let refused = format!("{own} refused it: pod.image: {}", world.image);
    let explains = |one: &Value| one["summary"].as_str().unwrap().contains(&refused);
    world.until(&format!("{path}/placement"), explains).await;
    let words = world.cli("instance explain first").await;
    assert!(words.contains(&own), "{words}");
    closed(false).await;
    world.runs(&id, Some("local-1")).await;
    // Whichever node is tried first, it runs there.
    for name in ["second", "third"] {
        let id = world.instance(name, fields.clone()).await;
        world.runs(&id, Some("local-1")).await;
    }
}

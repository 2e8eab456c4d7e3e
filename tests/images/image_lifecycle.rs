//! An image from the first to the last, by the command line.

use std::time::Instant;

use strata_testkit::images::{Image, Registry, busybox_layout};
use strata_testkit::serde_json::json;
use strata_testkit::v1::{GetImageRequest, ImageLayerPhase, ImageLayerProgress, PullImageProgress};

use crate::images::{daemon, kept, names, pull, request, told};

fn web() -> Image {
    Image::busybox()
        .layer()
        .file("etc/motd", b"hello")
        .entrypoint(["/bin/httpd", "-f"])
        .cmd(["-h", "/www"])
        .env("MODE", "test")
        .workdir("/www")
        .user("1000:1000")
        .set("StopSignal", json!("SIGINT"))
        .set("ExposedPorts", json!({ "80/tcp": {} }))
        .set("Volumes", json!({ "/data": {} }))
        .set("Labels", json!({ "a": "b" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_an_image() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let name = registry.push(&web(), "team/web:v1");
    let (daemon, node) = daemon(&[registry.address()], "").await;
    let cli = daemon.cli_with_endpoints();

    let ran = cli.run(["image", "pull", &name]).await.exits(0);
    assert_eq!(ran.stdout.trim(), web().digest());
    assert!(ran.stderr.contains(": done\n"), "{ran:?}");
    assert!(ran.stderr.contains("pulled"), "{ran:?}");

    let listed = cli.run(["image", "list"]).await.ok();
    assert!(listed.starts_with("NAME"), "{listed}");
    assert!(listed.contains(&name), "{listed}");
    let shown = cli.run(["image", "show", &name, "-o", "json"]).await.json();
    assert_eq!(shown["digest"], web().digest());
    assert_eq!(shown["platform"], "linux/amd64");
    assert_eq!(shown["created_at"], "2026-01-31T12:00:00Z");
    assert_eq!(shown["layers"].as_array().unwrap().len(), 2);
    assert_eq!(
        shown["config"],
        json!({
            "entrypoint": ["/bin/httpd", "-f"],
            "cmd": ["-h", "/www"],
            "env": ["PATH=/bin:/sbin:/usr/bin", "MODE=test"],
            "user": "1000:1000",
            "working_dir": "/www",
            "exposed_ports": ["80/tcp"],
            "volumes": ["/data"],
            "labels": { "a": "b" },
            "stop_signal": "SIGINT",
        })
    );
    assert!(shown["unpacked_bytes"].as_u64() > shown["packed_bytes"].as_u64());

    // By whatever means it is named.
    let digest = web().digest();
    for by in [&digest, &digest[7..19], "team/web:v1", "web:v1", &name] {
        let found = cli.run(["image", "show", by, "-o", "name"]).await.ok();
        assert_eq!(found.trim(), format!("image/{name}"), "{by}");
    }

    // A shell completes it.
    let shell = cli.clone().env("STRATA_COMPLETE", "fish");
    let offered = shell.run(["--", "strata", "image", "show", ""]).await.ok();
    assert!(offered.lines().any(|line| line == name), "{offered}");

    let ran = cli.run(["image", "remove", "web:v1", "--yes"]).await;
    assert!(ran.exits(0).stderr.contains("freed"));
    assert!(names(&node).await.is_empty());
    for dir in ["blobs/sha256", "layers", "images", "partial", "tmp"] {
        assert!(kept(&daemon, dir).is_empty(), "{dir}");
    }
    // Gone already is fine, also by its digest; never known is not.
    for by in [&name, &digest, "web:v1"] {
        cli.run(["image", "remove", by, "--yes"]).await.ok();
    }
    cli.run(["image", "remove", "web:v2", "--yes"])
        .await
        .exits(6);
    cli.run(["image", "show", &name]).await.exits(6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_pull_asks_for_the_manifest_alone() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let name = registry.push(&web(), "web:v1");
    let (_daemon, node) = daemon(&[registry.address()], "").await;
    let first = told(&node, request(&name)).await.unwrap();
    let last = first.last().unwrap();
    let phases = |last: &PullImageProgress| {
        let phases = last.layers.iter().map(ImageLayerProgress::phase);
        phases.collect::<Vec<_>>()
    };
    assert_eq!(phases(last), [ImageLayerPhase::Done; 2]);
    assert!(
        last.layers
            .iter()
            .all(|l| l.done_bytes == l.total_bytes && l.total_bytes > 0)
    );
    let blobs = registry.count("GET /v2/web/blobs/");
    let begin = Instant::now();
    let second = told(&node, request(&name)).await.unwrap();
    let took = begin.elapsed();
    println!("a second pull took {took:?}");
    assert!(took.as_secs() < 5, "{took:?}");
    assert_eq!(phases(second.last().unwrap()), [ImageLayerPhase::Exists; 2]);
    assert_eq!(registry.count("GET /v2/web/blobs/"), blobs);
    // A digest is exact: no registry is asked by default.
    let pinned = format!("{}@{}", name.trim_end_matches(":v1"), web().digest());
    pull(&node, &pinned).await.unwrap();
    let asked = registry.asked().len();
    pull(&node, &pinned).await.unwrap();
    assert_eq!(registry.asked().len(), asked);
    let mut forced = request(&pinned);
    forced.force = true;
    told(&node, forced).await.unwrap();
    assert!(registry.asked().len() > asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_machine_become_images_too() {
    let (daemon, node) = daemon(&[], "").await;
    let cli = daemon.cli_with_endpoints();
    let scratch = daemon.scratch();
    let layout = busybox_layout(&scratch);
    let image = pull(&node, &layout).await.unwrap();
    assert_eq!(image.reference, layout);
    assert_eq!(image.config.unwrap().working_dir, "/srv");
    let archive = web().write_archive(&scratch.join("web.tar"), "web:v1");
    // As a user types it, from where he is.
    let ran = cli
        .command(["image", "pull", "docker-archive:web.tar", "-o", "name"])
        .current_dir(&scratch)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(printed.trim(), format!("image/{archive}"));
    let request = GetImageRequest {
        image: archive.clone(),
    };
    let found = node.client().images().get(request).await.unwrap();
    assert_eq!(found.into_inner().config.unwrap().user, "1000:1000");
    // The layers hold what was put into them.
    let layer = kept(&daemon, "layers").into_iter().any(|layer| {
        let root = daemon.data_dir().join("node/images/layers").join(layer);
        root.join("root/bin/busybox").is_file() && root.join("root/bin/httpd").is_symlink()
    });
    assert!(layer);
    let mut expected = vec![archive, layout];
    expected.sort();
    assert_eq!(names(&node).await, expected);
}

//! What cannot be pulled is refused with a message that says what to do.

use std::os::unix::fs::PermissionsExt as _;

use strata_testkit::images::{Image, Registry};
use strata_testkit::v1::{GetImageRequest, ImageCredentials, PruneImagesRequest};
use strata_testkit::{Code, field_of};

use crate::images::{daemon, kept, names, pull, request, told};

#[tokio::test(flavor = "multi_thread")]
async fn bad_names_are_refused_and_change_nothing() {
    let (daemon, node) = daemon(&[], "").await;
    for bad in [
        "",
        "https://docker.io/nginx",
        "Nginx Nginx",
        "a//b",
        "x:ta g",
        "x@sha256:abc",
        "oci:",
        "oci:relative/path:v1",
        "docker-archive:../x.tar",
        "evil\n",
    ] {
        let status = pull(&node, bad).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{bad:?}: {status}");
        assert_eq!(field_of(&status).as_deref(), Some("reference"), "{bad:?}");
    }
    let mut wanted = request("nginx");
    wanted.platform = "windows/amd64".into();
    let status = told(&node, wanted).await.unwrap_err();
    assert_eq!(field_of(&status).as_deref(), Some("platform"));
    let bad = GetImageRequest {
        image: "A B".into(),
    };
    let status = node.client().images().get(bad).await.unwrap_err();
    assert_eq!(field_of(&status).as_deref(), Some("image"));
    for (goal, free_bytes, field) in [(99, 0, "goal"), (2, 0, "free_bytes"), (0, 1, "free_bytes")] {
        let bad = PruneImagesRequest {
            goal,
            free_bytes,
            dry_run: false,
        };
        let status = node.client().images().prune(bad).await.unwrap_err();
        assert_eq!(field_of(&status).as_deref(), Some(field));
    }
    for dir in ["blobs/sha256", "layers", "images", "partial"] {
        assert!(kept(&daemon, dir).is_empty(), "{dir}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_image_is_not_found() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(world.path()) else {
        return;
    };
    let name = registry.push(&Image::empty(), "app:v1");
    let (daemon, node) = daemon(&[registry.address()], "").await;
    let gone = name.replace(":v1", ":v2");
    for unknown in [
        gone.as_str(),
        "oci:/nowhere/at/all:v1",
        "docker-archive:/no.tar",
    ] {
        let status = pull(&node, unknown).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{unknown}: {status}");
    }
    let ran = daemon
        .cli_with_endpoints()
        .run(["image", "pull", &gone])
        .await
        .exits(6);
    assert!(ran.stderr.contains("check the name"), "{ran:?}");
    // Another platform than the image has.
    let mut wanted = request(&name);
    wanted.platform = "linux/arm64".into();
    let status = told(&node, wanted).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert_eq!(field_of(&status).as_deref(), Some("platform"));
    // A directory that is no layout.
    let dir = daemon.scratch();
    std::fs::write(dir.join("index.json"), "{}").unwrap();
    let status = pull(&node, &format!("oci:{}", dir.display())).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(names(&node).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_registry_is_unavailable() {
    let (daemon, node) = daemon(&["127.0.0.1:1"], "").await;
    let [refused, unknown] = ["127.0.0.1:1/app:v1", "registry.invalid/app:v1"]
        .map(|name| (node.clone(), name))
        .map(|(node, name)| tokio::spawn(async move { pull(&node, name).await }));
    for pulled in [refused, unknown] {
        let status = pulled.await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
    let ran = daemon
        .cli_with_endpoints()
        .run(["image", "pull", "127.0.0.1:1/app"])
        .await;
    assert!(ran.exits(4).stderr.contains("is 127.0.0.1:1 up"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_registry_opens_to_the_right_credentials_alone() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::closed(world.path()) else {
        return;
    };
    let name = registry.push(&Image::empty(), "app:v1");
    let (daemon, node) = daemon(&[registry.address()], "").await;
    let cli = daemon.cli_with_endpoints();
    let ran = cli.run(["image", "pull", &name]).await.exits(5);
    let address = registry.address();
    assert!(ran.stderr.contains(address), "{ran:?}");
    assert!(ran.stderr.contains("--password-file"), "{ran:?}");
    let with = |password: &str| {
        let mut wanted = request(&name);
        wanted.credentials = Some(ImageCredentials {
            user: registry.user().into(),
            password: password.into(),
        });
        wanted
    };
    let status = told(&node, with("wrong-secret")).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    told(&node, with(registry.password())).await.unwrap();
    // They are for one pull alone.
    let status = pull(&node, &name).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    let file = daemon.scratch().join("password");
    std::fs::write(&file, format!("{}\n", registry.password())).unwrap();
    let file = file.to_str().unwrap();
    let words = ["image", "pull", &name, "--user", registry.user()];
    let ran = cli.run([&words[..], &["--password-file", file]].concat());
    ran.await.ok();
    for secret in ["wrong-secret", registry.password()] {
        assert!(!daemon.log().contains(secret), "{}", daemon.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_the_configuration_are_used() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::closed(world.path()) else {
        return;
    };
    let name = registry.push(&Image::empty(), "app:v1");
    let address = registry.address();
    let file = world.path().join("config.json");
    // tester:letmein
    let text = format!(r#"{{"auths": {{"{address}": {{"auth": "dGVzdGVyOmxldG1laW4="}}}}}}"#);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let docker = format!("docker_config = {file:?}");
    let inline = format!(
        "[images.registries.{address:?}]\nuser = {:?}\npassword = {:?}",
        registry.user(),
        registry.password()
    );
    for more in [docker, inline] {
        let (daemon, node) = daemon(&[address], &more).await;
        pull(&node, &name).await.unwrap();
        assert!(!daemon.log().contains(registry.password()));
    }
}

//! Images of others: what a node pulled with its own credentials, or for one
//! project, is not there for who could not pull it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::Path;

use strata_testkit::images::{Image, Registry};
use strata_testkit::pods::idle;
use strata_testkit::v1::{ImageCredentials, PodNetwork, PodSpec, PullImageRequest};
use strata_testkit::{Code, Daemon, Node, Status, refused, skip};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

async fn pull(node: &Node, reference: &str) -> Result<String, Status> {
    pull_with(node, reference, None).await
}

async fn pull_with(
    node: &Node,
    reference: &str,
    credentials: Option<ImageCredentials>,
) -> Result<String, Status> {
    let request = PullImageRequest {
        reference: reference.into(),
        credentials,
        ..PullImageRequest::default()
    };
    let mut answers = node.client().images().pull(request).await?.into_inner();
    let mut digest = String::new();
    while let Some(answer) = answers.message().await? {
        if let Some(image) = answer.image {
            digest = image.digest;
        }
    }
    Ok(digest)
}

/// A pod as a server has a node run it for a project.
fn pod_of(project: &str, name: &str, image: &str) -> PodSpec {
    let mut pod = idle(name, image);
    pod.network = PodNetwork::Isolated.into();
    pod.labels
        .insert("strata.dev/project".into(), project.into());
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_a_node_are_not_for_every_project() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::closed(world.path()) else {
        return skip("no docker-registry or skopeo");
    };
    let name = registry.push(&Image::busybox(), "private/app:v1");
    let address = registry.address();
    let config = format!(
        "[images]\nhigh_water = 100\nplain_http = [\"{address}\"]\n[images.registries.\"{address}\"]\nuser = \"{}\"\n\
         password = \"{}\"\nprojects = [\"shop\"]\n",
        registry.user(),
        registry.password()
    );
    let daemon = Daemon::build(STRATA).config(&config).start().await;
    let node = daemon.node().await;
    let rival = async |name: &str, image: &str| {
        let pod = pod_of("rival", name, image);
        refused(node.run_pod(pod).await, Code::PermissionDenied);
    };
    // Before it is here, when it is here for others, and by its digest.
    rival("r1", &name).await;
    node.run_pod(pod_of("shop", "s1", &name)).await.unwrap();
    node.run_pod(pod_of("default", "d1", &name)).await.unwrap();
    rival("r2", &name).await;
    let digest = pull(&node, &name).await.unwrap();
    let (repository, _) = name.rsplit_once(':').unwrap();
    let pinned = format!("{repository}@{digest}");
    node.run_pod(pod_of("shop", "s2", &pinned)).await.unwrap();
    rival("r3", &pinned).await;
    let mut never = pod_of("rival", "r4", &name);
    never.pull = strata_testkit::v1::PullPolicy::Never.into();
    refused(node.run_pod(never).await, Code::NotFound);
}

/// What somebody pulled by credentials of their own is theirs.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_came_by_own_credentials_is_not_there_for_projects() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::closed(world.path()) else {
        return skip("no docker-registry or skopeo");
    };
    let name = registry.push(&Image::busybox(), "private/app:v1");
    let config = format!(
        "[images]\nhigh_water = 100\nplain_http = [\"{}\"]\n",
        registry.address()
    );
    let daemon = Daemon::build(STRATA).config(&config).start().await;
    let node = daemon.node().await;
    let own = ImageCredentials {
        user: registry.user().into(),
        password: registry.password().into(),
    };
    let digest = pull_with(&node, &name, Some(own.clone())).await.unwrap();
    let (repository, _) = name.rsplit_once(':').unwrap();
    let pinned = format!("{repository}@{digest}");
    pull_with(&node, &pinned, Some(own)).await.unwrap();
    for (pod, image) in [("r1", &name), ("r2", &pinned)] {
        let pod = pod_of("rival", pod, image);
        refused(node.run_pod(pod).await, Code::PermissionDenied);
    }
    // Who uses the node itself finds it there.
    let mut pod = idle("own", &name);
    pod.network = PodNetwork::Isolated.into();
    node.run_pod(pod).await.unwrap();
}

/// Writes a layout whose manifest names a layer that it does not have.
fn without_layers(layout: &Path) {
    for blob in fs::read_dir(layout.join("blobs/sha256")).unwrap() {
        let path = blob.unwrap().path();
        if fs::metadata(&path).unwrap().len() > 64 << 10 {
            fs::remove_file(path).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn layer_of_another_project_cannot_be_claimed_by_digest() {
    let world = tempfile::tempdir().unwrap();
    let Some(registry) = Registry::start(&world.path().join("registry")) else {
        return skip("no docker-registry or skopeo");
    };
    let private = Image::busybox().file("secret", b"secret");
    let name = registry.push(&private, "private:v1");
    let config = format!(
        "[images]\nhigh_water = 100\nplain_http = [\"{}\"]\n",
        registry.address()
    );
    let daemon = Daemon::build(STRATA).config(&config).start().await;
    let node = daemon.node().await;
    pull(&node, &name).await.unwrap();
    let layout = world.path().join("borrowed");
    let borrowed = private.write_layout(&layout, "v1");
    without_layers(&layout);
    let error = pull(&node, &borrowed).await.unwrap_err();
    assert!(!error.message().is_empty());
    let mut pod = idle("borrower", &borrowed);
    pod.network = PodNetwork::Isolated.into();
    assert!(node.run_pod(pod).await.is_err());
    // The same registry under another name of repository has it.
    let shared = registry.push(&private, "shared:v1");
    pull(&node, &shared).await.unwrap();
}

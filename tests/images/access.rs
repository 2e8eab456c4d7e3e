//! Who may do what with images, and who may name files of the node.

use strata_testkit::images::busybox_layout;
use strata_testkit::v1::{PruneImagesRequest, RemoveImageRequest};
use strata_testkit::{Code, Daemon, Node, refused};

use crate::images::{STRATA, names, pull};

async fn caller(daemon: &Daemon, role: &str) -> Node {
    let dir = daemon.scratch().join(format!("as-{role}"));
    let out = dir.display().to_string();
    let words = ["certificate", "issue", "--role", role, "--name", role];
    let words = [&words[..], &["--out", &out]].concat();
    daemon.cli_with_endpoints().run(words).await.ok();
    daemon.node_with(&dir).await.expect("it may connect")
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_hold() {
    let (daemon, root) = Daemon::up(STRATA).await;
    let layout = busybox_layout(&daemon.scratch());
    pull(&root, &layout).await.unwrap();
    let remove = || RemoveImageRequest {
        image: layout.clone(),
    };
    let viewer = caller(&daemon, "viewer").await;
    assert_eq!(names(&viewer).await, [layout.as_str()]);
    let denied = Code::PermissionDenied;
    refused(pull(&viewer, &layout).await, denied);
    refused(viewer.client().images().remove(remove()).await, denied);
    let prune = PruneImagesRequest::default();
    refused(viewer.client().images().prune(prune).await, denied);
    let operator = caller(&daemon, "operator").await;
    // A file of the machine is root's to read, whether it is there or not.
    let words = refused(pull(&operator, &layout).await, denied);
    assert!(words.contains("only an admin"), "{words}");
    refused(pull(&operator, "oci:/etc/none:v1").await, denied);
    operator.client().images().prune(prune).await.unwrap();
    operator.client().images().remove(remove()).await.unwrap();
    let admin = daemon.node_with(&daemon.data_dir().join("client")).await;
    pull(&admin.unwrap(), &layout).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_below_the_directories_that_are_named() {
    let world = tempfile::tempdir().unwrap();
    let open = world.path().join("open");
    let layout = busybox_layout(&open);
    let closed = busybox_layout(&world.path().join("closed"));
    std::os::unix::fs::symlink(world.path().join("closed"), open.join("way")).unwrap();
    let config = format!("[images]\nlocal_folders = [{open:?}]");
    let daemon = Daemon::build(STRATA).config(&config).start().await;
    let operator = caller(&daemon, "operator").await;
    pull(&operator, &layout).await.unwrap();
    let around = format!("oci:{}/way/busybox:latest", open.display());
    for path in [closed, around] {
        refused(pull(&operator, &path).await, Code::PermissionDenied);
    }
}

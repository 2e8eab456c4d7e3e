//! Each role has its own powers over the published services, and no other.

use strata_testkit::scheduler::InstanceIdentifier;
use strata_testkit::{Code, controller, refused, wait_for};

use crate::control::{TEST_TIMEOUT, cluster};

fn it() -> InstanceIdentifier {
    InstanceIdentifier { id: "id-it".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_has_the_powers_of_its_role_alone() {
    let cluster = cluster(1).await;
    let operator = cluster.credentials("operator", "olga").await;
    let viewer = cluster.credentials("viewer", "vera").await;
    let node = cluster.seed_node("seed").await;
    let operator = cluster.client_with(&operator).await.unwrap();
    let viewer = cluster.client_with(&viewer).await.unwrap();
    for client in [&viewer, &node.client] {
        let mut scheduler = client.scheduler();
        let created = scheduler.create(cluster.instance("it")).await;
        refused(created.map(drop), Code::PermissionDenied);
        refused(scheduler.start(it()).await, Code::PermissionDenied);
        refused(scheduler.stop(it()).await, Code::PermissionDenied);
        refused(scheduler.destroy(it()).await, Code::PermissionDenied);
    }
    let mut scheduler = operator.scheduler();
    // An operator has no business on a node's own disk.
    let local = scheduler.create(cluster.instance("it")).await;
    refused(local.map(drop), Code::PermissionDenied);
    let mut remote = cluster.instance("remote");
    remote.uri = "127.0.0.1:1/nothing:v1".into();
    scheduler.create(remote).await.unwrap();
    let remote = InstanceIdentifier {
        id: "id-remote".into(),
    };
    scheduler.destroy(remote).await.unwrap();
    cluster.run(cluster.instance("it")).await;
    cluster.settles(&["id-it"], &[]).await;
    for client in [&viewer, &operator] {
        let certificate = node.certificate();
        let request = strata_testkit::scheduler::NodeRegisterRequest { certificate };
        let registered = client.scheduler_nodes().register(request).await;
        refused(registered, Code::PermissionDenied);
        let status = controller::InstanceStatus {
            id: "id-it".into(),
            status: controller::Status::Failed.into(),
            description: "because".into(),
        };
        let pushed = client.controller().set_instance_status(status).await;
        refused(pushed, Code::PermissionDenied);
        let status = controller::NodeStatus {
            id: "n1".into(),
            status: controller::Status::Failed.into(),
            ..Default::default()
        };
        let pushed = client.controller().set_node_status(status).await;
        refused(pushed, Code::PermissionDenied);
    }
    // Nobody follows assignments but nodes.
    for client in [&viewer, &operator] {
        let follow = client.assignments().follow(tokio_stream::empty()).await;
        refused(follow.map(drop), Code::PermissionDenied);
    }
    cluster.settles(&["id-it"], &[]).await;
    scheduler.stop(it()).await.unwrap();
    cluster.settles(&[], &["id-it"]).await;
    scheduler.destroy(it()).await.unwrap();
    cluster.settles(&[], &[]).await;
    wait_for("the record to go", TEST_TIMEOUT, async || {
        match scheduler.stop(it()).await {
            Err(status) if status.code() == Code::NotFound => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

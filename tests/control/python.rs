//! A client that knows the published documents and nothing else drives every
//! call of them.

use crate::control::cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_published_documents_drives_every_call() {
    let cluster = cluster(0).await;
    let node = cluster.credentials("node", "seed-py").await;
    let other = cluster.credentials("node", "seed-other").await;
    let admin = cluster.server.data_dir().join("client");
    let arguments = vec![
        cluster.near().to_string().into(),
        admin.into(),
        node.into(),
        other.into(),
        cluster.image.clone().into(),
    ];
    let Some(said) = strata_testkit::python::drive("drive.py", arguments).await else {
        return;
    };
    let all = [
        "NodeService.Register",
        "NodeService.Status",
        "InstanceService.Create",
        "SchedulerService.setInstanceStatus",
        "SchedulerService.setNodeStatus",
        "InstanceService.Stop",
        "InstanceService.Start",
        "InstanceService.Destroy",
        "NodeService.Unregister",
    ];
    assert_eq!(said, all);
    cluster.settles(&[], &[]).await;
}

//! A client that knows the published document and nothing else takes a cluster
//! through its whole life.

use crate::kubernetes::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_published_document_drives_every_call() {
    let Some(world) = World::start(5).await else {
        return;
    };
    let arguments = vec![
        world.near().to_string().into(),
        world.credentials().into(),
        world.bundles.old.clone().into(),
    ];
    let Some(said) = strata_testkit::python::drive("clusters.py", arguments).await else {
        return;
    };
    for rpc in [
        "GetVersionInformation",
        "CreateCluster",
        "GetCluster",
        "GetClusterList",
        "GetClusterNodesStatus",
        "AddNodePool",
        "ScaleNodePool",
        "DeleteNodePool",
        "GetUpgradeClusterInformation",
        "UpgradeCluster",
        "DeleteCluster",
    ] {
        assert!(said.iter().any(|it| it == rpc), "{rpc} is not in {said:?}");
    }
}

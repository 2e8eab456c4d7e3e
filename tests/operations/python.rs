//! A client that knows the published document and nothing else drives every
//! call of it.

use crate::operations::world::{POOL, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_published_document_drives_every_call() {
    let world = World::start(POOL).await;
    let arguments = vec![world.near().to_string().into(), world.credentials().into()];
    let Some(said) = strata_testkit::python::drive("operations.py", arguments).await else {
        return;
    };
    let all = [
        "ListHypervisors",
        "ExpandStorage",
        "ShrinkStorage",
        "CreateHypervisor",
        "CreateBackup",
        "DestroyHypervisor",
    ];
    assert_eq!(said, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_published_clusters_is_refused_by_field() {
    let world = World::start("").await;
    let arguments = vec![world.near().to_string().into(), world.credentials().into()];
    let Some(said) = strata_testkit::python::drive("clusters.py", arguments).await else {
        return;
    };
    assert_eq!(said, ["GetVersionInformation", "refusals"]);
}

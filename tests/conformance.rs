//! Clients written from the text of the published documents alone drive every
//! rpc, route, field and value of them (`tests/conformance`, Python with stock
//! libraries): one test for each document.

use strata_testkit::conformance::{Nodes, conformance};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// A short lease: what is lost is noticed within a test.
const CONFIG: &str = "[scheduler]\nlease_seconds = 3\n[images]\nhigh_water = 100\n";
/// The same without what a server alone does not read.
const SERVER: &str = "[scheduler]\nlease_seconds = 3\n";

#[tokio::test(flavor = "multi_thread")]
async fn scheduler_document_holds() {
    conformance(STRATA, CONFIG, Nodes::Strata, "seed_000.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduler_document_holds_with_a_published_node() {
    conformance(STRATA, SERVER, Nodes::Published, "seed_000.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_document_holds() {
    conformance(STRATA, CONFIG, Nodes::Strata, "seed_001.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_document_holds_with_a_published_node() {
    conformance(STRATA, SERVER, Nodes::Published, "seed_001.py").await;
}

/// Versions of Kubernetes that the simulated clusters have.
const VERSIONS: [&str; 4] = ["v1.33.2", "v1.34.1", "v1.34.4", "v1.35.0"];

#[tokio::test(flavor = "multi_thread")]
async fn clusters_document_holds() {
    let bundles = tempfile::tempdir().unwrap();
    for version in VERSIONS {
        let bundle = bundles.path().join(version);
        std::fs::create_dir(&bundle).unwrap();
        let text = strata_testkit::serde_json::json!({
            "version": version,
            "etcd": "3.6.0-0", "coredns": "v1.12.1", "pause": "3.10.1",
            "images": ["strata.internal/kubernetes/pause:3.10.1"],
        });
        std::fs::write(bundle.join("bundle.json"), text.to_string()).unwrap();
    }
    let config = format!(
        "{CONFIG}[clusters]\nsimulated = true\nbundles = {:?}\n\
         [machines]\nlocal = 6\nlocal_ram = 2000\n",
        bundles.path()
    );
    conformance(STRATA, &config, Nodes::Strata, "seed_002.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_document_holds() {
    conformance(STRATA, CONFIG, Nodes::Strata, "seed_003.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_document_holds() {
    conformance(STRATA, CONFIG, Nodes::Strata, "seed_004.py").await;
}

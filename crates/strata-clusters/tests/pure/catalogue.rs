//! The catalogue finds what is here, and is not led astray by what is not.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use strata_clusters::DriverError;
use strata_clusters::catalogue::{Catalogue, CatalogueError};
use strata_types::ErrorKind;
use strata_types::cluster::KubernetesVersion;

fn put(dir: &Path, version: &str, text: impl AsRef<[u8]>) {
    let dir = dir.join(version);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("bundle.json"), text).unwrap();
}

fn whole(version: &str) -> String {
    format!(
        r#"{{"version":"{version}","etcd":"3.6.5-0","coredns":"v1.12.1","pause":"3.10.1",
            "images":["strata.internal/kubernetes/kube-apiserver:{version}"],"later":1}}"#
    )
}

fn with(versions: &[&str]) -> (tempfile::TempDir, Catalogue) {
    let dir = tempfile::tempdir().unwrap();
    for version in versions {
        put(dir.path(), version, whole(version));
    }
    let catalogue = Catalogue::new(dir.path());
    (dir, catalogue)
}

#[test]
fn newest_matching_bundle_is_found() {
    let (_folder, all) = with(&["v1.34.9", "v1.34.10", "v1.35.0", "v1.9.40"]);
    let found = |text: &str| all.resolve(text).unwrap().version.to_string();
    assert_eq!(found(""), "v1.35.0");
    assert_eq!(found("1.34"), "v1.34.10");
    assert_eq!(found("v1.34"), "v1.34.10");
    assert_eq!(found("v1.34.9"), "v1.34.9");
    assert_eq!(found("1.9"), "v1.9.40");
    let versions: Vec<_> = all.versions().into_iter().map(|b| b.version).collect();
    assert!(versions.is_sorted());
    let bundle = all.find(KubernetesVersion::new(1, 35, 0)).unwrap();
    assert_eq!(bundle.dir, all.dir().join("v1.35.0"));
    assert_eq!(bundle.pause, "3.10.1");
}

#[test]
fn missing_bundle_error_has_a_hint() {
    let (_folder, all) = with(&["v1.34.4", "v1.35.4"]);
    let error = all.resolve("v1.36.1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Kubernetes v1.36.1 is not here; there are v1.34.4, v1.35.4"
    );
    assert_eq!(error.hint(), "get it with: make kubernetes VERSION=v1.36.1");
    let public = strata_types::Error::from(error);
    assert_eq!(public.kind(), ErrorKind::Invalid);
    assert_eq!(public.field(), Some("k8s_version"));
    let error = all.resolve("1.36").unwrap_err();
    assert_eq!(
        DriverError::from(error).to_string(),
        "Kubernetes v1.36 is not here; get it with: make kubernetes VERSION=1.36"
    );
    let nothing = Catalogue::new(all.dir().join("nowhere"));
    let error = nothing.resolve("").unwrap_err();
    assert_eq!(error.to_string(), "Kubernetes is not here; no version is");
    for wrong in ["1", "latest", "v1.x", "../v1.34.4", "v1.34.4 ", "1.34.4.5"] {
        let error = all.resolve(wrong).unwrap_err();
        assert!(matches!(error, CatalogueError::NotAVersion(_)), "{wrong}");
    }
}

#[test]
fn broken_bundles_are_skipped_and_reported_on_request() {
    let (dir, all) = with(&["v1.34.4"]);
    let dir = dir.path();
    put(dir, "v1.34.5", whole("v1.34.6"));
    put(dir, "v1.34.6", "{");
    put(dir, "v1.34.7", " ".repeat(64 * 1024 + 1));
    put(dir, "v1.34.8", whole("v1.34.8").replace("3.6.5-0", "a\\nb"));
    put(dir, "v1.34.9", whole("v1.34.9").replace("strata.", "--x"));
    put(dir, "v1.34.10", "[".repeat(60_000));
    put(dir, "1.34.11", whole("v1.34.11"));
    put(dir, "notes", "{}");
    fs::create_dir_all(dir.join("v1.34.12/bundle.json")).unwrap();
    // It is being built.
    fs::create_dir_all(dir.join("v1.34.13")).unwrap();
    assert_eq!(all.versions().len(), 1);
    for patch in [5, 6, 7, 8, 9, 10, 12] {
        let error = all.find(KubernetesVersion::new(1, 34, patch)).unwrap_err();
        assert!(matches!(error, CatalogueError::Broken { .. }), "{patch}");
        assert!(error.to_string().len() < 1000);
        assert!(error.hint().contains("make kubernetes VERSION=v1.34."));
    }
    let error = all.resolve("v1.34.13").unwrap_err();
    assert!(matches!(error, CatalogueError::Missing { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn resolve_returns_the_newest_matching_version(
        patches in proptest::collection::btree_set((30u16..34, 0u16..20), 0..8),
        asked in 30u16..34,
    ) {
        let names: Vec<_> = patches.iter().map(|(m, p)| format!("v1.{m}.{p}")).collect();
        let (_folder, all) = with(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let newest = patches.iter().rfind(|(minor, _)| *minor == asked);
        match (all.resolve(&format!("1.{asked}")), newest) {
            (Ok(bundle), Some((minor, patch))) => {
                prop_assert_eq!(bundle.version, KubernetesVersion::new(1, *minor, *patch));
            }
            (Err(CatalogueError::Missing { here, .. }), None) => {
                prop_assert_eq!(here.len(), patches.len());
            }
            other => prop_assert!(false, "{other:?}"),
        }
        let all_newest = all.resolve("").ok().map(|bundle| (bundle.version.minor, bundle.version.patch));
        prop_assert_eq!(all_newest, patches.last().copied());
    }

    #[test]
    fn catalogue_never_panics_on_any_content(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in ".*") {
        let (dir, all) = with(&[]);
        put(dir.path(), "v1.34.4", bytes);
        prop_assert!(all.versions().is_empty());
        prop_assert!(all.resolve(&text).is_err());
    }
}

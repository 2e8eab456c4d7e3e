//! What is known of a version that is here, until the catalogue is.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_types::cluster::KubernetesVersion;

use crate::DriverError;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Bundle {
    pub(super) etcd: String,
    pub(super) coredns: String,
    pub(super) pause: String,
    #[serde(skip)]
    pub(super) folder: PathBuf,
}

pub(super) fn find(catalogue: &Path, version: KubernetesVersion) -> Result<Bundle, DriverError> {
    let folder = catalogue.join(version.to_string());
    let read = std::fs::read(folder.join("bundle.json")).ok();
    let read = read.and_then(|text| serde_json::from_slice::<Bundle>(&text).ok());
    let bundle = read.ok_or_else(|| DriverError::Missing {
        what: format!("Kubernetes {version}"),
        hint: format!("get it with: make kubernetes VERSION={version}"),
    })?;
    Ok(Bundle { folder, ..bundle })
}

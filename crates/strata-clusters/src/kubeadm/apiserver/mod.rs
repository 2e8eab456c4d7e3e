//! What the API servers of a cluster are configured with beside what kubeadm
//! decides: encryption at rest, an audit log and a default for what pods may
//! do. Three files, the same on every machine of the control plane, and the
//! arguments that name them.
//!
//! ```text
//! encryption   the key, and what is encrypted with it
//! audit        which requests are written down, and how much of each
//! admission    what pods may do where a namespace says nothing else
//! kept         the arguments in a configuration that a cluster keeps already
//! ```
//!
//! A cluster whose secrets hold no encryption key is from before this, and is
//! left as it is until it is upgraded.

mod admission;
mod audit;
mod cluster_config;
pub mod encryption;

use serde_json::{Value, json};

use super::archive::Archive;
use super::machine::HERE;
use crate::ClusterFacts;

pub(super) use cluster_config::with_arguments;

/// The directory of the files, for the API server.
const DIR: &str = "/etc/kubernetes/strata";
/// The same by the path that outlives a reboot of the machine.
const DIR_ON_DISK: &str = "etc/strata";
const ENCRYPTION: &str = "encryption.json";
const AUDIT: &str = "audit-policy.json";
const ADMISSION: &str = "admission.json";
/// Only root reads them.
const MODE: u32 = 0o600;

/// The argument by which an API server is known to be configured.
const ENCRYPTION_ARGUMENT: &str = "encryption-provider-config";

/// Whether a cluster's API servers are configured by these files.
pub(super) fn is_configured(cluster: &ClusterFacts) -> bool {
    encryption::providers(&cluster.secrets).is_some()
}

/// Adds the files of a machine of the control plane.
pub(super) fn files(cluster: &ClusterFacts, files: Archive) -> Archive {
    let Some(encryption) = encryption::providers(&cluster.secrets) else {
        return files;
    };
    let documents = [
        (ENCRYPTION, encryption),
        (AUDIT, audit::policy()),
        (ADMISSION, admission::configuration(cluster.pod_security)),
    ];
    documents.into_iter().fold(files, |files, (name, content)| {
        let path = format!("{HERE}/{DIR_ON_DISK}/{name}");
        files.file(&path, MODE, content.to_string())
    })
}

fn pairs() -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        (ENCRYPTION_ARGUMENT, format!("{DIR}/{ENCRYPTION}")),
        // Another order of keys is taken up without a restart.
        (
            "encryption-provider-config-automatic-reload",
            "true".to_owned(),
        ),
        (
            "admission-control-config-file",
            format!("{DIR}/{ADMISSION}"),
        ),
        ("audit-policy-file", format!("{DIR}/{AUDIT}")),
    ];
    pairs.extend(audit::arguments());
    pairs
}

/// `apiServer.extraArgs` of kubeadm.
pub(super) fn arguments() -> Value {
    let all = pairs().into_iter();
    all.map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

/// `apiServer.extraVolumes` of kubeadm.
pub(super) fn volumes() -> Value {
    json!([
        {"name": "strata-config", "hostPath": DIR, "mountPath": DIR, "readOnly": true,
            "pathType": "Directory"},
        {"name": "audit-log", "hostPath": audit::DIR, "mountPath": audit::DIR,
            "pathType": "DirectoryOrCreate"},
    ])
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;

    #[test]
    fn every_file_of_an_api_server_argument_is_installed() {
        let cluster = fake::cluster(&["c1"]);
        let tar = files(&cluster, Archive::default()).finish();
        for (name, value) in pairs() {
            let Some(file) = value.strip_prefix(DIR) else {
                continue;
            };
            let path = format!("var/lib/strata-kubernetes/etc/strata{file}");
            let header = tar.chunks(512).find(|at| at.starts_with(path.as_bytes()));
            let header = header.unwrap_or_else(|| panic!("{name}: {path} is not there"));
            assert_eq!(&header[100..107], b"0000600", "{path}");
        }
    }

    #[test]
    fn cluster_without_encryption_key_gets_no_files() {
        let mut cluster = fake::cluster(&["c1"]);
        cluster.secrets.remove(encryption::KEY);
        assert!(!is_configured(&cluster));
        let empty = Archive::default().finish();
        assert_eq!(files(&cluster, Archive::default()).finish(), empty);
    }
}

//! What pods may do in a namespace that has no labels of its own for it
//! (`pod-security.kubernetes.io/enforce` and its siblings): the defaults of
//! the admission plugin `PodSecurity`.

use serde_json::{Value, json};
use strata_types::cluster::PodSecurityLevel;

/// Where kube-proxy, CoreDNS and the control plane are; Strata itself runs
/// nothing in a cluster outside of it.
const EXEMPT: [&str; 1] = ["kube-system"];

/// The file for the API server. A cluster from before a level could be chosen
/// enforces nothing: its pods run, and would not come back once they moved.
pub(super) fn configuration(level: Option<PodSecurityLevel>) -> Value {
    let enforce = level.unwrap_or(PodSecurityLevel::Privileged);
    // What is not refused yet is a warning to the caller, and in the audit log.
    let reported = match enforce {
        PodSecurityLevel::Privileged => PodSecurityLevel::Baseline,
        PodSecurityLevel::Baseline | PodSecurityLevel::Restricted => PodSecurityLevel::Restricted,
    };
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": {
                "enforce": enforce.as_str(), "enforce-version": "latest",
                "audit": reported.as_str(), "audit-version": "latest",
                "warn": reported.as_str(), "warn-version": "latest",
            },
            "exemptions": {"usernames": [], "runtimeClasses": [], "namespaces": EXEMPT},
        }}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_security_level_is_enforced_and_the_next_is_warned() {
        for (level, enforced, reported) in [
            (None, "privileged", "baseline"),
            (Some(PodSecurityLevel::Privileged), "privileged", "baseline"),
            (Some(PodSecurityLevel::Baseline), "baseline", "restricted"),
            (
                Some(PodSecurityLevel::Restricted),
                "restricted",
                "restricted",
            ),
        ] {
            let file = configuration(level);
            let plugin = &file["plugins"][0]["configuration"];
            assert_eq!(plugin["defaults"]["enforce"], enforced);
            assert_eq!(plugin["defaults"]["warn"], reported);
            assert_eq!(plugin["defaults"]["audit"], reported);
            assert_eq!(plugin["exemptions"]["namespaces"], json!(["kube-system"]));
        }
    }
}

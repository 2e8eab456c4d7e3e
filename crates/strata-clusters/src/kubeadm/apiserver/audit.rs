//! The audit policy: who did what to which object, for every change and for
//! every read of a person; no bodies, but of changes to access rights. What
//! the parts of Kubernetes read all the time is left out, so that the log
//! reaches back.

use serde_json::{Value, json};

/// Where the log is, on the machine and for the API server: on its disk, as
/// `/var/log` is not everywhere, and for root alone.
pub(super) const DIR: &str = "/var/lib/strata-kubernetes/audit";
/// A file is rotated at this size.
const MAX_SIZE_MB: u32 = 20;
/// With the file that is written, at most 100 MB are taken up.
const MAX_BACKUPS: u32 = 4;
const MAX_AGE_DAYS: u32 = 30;

const READS: [&str; 3] = ["get", "list", "watch"];
const COMPONENTS: [&str; 4] = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:kube-proxy",
];

/// The arguments beside the policy's own.
pub(super) fn arguments() -> [(&'static str, String); 4] {
    [
        ("audit-log-path", format!("{DIR}/audit.log")),
        ("audit-log-maxage", MAX_AGE_DAYS.to_string()),
        ("audit-log-maxbackup", MAX_BACKUPS.to_string()),
        ("audit-log-maxsize", MAX_SIZE_MB.to_string()),
    ]
}

/// The first rule that matches decides.
pub(super) fn policy() -> Value {
    let core = |resources: &[&str]| json!({"group": "", "resources": resources});
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs":
                ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*", "/api*"]},
            {"level": "None", "resources": [core(&["events"]), {"group": "events.k8s.io"}]},
            {"level": "None", "users": COMPONENTS, "verbs": READS},
            {"level": "None", "userGroups": ["system:nodes"], "verbs": READS},
            // A service account that reads Secrets is worth a line, in
            // kube-system too.
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"],
                "resources": [core(&["secrets"])]},
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"],
                "verbs": READS},
            // How Strata observes a cluster, every few seconds.
            {"level": "None", "users": ["strata"], "verbs": READS,
                "resources": [core(&["nodes", "pods"])]},
            // Leases are renewed every few seconds by every leader.
            {"level": "None", "userGroups":
                ["system:nodes", "system:serviceaccounts:kube-system"],
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "None", "users": COMPONENTS,
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "Request", "verbs":
                ["create", "update", "patch", "delete", "deletecollection"],
                "resources": [{"group": "rbac.authorization.k8s.io"}]},
            {"level": "Metadata"},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<Value> {
        policy()["rules"].as_array().unwrap().clone()
    }

    #[test]
    fn audit_log_has_no_bodies_except_for_rbac() {
        for rule in rules() {
            let level = rule["level"].as_str().unwrap();
            assert_ne!(level, "RequestResponse");
            if level == "Request" {
                let expected = json!([{"group": "rbac.authorization.k8s.io"}]);
                assert_eq!(rule["resources"], expected);
            }
        }
    }

    #[test]
    fn audit_policy_logs_unmatched_requests() {
        assert_eq!(rules().last(), Some(&json!({"level": "Metadata"})));
        for rule in rules() {
            let (level, writes) = (&rule["level"], rule["verbs"].is_null());
            let bounded =
                rule["resources"] != Value::Null || rule["nonResourceURLs"] != Value::Null;
            assert!(level != "None" || !writes || bounded, "{rule}");
        }
    }

    #[test]
    fn audit_log_size_is_bounded() {
        let value = |name: &str| -> u32 {
            let all = arguments();
            let found = all.iter().find(|(it, _)| *it == name).unwrap();
            found.1.parse().unwrap()
        };
        let files = value("audit-log-maxbackup") + 1;
        assert!(files * value("audit-log-maxsize") <= 100);
        assert!(value("audit-log-maxage") > 0);
    }
}

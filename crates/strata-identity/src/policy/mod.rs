//! Who may call what: one table, asked for every request before any handler
//! sees it. What is not in the table is refused, so a forgotten line shows
//! itself at once and never as a hole.
//!
//! A call is named by its gRPC path (`/runtime.CellService/Start`) or by its
//! HTTP method and path (`GET /metrics`). Which *objects* a role may touch
//! (a node speaks of itself alone) is for the handler, which has the caller.

mod table;

use strata_types::Role;

use crate::Caller;
pub use table::Access;
use table::{GRPC, HTTP};

/// What the table says about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// Say first who you are.
    Unauthenticated,
    /// Not you, or not at all.
    Denied,
}

/// Whether `caller` may call `method`: a gRPC path, or an HTTP method and
/// path with a space between.
pub fn decide(method: &str, caller: Option<&Caller>) -> Decision {
    match (access(method), caller) {
        (None, _) => Decision::Denied,
        (Some(Access::Anyone), _) => Decision::Allow,
        (Some(Access::Roles(_)), None) => Decision::Unauthenticated,
        // Handlers of these look at the project; others know of none.
        (Some(Access::Roles(_)), Some(caller))
            if caller.projects.is_some() && !table::is_about_projects(method) =>
        {
            Decision::Denied
        }
        (Some(Access::Roles(roles)), Some(caller)) if roles.contains(&caller.role) => {
            Decision::Allow
        }
        (Some(Access::Roles(_)), Some(_)) => Decision::Denied,
    }
}

/// Who may call `method`; `None` when nothing is known of it.
pub fn access(method: &str) -> Option<Access> {
    if method.starts_with('/') {
        let entry = GRPC.iter().find(|(path, _)| *path == method);
        return entry.map(|(_, access)| *access);
    }
    let (verb, path) = method.split_once(' ')?;
    // Whoever may read may ask whether there is something to read.
    let verb = if verb == "HEAD" { "GET" } else { verb };
    HTTP.iter()
        .find(|(listed, pattern, _)| *listed == verb && fits(pattern, path))
        .map(|(_, _, access)| *access)
}

/// The route of the table that an HTTP method and path fit: `/instance/{id}`.
pub fn http_route(method: &str) -> Option<&'static str> {
    let (verb, path) = method.split_once(' ')?;
    let fitting =
        |(listed, pattern, _): &&(&str, &str, Access)| *listed == verb && fits(pattern, path);
    HTTP.iter().find(fitting).map(|(_, pattern, _)| *pattern)
}

/// Whether a call that is allowed belongs into the audit log: it changes
/// something, or hands out a secret. What nodes report all the time does not.
pub fn is_audited(method: &str) -> bool {
    const REPORTS: [&str; 3] = [
        "/controller.SchedulerService/setNodeStatus",
        "/controller.SchedulerService/setInstanceStatus",
        "/scheduler.NodeService/Status",
    ];
    const FOR_MANY: [&str; 2] = [
        "/strata.v1.Identity/Join",
        "/strata.v1.Identity/RenewCertificate",
    ];
    if REPORTS.contains(&method) {
        return false;
    }
    let verb = method.split_once(' ').map(|(verb, _)| verb);
    let reads = matches!(verb, Some("GET" | "HEAD"));
    match access(method) {
        // Whatever a viewer may not do changes something or shows a secret.
        Some(Access::Roles(roles)) if !roles.contains(&Role::Viewer) => true,
        Some(Access::Roles(_)) if verb.is_some() => !reads,
        Some(_) => FOR_MANY.contains(&method),
        None => false,
    }
}

/// What can be done with an HTTP path, for whoever tried something else.
pub fn verbs(path: &str) -> Vec<&'static str> {
    // As on the routes themselves, a path that is listed by its name is not
    // one of those that a pattern stands for.
    let bare = path.strip_suffix('/').unwrap_or(path);
    let named = HTTP.iter().any(|(_, pattern, _)| *pattern == bare);
    HTTP.iter()
        .filter(|(_, pattern, _)| match named {
            true => *pattern == bare,
            false => fits(pattern, path),
        })
        .map(|(verb, _, _)| *verb)
        .collect()
}

/// Every HTTP route of the table, for the test that holds it against the
/// routes there are.
pub fn http_routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    HTTP.iter().map(|(verb, path, _)| (*verb, *path))
}

/// Every gRPC path of the table, for the test that holds it against the
/// services there are.
pub fn grpc_methods() -> impl Iterator<Item = &'static str> {
    GRPC.iter().map(|(path, _)| *path)
}

/// The roles in words, for refusals: `admin or operator`.
pub fn roles_in_words(roles: &[Role]) -> String {
    let words: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    words.join(" or ")
}

/// Segment by segment; `{…}` stands for any one segment. A slash at the end
/// makes no difference, as on the routes themselves.
fn fits(pattern: &str, path: &str) -> bool {
    fn segments(path: &str) -> impl Iterator<Item = &str> {
        let path = path.strip_suffix('/').unwrap_or(path);
        path.split('/')
    }
    let mut path = segments(path);
    segments(pattern).all(|wanted| {
        path.next()
            .is_some_and(|found| wanted == found || (wanted.starts_with('{') && !found.is_empty()))
    }) && path.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::Proof;

    fn caller(role: Role) -> Caller {
        Caller {
            name: "somebody".parse().unwrap(),
            role,
            projects: None,
            proof: Proof::Certificate,
            expires_at: None,
        }
    }

    fn allowed(method: &str) -> Vec<Role> {
        let may = |role: &Role| decide(method, Some(&caller(*role))) == Decision::Allow;
        Role::ALL.into_iter().filter(may).collect()
    }

    #[test]
    fn whatever_changes_something_is_audited_and_reports_and_reads_are_not() {
        for (verb, path) in http_routes() {
            let method = format!("{verb} {path}");
            let console = path.ends_with("/console");
            let secret = method == "GET /api/v1/cluster"
                || path.starts_with("/certificate")
                || ["/audit", "/ca", "/unreadable-record"].contains(&path);
            let expected = verb != "GET" || console || secret;
            assert_eq!(is_audited(&method), expected, "{method}");
        }
        for method in [
            "/runtime.CellService/Start",
            "/runtime.Pods/Exec",
            "/strata.v1.Identity/CreateToken",
            "/strata.v1.Identity/Join",
            "/cnct.kaas.api.Cluster/GetCluster",
            "/schedule.Assignments/Follow",
        ] {
            assert!(is_audited(method), "{method}");
        }
        for method in [
            "/strata.v1.Cells/List",
            "/scheduler.NodeService/Status",
            "/strata.v1.Identity/WhoAmI",
            "/no.such/Call",
            "GET /nothing",
        ] {
            assert!(!is_audited(method), "{method}");
        }
    }

    #[test]
    fn every_entry_is_there_once() {
        let paths: Vec<_> = grpc_methods().collect();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
        let routes: BTreeSet<_> = HTTP.iter().map(|(verb, path, _)| (verb, path)).collect();
        assert_eq!(routes.len(), HTTP.len());
    }

    #[test]
    fn the_admin_may_call_everything_there_is() {
        let routes = HTTP.iter().map(|(verb, path, _)| format!("{verb} {path}"));
        for method in grpc_methods().map(str::to_owned).chain(routes) {
            assert!(allowed(&method).contains(&Role::Admin), "{method}");
        }
    }

    #[test]
    fn nobody_gets_in_unnamed_but_to_join_and_to_ask_for_health() {
        let routes = HTTP.iter().map(|(verb, path, _)| format!("{verb} {path}"));
        let open: Vec<String> = grpc_methods()
            .map(str::to_owned)
            .chain(routes)
            .filter(|method| decide(method, None) != Decision::Unauthenticated)
            .collect();
        assert_eq!(
            open,
            [
                "/grpc.health.v1.Health/Check",
                "/strata.v1.Identity/Join",
                "GET /healthz"
            ]
        );
    }

    #[test]
    fn a_viewer_reads_and_no_more() {
        let seen: BTreeSet<_> = grpc_methods()
            .filter(|method| allowed(method).contains(&Role::Viewer))
            .collect();
        let reads = [
            "/cnct.kaas.api.Cluster/GetClusterList",
            "/cnct.kaas.api.Cluster/GetClusterNodesStatus",
            "/cnct.kaas.api.Cluster/GetUpgradeClusterInformation",
            "/cnct.kaas.api.Cluster/GetVersionInformation",
            "/grpc.health.v1.Health/Check",
            "/grpc.health.v1.Health/Watch",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            "/observe.Observe/GetAuraeDaemonLogStream",
            "/observe.Observe/GetSubProcessStream",
            "/operations.v1.OperationsService/ListHypervisors",
            "/runtime.Instances/Get",
            "/runtime.Instances/List",
            "/runtime.Instances/Logs",
            "/runtime.Instances/Stats",
            "/runtime.Instances/Wait",
            "/runtime.Instances/Watch",
            "/runtime.Pods/Get",
            "/runtime.Pods/List",
            "/runtime.Pods/Logs",
            "/runtime.Pods/Stats",
            "/runtime.Pods/Wait",
            "/runtime.Pods/Watch",
            "/runtime.Spawn/Get",
            "/runtime.Spawn/List",
            "/runtime.Spawn/Logs",
            "/strata.v1.Cells/Get",
            "/strata.v1.Cells/List",
            "/strata.v1.Cells/Wait",
            "/strata.v1.Cells/Watch",
            "/strata.v1.Identity/Join",
            "/strata.v1.Identity/RenewCertificate",
            "/strata.v1.Identity/WhoAmI",
            "/strata.v1.Images/Get",
            "/strata.v1.Images/List",
            "/strata.v1.Instances/Logs",
            "/strata.v1.Logs/Read",
            "/strata.v1.Node/GetInfo",
            "/strata.v1.Volumes/Get",
            "/strata.v1.Volumes/List",
        ];
        assert_eq!(seen, BTreeSet::from(reads));
    }

    #[test]
    fn a_kubeconfig_is_a_credential_and_not_for_viewers() {
        let operators = [Role::Admin, Role::Operator];
        assert_eq!(allowed("/cnct.kaas.api.Cluster/GetCluster"), operators);
        assert_eq!(allowed("GET /api/v1/cluster"), operators);
    }

    #[test]
    fn an_operator_keeps_off_identities_and_whole_machines() {
        for method in [
            "/strata.v1.Identity/IssueCertificate",
            "/strata.v1.Identity/CreateToken",
            "/strata.v1.Identity/ListTokens",
            "/strata.v1.Identity/RevokeToken",
            "/strata.v1.Node/PowerOff",
            "/operations.v1.OperationsService/CreateHypervisor",
            "/operations.v1.OperationsService/DestroyHypervisor",
            "/operations.v1.OperationsService/ShrinkStorage",
        ] {
            assert_eq!(allowed(method), [Role::Admin], "{method}");
        }
        let operators = [Role::Admin, Role::Operator];
        assert_eq!(allowed("/runtime.CellService/Start"), operators);
    }

    #[test]
    fn a_node_speaks_of_itself_and_starts_nothing() {
        let nodes = [Role::Admin, Role::Node];
        assert_eq!(allowed("/scheduler.NodeService/Register"), nodes);
        assert_eq!(allowed("/controller.SchedulerService/setNodeStatus"), nodes);
        for method in [
            "/runtime.CellService/Start",
            "/scheduler.InstanceService/Create",
            "/strata.v1.Identity/IssueCertificate",
            "/observe.Observe/GetSubProcessStream",
            "GET /instance/x/logs",
            "GET /node",
        ] {
            assert!(!allowed(method).contains(&Role::Node), "{method}");
        }
    }

    #[test]
    fn whoever_is_limited_to_projects_reaches_only_what_looks_at_them() {
        let mut limited = caller(Role::Operator);
        limited.projects = Some(vec!["shop".parse().unwrap()]);
        let may = |method: &str| decide(method, Some(&limited)) == Decision::Allow;
        for method in [
            "/scheduler.InstanceService/Create",
            "/strata.v1.Instances/Exec",
            "PUT /instance/",
            "GET /instance/x/placement",
            "GET /workload",
            "GET /event/",
        ] {
            assert!(may(method), "{method}");
        }
        for method in [
            "/runtime.Pods/Exec",
            "/runtime.CellService/Start",
            "/strata.v1.Images/Pull",
            "/cnct.kaas.api.Cluster/CreateCluster",
            "GET /metrics",
            "GET /node/",
            "GET /operation",
        ] {
            assert!(!may(method), "{method}");
        }
    }

    #[test]
    fn what_is_not_listed_is_denied_to_all() {
        for method in [
            "",
            "/",
            "/runtime.CellService/start",
            "/runtime.CellService/Start/",
            "//runtime.CellService/Start",
            "POST /runtime.CellService/Start",
            "/metrics",
            "POST /metrics",
            "GET //metrics",
            "GET /instance/a/b",
            "GET /instance/a/exec/x",
            "CONNECT /healthz",
        ] {
            assert_eq!(
                decide(method, Some(&caller(Role::Admin))),
                Decision::Denied,
                "{method}"
            );
            assert_eq!(decide(method, None), Decision::Denied, "{method}");
        }
    }

    #[test]
    fn routes_match_with_and_without_the_last_slash() {
        let all = [Role::Admin, Role::Operator, Role::Viewer];
        for method in [
            "GET /workload",
            "GET /workload/",
            "HEAD /workload/x",
            "GET /workload/x/",
        ] {
            assert_eq!(allowed(method), all, "{method}");
        }
        assert_eq!(allowed("DELETE /instance/x"), [Role::Admin, Role::Operator]);
        assert_eq!(
            allowed("POST /instance/x/exec"),
            [Role::Admin, Role::Operator]
        );
    }

    proptest! {
        #[test]
        fn no_text_of_any_kind_opens_a_door(method in "(GET |PUT |/)?[ -~]{0,40}") {
            prop_assume!(access(&method).is_none());
            prop_assert_eq!(decide(&method, Some(&caller(Role::Admin))), Decision::Denied);
        }
    }
}

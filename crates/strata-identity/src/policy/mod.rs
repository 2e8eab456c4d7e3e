//! The authorization policy, consulted for every request before any handler:
//! the table of gRPC calls, and the HTTP routes that a daemon declares with
//! their handlers. A call that is in neither is rejected, so a missing line is
//! noticed at once and never opens a hole.
//!
//! A call is named by its gRPC path (`/runtime.CellService/Start`) or by its
//! HTTP method and path (`GET /metrics`). Which *objects* a role may touch (a
//! node reports itself alone) is for the handler, which has the caller.

mod table;

use strata_types::Role;

use crate::Caller;
use table::GRPC;
pub use table::{ADMIN, ANYONE, Access, NAMED, NODE, OPERATE, READ};

/// Decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The caller may call.
    Allow,
    /// The caller must authenticate first.
    Unauthenticated,
    /// The caller may not call, or no caller may.
    Denied,
}

/// A route of HTTP, and who may call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    pub method: &'static str,
    /// `/instance/{id}`: `{…}` stands for any one segment.
    pub path: &'static str,
    pub access: Access,
    /// A caller who is limited to some projects may call it: its handler
    /// checks the project of what it touches, or touches nothing of any.
    pub in_projects: bool,
}

impl HttpRoute {
    /// Of callers who are limited to no project.
    pub const fn new(method: &'static str, path: &'static str, access: Access) -> Self {
        Self {
            method,
            path,
            access,
            in_projects: false,
        }
    }

    /// Also of callers who are limited to some projects.
    #[must_use]
    pub const fn in_projects(mut self) -> Self {
        self.in_projects = true;
        self
    }
}

/// The policy of a daemon: the gRPC calls of the table, and the HTTP routes
/// that the daemon declares. Of a daemon that declares none, none can be called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    http: &'static [HttpRoute],
}

impl Policy {
    /// With these HTTP routes.
    pub const fn new(http: &'static [HttpRoute]) -> Self {
        Self { http }
    }

    /// Whether `caller` may call `method`: a gRPC path, or an HTTP method and
    /// path with a space between.
    pub fn decide(&self, method: &str, caller: Option<&Caller>) -> Decision {
        match (self.access(method), caller) {
            (None, _) => Decision::Denied,
            (Some(Access::Anyone), _) => Decision::Allow,
            (Some(Access::Roles(_)), None) => Decision::Unauthenticated,
            // Handlers of these check the project; others know of none.
            (Some(Access::Roles(_)), Some(caller))
                if caller.projects.is_some() && !self.is_about_projects(method) =>
            {
                Decision::Denied
            }
            (Some(Access::Roles(roles)), Some(caller)) if roles.contains(&caller.role) => {
                Decision::Allow
            }
            (Some(Access::Roles(_)), Some(_)) => Decision::Denied,
        }
    }

    /// The roles that may call `method`; `None` when nothing is known of it.
    pub fn access(&self, method: &str) -> Option<Access> {
        if method.starts_with('/') {
            let entry = GRPC.iter().find(|(path, _)| *path == method);
            return entry.map(|(_, access)| *access);
        }
        self.http_route(method).map(|route| route.access)
    }

    /// The route that an HTTP method and path fit.
    pub fn http_route(&self, method: &str) -> Option<&'static HttpRoute> {
        let (verb, path) = method.split_once(' ')?;
        // A caller that may read may also check whether there is something to
        // read.
        let verb = if verb == "HEAD" { "GET" } else { verb };
        self.http
            .iter()
            .find(|route| route.method == verb && fits(route.path, path))
    }

    fn is_about_projects(&self, method: &str) -> bool {
        match self.http_route(method) {
            Some(route) => route.in_projects,
            None => table::is_about_projects(method),
        }
    }

    /// Whether a call that is allowed belongs into the audit log: it changes
    /// something, or hands out a secret. What nodes report all the time does not.
    pub fn is_audited(&self, method: &str) -> bool {
        const REPORTS: [&str; 3] = [
            "/controller.SchedulerService/setNodeStatus",
            "/controller.SchedulerService/setInstanceStatus",
            "/scheduler.NodeService/Status",
        ];
        const MULTI_OBJECT_CALLS: [&str; 2] = [
            "/strata.v1.Identity/Join",
            "/strata.v1.Identity/RenewCertificate",
        ];
        if REPORTS.contains(&method) {
            return false;
        }
        let verb = method.split_once(' ').map(|(verb, _)| verb);
        let reads = matches!(verb, Some("GET" | "HEAD"));
        match self.access(method) {
            // Whatever a viewer may not do changes something or shows a secret.
            Some(Access::Roles(roles)) if !roles.contains(&Role::Viewer) => true,
            Some(Access::Roles(_)) if verb.is_some() => !reads,
            Some(_) => MULTI_OBJECT_CALLS.contains(&method),
            None => false,
        }
    }

    /// HTTP methods allowed on a path.
    pub fn verbs(&self, path: &str) -> Vec<&'static str> {
        // As on the routes themselves, a path that is listed by its name is not
        // one of those that a pattern stands for.
        let bare = path.strip_suffix('/').unwrap_or(path);
        let named = self.http.iter().any(|route| route.path == bare);
        self.http
            .iter()
            .filter(|route| match named {
                true => route.path == bare,
                false => fits(route.path, path),
            })
            .map(|route| route.method)
            .collect()
    }

    /// The HTTP routes that the daemon declares.
    pub fn http_routes(&self) -> &'static [HttpRoute] {
        self.http
    }
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

    const POLICY: Policy = Policy::new(&[
        HttpRoute::new("GET", "/healthz", ANYONE),
        HttpRoute::new("GET", "/metrics", READ),
        HttpRoute::new("PUT", "/instance", OPERATE).in_projects(),
        HttpRoute::new("GET", "/instance/{id}", NAMED).in_projects(),
        HttpRoute::new("DELETE", "/instance/{id}", OPERATE).in_projects(),
        HttpRoute::new("POST", "/instance/{id}/exec", OPERATE).in_projects(),
        HttpRoute::new("GET", "/instance/{id}/placement", READ).in_projects(),
        HttpRoute::new("GET", "/workload", READ).in_projects(),
        HttpRoute::new("GET", "/workload/{id}", READ).in_projects(),
        HttpRoute::new("GET", "/node", READ),
        HttpRoute::new("GET", "/machine/{id}/console", OPERATE),
        HttpRoute::new("POST", "/cluster/{id}/kubeconfig", READ),
    ]);

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
        let may = |role: &Role| POLICY.decide(method, Some(&caller(*role))) == Decision::Allow;
        Role::ALL.into_iter().filter(may).collect()
    }

    #[test]
    fn changing_calls_are_audited_and_reads_are_not() {
        for method in [
            "/runtime.CellService/Start",
            "/runtime.Pods/Exec",
            "/strata.v1.Identity/CreateToken",
            "/strata.v1.Identity/Join",
            "/cnct.kaas.api.Cluster/GetCluster",
            "/schedule.Assignments/Follow",
            "PUT /instance",
            "DELETE /instance/x/",
            "GET /machine/x/console",
            "HEAD /machine/x/console",
            "POST /cluster/x/kubeconfig",
        ] {
            assert!(POLICY.is_audited(method), "{method}");
        }
        for method in [
            "/strata.v1.Cells/List",
            "/scheduler.NodeService/Status",
            "/strata.v1.Identity/WhoAmI",
            "/no.such/Call",
            "GET /nothing",
            "PUT /nothing",
            "GET /healthz",
            "GET /instance/x",
            "HEAD /workload",
        ] {
            assert!(!POLICY.is_audited(method), "{method}");
        }
    }

    #[test]
    fn every_entry_is_there_once() {
        let paths: Vec<_> = grpc_methods().collect();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
    }

    #[test]
    fn the_admin_may_call_everything_there_is() {
        for method in grpc_methods() {
            assert!(allowed(method).contains(&Role::Admin), "{method}");
        }
    }

    #[test]
    fn unauthenticated_callers_may_only_join_and_check_health() {
        let open: Vec<&str> = grpc_methods()
            .filter(|method| POLICY.decide(method, None) != Decision::Unauthenticated)
            .collect();
        assert_eq!(
            open,
            ["/grpc.health.v1.Health/Check", "/strata.v1.Identity/Join"]
        );
        assert_eq!(POLICY.decide("GET /healthz", None), Decision::Allow);
        assert_eq!(
            POLICY.decide("GET /metrics", None),
            Decision::Unauthenticated
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
            "GET /instance/x/placement",
            "GET /node",
        ] {
            assert!(!allowed(method).contains(&Role::Node), "{method}");
        }
    }

    #[test]
    fn project_tokens_reach_only_project_scoped_calls() {
        let mut limited = caller(Role::Operator);
        limited.projects = Some(vec!["shop".parse().unwrap()]);
        let may = |method: &str| POLICY.decide(method, Some(&limited)) == Decision::Allow;
        for method in [
            "/scheduler.InstanceService/Create",
            "/strata.v1.Instances/Exec",
            "PUT /instance/",
            "GET /instance/x/placement",
            "GET /workload",
            "HEAD /workload/x",
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
        ] {
            assert!(!may(method), "{method}");
        }
    }

    #[test]
    fn unlisted_method_is_denied_to_all() {
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
                POLICY.decide(method, Some(&caller(Role::Admin))),
                Decision::Denied,
                "{method}"
            );
            assert_eq!(POLICY.decide(method, None), Decision::Denied, "{method}");
        }
    }

    #[test]
    fn a_daemon_without_routes_serves_no_http() {
        let admin = caller(Role::Admin);
        for method in ["GET /healthz", "GET /instance/x", "PUT /instance"] {
            let decision = Policy::default().decide(method, Some(&admin));
            assert_eq!(decision, Decision::Denied, "{method}");
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
            prop_assume!(POLICY.access(&method).is_none());
            prop_assert_eq!(POLICY.decide(&method, Some(&caller(Role::Admin))), Decision::Denied);
        }
    }
}

//! The policy that follows from the declarations of the routes: who may call
//! what, and what is audited.

use std::collections::BTreeSet;

use strata_identity::policy::{Decision, HttpRoute};
use strata_server::api::policy;
use strata_types::Role;

use crate::world::caller;

fn call(rule: &HttpRoute) -> String {
    format!("{} {}", rule.method, rule.path)
}

/// The calls of which this holds, sorted.
fn calls(holds: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let all = policy().http_routes().iter().map(call);
    all.filter(|call| holds(call)).collect()
}

fn may(role: Role, call: &str) -> bool {
    policy().decide(call, Some(&caller(role))) == Decision::Allow
}

#[test]
fn every_route_is_there_once() {
    let rules = policy().http_routes();
    assert!(rules.len() > 100);
    assert_eq!(calls(|_| true).len(), rules.len());
    for rule in rules {
        let found = policy().http_route(&call(rule)).unwrap();
        assert_eq!(found, rule, "another route hides it");
    }
}

#[test]
fn the_admin_may_call_everything_there_is() {
    assert_eq!(calls(|call| !may(Role::Admin, call)), BTreeSet::new());
}

#[test]
fn unauthenticated_callers_may_only_check_health() {
    let open = calls(|call| policy().decide(call, None) != Decision::Unauthenticated);
    assert_eq!(open, ["GET /healthz".to_owned()].into());
}

#[test]
fn a_node_reads_its_own_and_no_more() {
    let seen = calls(|call| may(Role::Node, call));
    let reads = [
        "GET /healthz",
        "GET /instance",
        "GET /instance/{id}",
        "GET /node/{id}",
        "GET /version",
    ];
    assert_eq!(seen, reads.map(str::to_owned).into());
}

#[test]
fn a_viewer_changes_nothing() {
    let changed = calls(|call| may(Role::Viewer, call) && !call.starts_with("GET "));
    // Its kubeconfig has that role in the cluster, too.
    let own = [
        "DELETE /cluster/{id}/kubeconfig",
        "POST /cluster/{id}/kubeconfig",
    ];
    assert_eq!(changed, own.map(str::to_owned).into());
    assert!(!may(Role::Viewer, "GET /api/v1/cluster"), "a kubeconfig");
}

#[test]
fn an_operator_keeps_off_identities_and_whole_machines() {
    let refused = calls(|call| !may(Role::Operator, call));
    for path in ["/audit", "/ca", "/certificate", "/unreadable-record"] {
        let below = calls(|call| call.split_once(' ').unwrap().1.starts_with(path));
        assert!(!below.is_empty() && refused.is_superset(&below), "{path}");
    }
    for call in [
        "PUT /machine",
        "POST /machine/{id}/power",
        "POST /hypervisor/{id}/create",
        "POST /hypervisor/{id}/destroy",
        "POST /storage/shrink",
        "POST /backup/{id}/restore",
        "PATCH /project/{id}",
        "DELETE /node/{id}",
    ] {
        assert!(refused.contains(call), "{call}");
    }
}

#[test]
fn project_tokens_reach_only_what_is_in_projects() {
    let mut limited = caller(Role::Operator);
    limited.projects = Some(vec!["shop".parse().unwrap()]);
    let reached = calls(|call| policy().decide(call, Some(&limited)) == Decision::Allow);
    let in_projects = ["/instance", "/workload", "/secret", "/event"];
    let expected = calls(|call| {
        let (_, path) = call.split_once(' ').unwrap();
        in_projects.iter().any(|noun| path.starts_with(noun))
            || call.starts_with("GET /project")
            || ["GET /healthz", "GET /version", "GET /openapi.json"].contains(&call)
    });
    assert_eq!(reached, expected);
}

#[test]
fn changing_calls_are_audited_and_reads_are_not() {
    let audited = calls(|call| policy().is_audited(call));
    let expected = calls(|call| {
        let (verb, path) = call.split_once(' ').unwrap();
        let secret = call == "GET /api/v1/cluster"
            || path.starts_with("/certificate")
            || ["/audit", "/ca", "/unreadable-record"].contains(&path);
        verb != "GET" || path.ends_with("/console") || secret
    });
    assert_eq!(audited, expected);
}

//! The REST API: the published one of instances and workloads, and ours
//! beside it in the same style. One file per resource; what all of
//! them need (reading requests, tags, keys for repeated requests, watching)
//! each has its own.
//!
//! Every path works with and without a slash at the end. Who may call was
//! decided by the auth layer; what a caller may see and change is for the core.

mod answer;
mod audit;
mod backups;
mod ca;
mod certificates;
mod clusters;
mod etag;
mod events;
mod extract;
mod freshness;
mod gateway;
mod hypervisors;
mod idempotency;
mod instances;
mod json;
mod machines;
mod nodes;
mod openapi;
mod operations;
mod patch;
mod projects;
mod rejection;
pub(super) mod route;
mod secrets;
mod session;
mod storage;
mod unreadable;
mod view;
mod watch;
mod workloads;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use strata_audit::AuditLog;
use strata_identity::Ca;
use strata_identity::policy::{Access, HttpRoute, READ};
use strata_workflow::Operations;
use tokio_util::sync::CancellationToken;

use crate::api::grpc::NodeInstancesApi;
use crate::core::Core;
use crate::operations::Backends;
use crate::placement::PlacementHandle;
pub use gateway::gateway;
pub use openapi::document;
use route::{Noun, Route};

/// What the routes work on. Cheap to clone.
#[derive(Clone)]
pub struct RestState {
    /// The rules and the records.
    pub core: Core,
    /// Explains itself.
    pub placement: PlacementHandle,
    /// Long actions.
    pub operations: Operations,
    /// What they work on.
    pub backends: Backends,
    /// The way into instances.
    pub session: NodeInstancesApi,
    /// The end of the server, which ends watches.
    pub shutdown: CancellationToken,
    /// A watch is ended after so long; a client that still wants it requests it
    /// again.
    pub longest_watch: Duration,
    /// The audit log of this server.
    pub audit: Option<Arc<AuditLog>>,
    /// The CA of this server.
    pub ca: Option<Arc<Ca>>,
}

impl RestState {
    /// A watch may last so long by default.
    pub const MAX_WATCH: Duration = Duration::from_secs(3600);

    /// Over this core, until `shutdown`.
    pub fn new(
        core: Core,
        placement: PlacementHandle,
        operations: Operations,
        backends: Backends,
        session: NodeInstancesApi,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            core,
            placement,
            operations,
            backends,
            session,
            shutdown,
            longest_watch: Self::MAX_WATCH,
            audit: None,
            ca: None,
        }
    }

    /// With this CA to be rotated.
    #[must_use]
    pub fn with_ca(mut self, ca: Option<Arc<Ca>>) -> Self {
        self.ca = ca;
        self
    }

    /// With this audit log to be read.
    #[must_use]
    pub fn with_audit(mut self, log: Option<Arc<AuditLog>>) -> Self {
        self.audit = log;
        self
    }
}

/// The routes of the REST API.
pub fn routes(state: RestState) -> Router {
    let once = axum::middleware::from_fn_with_state(state.clone(), idempotency::once);
    let bound = axum::middleware::from_fn_with_state(state.clone(), freshness::bound);
    route::router(all_routes())
        .method_not_allowed_fallback(rejection::wrong_method)
        .route_layer(once)
        .route_layer(bound)
        .with_state(state)
}

/// The same without what is done for every request.
fn plain_routes(state: RestState) -> Router {
    route::router(all_routes()).with_state(state)
}

/// The routes of every noun, in the order of the document.
fn nouns() -> Vec<Noun> {
    vec![
        instances::routes(),
        workloads::routes(),
        nodes::routes(),
        operations::routes(),
        projects::routes(),
        machines::routes(),
        hypervisors::routes(),
        storage::routes(),
        backups::routes(),
        clusters::routes(),
        secrets::routes(),
        audit::routes(),
        ca::routes(),
        certificates::routes(),
        events::routes(),
        unreadable::routes(),
    ]
}

fn all_routes() -> impl Iterator<Item = Route> {
    let document = route::get("/openapi.json", READ, openapi::serve).in_projects();
    let nouns = nouns().into_iter().flat_map(|noun| noun.routes);
    nouns.chain([document])
}

/// Who may begin an operation of this kind; none where no route begins one.
fn access_to_start(kind: &str) -> Option<Access> {
    static KINDS: LazyLock<BTreeMap<&str, Access>> = LazyLock::new(|| {
        let starts = |route: Route| Some((route.started_kind()?, route.rule.access));
        all_routes().filter_map(starts).collect()
    });
    KINDS.get(kind).copied()
}

/// The rows of the policy for these routes and those of the gateway.
pub(super) fn rules() -> impl Iterator<Item = HttpRoute> {
    let gateway = gateway::routes().into_iter().map(|route| route.rule);
    all_routes().map(|route| route.rule).chain(gateway)
}

#[cfg(test)]
mod tests {
    use strata_identity::policy::{ADMIN, OPERATE};

    use super::*;

    #[test]
    fn operations_are_cancelled_by_those_who_may_begin_them() {
        for kind in [
            "hypervisor-create",
            "hypervisor-destroy",
            "machine-power",
            "storage-shrink",
            "storage-expand",
            "storage-replace",
            "backup-restore",
            "backup-prune",
        ] {
            assert_eq!(access_to_start(kind), Some(ADMIN), "{kind}");
        }
        for kind in [
            "backup-create",
            "cluster-create",
            "node-drain",
            "storage-scrub",
        ] {
            assert_eq!(access_to_start(kind), Some(OPERATE), "{kind}");
        }
        for kind in ["cluster-heal", "cluster-renew", "of-a-later-version"] {
            assert_eq!(access_to_start(kind), None, "{kind}");
        }
    }

    #[test]
    fn routes_that_begin_one_kind_of_operation_have_one_access() {
        for route in all_routes() {
            if let Some(kind) = route.started_kind() {
                let access = route.rule.access;
                assert_eq!(access_to_start(kind), Some(access), "{}", route.name);
            }
        }
    }
}

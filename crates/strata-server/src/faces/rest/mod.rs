//! The REST API: the published one of instances and workloads, and ours
//! beside it in the same style. One file for each kind of thing; what all of
//! them need (reading requests, tags, keys for repeated requests, watching)
//! each has its own.
//!
//! Every path works with and without a slash at the end. Who may call was
//! decided at the gate; what a caller may see and change is for the core.

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
mod refusal;
mod secrets;
mod storage;
mod talk;
mod unreadable;
mod view;
mod watch;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{MethodRouter, delete, get, patch as patch_of, post, put};
use strata_audit::AuditLog;
use strata_identity::Authority;
use strata_workflow::Operations;
use tokio_util::sync::CancellationToken;

use crate::core::Core;
use crate::faces::InstancesFace;
use crate::operations::Estate;
use crate::placement::PlacementHandle;
pub use gateway::gateway;
pub use openapi::document;

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
    pub estate: Estate,
    /// The way into instances.
    pub talk: InstancesFace,
    /// The end of the server, which ends watches.
    pub shutdown: CancellationToken,
    /// A watch is ended after so long; whoever still wants it asks again.
    pub longest_watch: Duration,
    /// The audit log of this server.
    pub audit: Option<Arc<AuditLog>>,
    /// The CA of this server.
    pub authority: Option<Arc<Authority>>,
}

impl RestState {
    /// A watch may last so long unless told.
    pub const LONGEST_WATCH: Duration = Duration::from_secs(3600);

    /// Over this core, until `shutdown`.
    pub fn new(
        core: Core,
        placement: PlacementHandle,
        operations: Operations,
        estate: Estate,
        talk: InstancesFace,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            core,
            placement,
            operations,
            estate,
            talk,
            shutdown,
            longest_watch: Self::LONGEST_WATCH,
            audit: None,
            authority: None,
        }
    }

    /// With this CA to be rotated.
    #[must_use]
    pub fn with_authority(mut self, authority: Option<Arc<Authority>>) -> Self {
        self.authority = authority;
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
    table()
        .method_not_allowed_fallback(refusal::wrong_method)
        .route_layer(once)
        .route_layer(bound)
        .with_state(state)
}

/// The same without what is done for every request.
fn plain_routes(state: RestState) -> Router {
    table().with_state(state)
}

fn table() -> Router<RestState> {
    let routes = [
        ("/openapi.json", get(openapi::serve)),
        ("/instance", get(instances::list).put(instances::create)),
        (
            "/instance/{id}",
            get(instances::show)
                .patch(instances::update)
                .delete(instances::delete),
        ),
        ("/instance/{id}/placement", get(instances::placement)),
        ("/instance/{id}/logs", get(talk::logs)),
        ("/instance/{id}/exec", post(talk::exec)),
        ("/workload", get(workloads::list).put(workloads::create)),
        (
            "/workload/{id}",
            get(workloads::show)
                .patch(workloads::update)
                .delete(workloads::delete),
        ),
        ("/node", get(nodes::list)),
        (
            "/node/{id}",
            get(nodes::show).patch(nodes::update).delete(nodes::leave),
        ),
        ("/node/{id}/drain", post(operations::drain)),
        ("/node/{id}/adopt", post(nodes::adopt)),
        ("/node/{id}/forget", post(nodes::forget)),
        (
            "/unreadable-record",
            get(unreadable::list).delete(unreadable::delete),
        ),
        ("/operation", get(operations::list)),
        (
            "/operation/{id}",
            get(operations::show).delete(operations::cancel),
        ),
        ("/operation/{id}/log", get(operations::log)),
        ("/project", get(projects::list).put(projects::create)),
        (
            "/project/{id}",
            get(projects::show)
                .patch(projects::update)
                .delete(projects::delete),
        ),
        ("/secret", get(secrets::list).put(secrets::create)),
        (
            "/secret/{id}",
            get(secrets::show)
                .patch(secrets::update)
                .delete(secrets::delete),
        ),
        ("/event", get(events::list)),
        ("/audit", get(audit::list)),
        ("/ca", get(ca::show)),
        ("/ca/rotate", post(ca::rotate)),
        ("/ca/activate", post(ca::activate)),
        ("/ca/retire", post(ca::retire)),
        ("/certificate", get(certificates::list)),
        ("/certificate/revoke", post(certificates::revoke)),
        ("/certificate/{id}", get(certificates::show)),
        ("/machine", get(machines::list).put(machines::add)),
        (
            "/machine/{id}",
            get(machines::show)
                .patch(machines::update)
                .delete(machines::remove),
        ),
        ("/machine/{id}/power", post(machines::power)),
        ("/machine/{id}/console", get(machines::console)),
        ("/hypervisor", get(machines::list)),
        ("/hypervisor/{id}", get(machines::show)),
        ("/hypervisor/{id}/create", post(hypervisors::create)),
        ("/hypervisor/{id}/destroy", post(hypervisors::destroy)),
        ("/hypervisor/{id}/drain", post(hypervisors::drain)),
        (
            "/autoscaling",
            get(hypervisors::autoscaling).patch(hypervisors::set_autoscaling),
        ),
        ("/autoscaling/plan", get(hypervisors::autoscale_plan)),
        ("/storage", get(storage::show)),
        ("/storage/expand", post(storage::expand)),
        ("/storage/shrink", post(storage::shrink)),
        ("/storage/scrub", post(storage::scrub)),
        ("/storage/device", put(storage::add_device)),
        ("/storage/device/{id}", delete(storage::remove_device)),
        (
            "/storage/device/{id}/replace",
            post(storage::replace_device),
        ),
        (
            "/storage/volume",
            get(storage::volumes).put(storage::create_volume),
        ),
        (
            "/storage/volume/{id}",
            get(storage::show_volume)
                .patch(storage::update_volume)
                .delete(storage::remove_volume),
        ),
        (
            "/storage/volume/{id}/snapshot",
            put(storage::snapshot_volume),
        ),
        (
            "/storage/volume/{id}/snapshot/{snapshot}",
            delete(storage::remove_snapshot),
        ),
        ("/backup", get(backups::list).post(backups::create)),
        ("/backup/prune", post(backups::prune)),
        ("/backup/{id}", get(backups::show)),
        ("/backup/{id}/restore", post(backups::restore)),
        ("/backup/{id}/verify", post(backups::verify)),
        (
            "/backup-schedule",
            get(backups::schedules).put(backups::put_schedule),
        ),
        (
            "/backup-schedule/{id}",
            get(backups::show_schedule).delete(backups::remove_schedule),
        ),
        ("/cluster", get(clusters::list).put(clusters::create)),
        (
            "/cluster/{id}",
            get(clusters::show).delete(clusters::delete),
        ),
        ("/cluster/{id}/node", get(clusters::nodes)),
        (
            "/cluster/{id}/pool",
            get(clusters::pools).put(clusters::add_pool),
        ),
        (
            "/cluster/{id}/pool/{pool}",
            patch_of(clusters::scale_pool).delete(clusters::delete_pool),
        ),
        (
            "/cluster/{id}/upgrade",
            get(clusters::upgrade_plan).post(clusters::upgrade),
        ),
        (
            "/cluster/{id}/kubeconfig",
            post(clusters::kubeconfig).delete(clusters::revoke),
        ),
        (
            "/cluster/{id}/snapshot",
            get(clusters::snapshots).post(clusters::snapshot),
        ),
        ("/cluster/{id}/restore", post(clusters::restore)),
        ("/kubernetes", get(clusters::versions)),
    ];
    routes.into_iter().fold(Router::new(), both)
}

/// With and without a slash at the end.
fn both<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    (path, methods): (&'static str, MethodRouter<S>),
) -> Router<S> {
    router
        .route(path, methods.clone())
        .route(&format!("{path}/"), methods)
}

//! `/cluster/` and `/kubernetes`: clusters, their machines and pools, access
//! grants, and what is kept of them. Whatever changes one is an operation.

use axum::extract::State;
use axum::response::IntoResponse as _;
use http::StatusCode;
use serde_json::json;
use strata_api::rest::{
    self, KubeconfigRequest, NewCluster, NodePool, RestoreCluster, ScalePool, UpgradeRequest,
    UpgradeTargets,
};
use strata_identity::policy::{OPERATE, READ};
use strata_types::{Error, ErrorKind};
use strata_workflow::{Kind as _, OperationId};

use super::extract::{Auth, Json, Parameters, ResourceId, SubresourceId};
use super::operations::begun;
use super::rejection::Answer;
use super::route::{self, Noun, Route};
use super::watch::{self, Selection};
use super::{RestState, answer, json};
use crate::core::{Cluster, Page};
use crate::operations::{self, Clusters};

pub(super) fn routes() -> Noun {
    let description = "Kubernetes clusters on machines of the inventory.";
    Noun::new("cluster", description)
        .id("Name of the cluster.")
        .routes(cluster_routes())
        .routes(pool_routes())
        .routes(upkeep_routes())
}

/// The routes of clusters as a whole.
fn cluster_routes() -> [Route; 5] {
    [
        route::get("/cluster", READ, list)
            .named("listClusters", "List clusters")
            .about("All Kubernetes clusters, ordered by name.")
            .returns_watchable_list::<rest::Cluster>(),
        route::put("/cluster", OPERATE, create)
            .named("createCluster", "Create a cluster")
            .about(
                "Starts an operation that allocates machines and installs Kubernetes on \
                    them. With `dryRun`, only returns the plan.",
            )
            .body::<NewCluster>()
            .example(
                json!({ "name": "dev", "version": "1.34", "controlPlane": { "count": 1 },
                "pools": [{ "name": "workers", "count": 2, "labels": { "tier": "web" } }] }),
            )
            .starts(operations::CreateCluster::NAME)
            .returns_plan::<rest::ClusterPlan>()
            .may_be_unavailable(),
        route::get("/cluster/{id}", READ, show)
            .named("getCluster", "Get a cluster")
            .about("Specification, version and observed state of one cluster.")
            .returns_watchable::<rest::Cluster>(),
        route::delete("/cluster/{id}", OPERATE, delete)
            .named("deleteCluster", "Delete a cluster")
            .about(
                "Starts an operation that deletes the cluster with everything that runs in \
                    it and releases its machines.",
            )
            .starts(operations::DeleteCluster::NAME),
        route::get("/cluster/{id}/node", READ, nodes)
            .named("listClusterNodes", "List the nodes of a cluster")
            .about("The machines of the cluster and the Kubernetes nodes on them.")
            .returns_list::<rest::ClusterNode>(),
    ]
}

/// The routes of node pools.
fn pool_routes() -> [Route; 4] {
    [
        route::get("/cluster/{id}/pool", READ, pools)
            .named("listPools", "List the node pools of a cluster")
            .about("All node pools with their desired and observed sizes.")
            .returns_list::<rest::PoolStatus>(),
        route::put("/cluster/{id}/pool", OPERATE, add_pool)
            .named("addPool", "Add a node pool to a cluster")
            .about("Starts an operation that allocates machines and joins them to the cluster.")
            .body::<NodePool>()
            .starts(operations::ScaleCluster::NAME)
            .may_be_unavailable(),
        route::patch("/cluster/{id}/pool/{pool}", OPERATE, scale_pool)
            .named("scalePool", "Scale a node pool")
            .about(
                "Starts an operation that adds or removes machines until the pool has the \
                    requested number. With `dryRun`, only returns the plan.",
            )
            .part("pool", "Name of the node pool.")
            .body_as("ScalePoolPatch")
            .starts(operations::ScaleCluster::NAME)
            .returns_plan::<rest::ClusterPlan>()
            .may_be_unavailable(),
        route::delete("/cluster/{id}/pool/{pool}", OPERATE, delete_pool)
            .named("deletePool", "Delete a node pool")
            .about(
                "Starts an operation that drains and removes the nodes of the pool and \
                    releases its machines.",
            )
            .part("pool", "Name of the node pool.")
            .starts(operations::ScaleCluster::NAME),
    ]
}

/// The routes of upgrades, access grants and snapshots.
fn upkeep_routes() -> [Route; 8] {
    [
        route::get("/cluster/{id}/upgrade", READ, upgrade_plan)
            .named("planUpgrade", "List upgrade targets or preview an upgrade")
            .about(
                "Without `version`, the versions the cluster can be upgraded to; with it, \
                    the steps of that upgrade.",
            )
            .parameters(&["version"])
            .returns_either::<UpgradeTargets, rest::UpgradePlan>()
            .requires_running(),
        route::post("/cluster/{id}/upgrade", OPERATE, upgrade)
            .named("upgradeCluster", "Upgrade a cluster")
            .about(
                "Starts an operation that upgrades the cluster to a Kubernetes version, one \
                    node at a time.",
            )
            .body::<UpgradeRequest>()
            .starts(operations::UpgradeCluster::NAME),
        route::post("/cluster/{id}/kubeconfig", READ, kubeconfig)
            .named("createKubeconfig", "Create a kubeconfig")
            .about("Issues credentials for the cluster that expire after the requested time.")
            .body::<KubeconfigRequest>()
            .returns::<rest::Kubeconfig>()
            .requires_running()
            .repeats(),
        route::delete("/cluster/{id}/kubeconfig", READ, revoke)
            .named("revokeKubeconfig", "Revoke a user's kubeconfigs")
            .about(
                "All credentials issued to this user for the cluster are rejected from now \
                    on.",
            )
            .parameters(&["user"])
            .returns_no_content()
            .requires_running()
            .repeats(),
        route::get("/cluster/{id}/snapshot", READ, snapshots)
            .named("listClusterSnapshots", "List the snapshots of a cluster")
            .about("Snapshots of the cluster's etcd, oldest first.")
            .returns_list::<rest::ClusterSnapshot>(),
        route::post("/cluster/{id}/snapshot", OPERATE, snapshot)
            .named("snapshotCluster", "Create a snapshot of a cluster")
            .about("Starts an operation that saves the state of the cluster's etcd.")
            .starts(operations::SnapshotCluster::NAME),
        route::post("/cluster/{id}/restore", OPERATE, restore)
            .named("restoreCluster", "Restore a cluster from a snapshot")
            .about(
                "Starts an operation that restores the state of the cluster from a snapshot \
                    of its etcd.",
            )
            .body::<RestoreCluster>()
            .starts(operations::RestoreCluster::NAME),
        route::get("/kubernetes", READ, versions)
            .named("listKubernetesVersions", "List Kubernetes versions")
            .about("The Kubernetes versions that this server can install.")
            .returns_pages::<rest::KubernetesBundle>(),
    ]
}

async fn list(State(state): State<RestState>, Auth(_): Auth, parameters: Parameters) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "watch"])?;
    let (limit, offset) = parameters.pagination()?;
    let clusters = state.backends.clusters.clone();
    if parameters.flag("watch")? {
        return Ok(watch::follow(&state, watched(&clusters)));
    }
    let page = Page::of(clusters.list().into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

/// Makes one; or only reports which machines it would be made of.
async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["dryRun"])?;
    let asked: NewCluster = json::parse(&body)?;
    let (name, version) = (&asked.name, &asked.version);
    let clusters = &state.backends.clusters;
    if parameters.flag("dryRun")? {
        let (control, pools) = (&asked.control_plane, &asked.pools);
        let plan = clusters.plan_create(&principal, name, version, control, pools);
        return answer::json(&plan.map_err(of_cluster)?);
    }
    let made = clusters.create(&principal, name, version, asked.control_plane, asked.pools);
    begun(&state, made.await.map_err(of_cluster)?).await
}

async fn show(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["watch"])?;
    let clusters = state.backends.clusters.clone();
    let found = clusters.get(&name)?;
    if parameters.flag("watch")? {
        let name = state.core.cluster(&name)?.name.clone();
        return Ok(watch::follow(&state, watched(&clusters).only(name)));
    }
    answer::json(&found)
}

/// Deletes it with all that runs in it.
async fn delete(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    // As every route here: what is gone is not found.
    drop(state.core.cluster(&name)?);
    let id = state.backends.clusters.delete(&principal, &name).await?;
    begun(&state, id).await
}

/// Its machines.
async fn nodes(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let nodes = state.backends.clusters.nodes(&name)?;
    answer::list(nodes.len(), nodes.into_iter())
}

async fn pools(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let pools = state.backends.clusters.pools(&name)?;
    answer::list(pools.len(), pools.into_iter())
}

async fn add_pool(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let pool: NodePool = json::parse(&body)?;
    let added = state
        .backends
        .clusters
        .add_pools(&principal, &name, vec![pool]);
    begun(&state, added.await.map_err(of_pool)?).await
}

/// Gives a pool so many machines; or only reports which would come and go.
async fn scale_pool(
    State(state): State<RestState>,
    Auth(principal): Auth,
    SubresourceId(name, pool): SubresourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["dryRun"])?;
    let asked: ScalePool = json::parse(&body)?;
    let sizes = vec![(pool, asked.count)];
    let clusters = &state.backends.clusters;
    if parameters.flag("dryRun")? {
        let plan = clusters.plan_scale(&name, &sizes).await;
        return answer::json(&plan.map_err(of_pool)?);
    }
    let scaled = clusters.scale_pools(&principal, &name, sizes);
    begun(&state, scaled.await.map_err(of_pool)?).await
}

async fn delete_pool(
    State(state): State<RestState>,
    Auth(principal): Auth,
    SubresourceId(name, pool): SubresourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let gone = state
        .backends
        .clusters
        .delete_pools(&principal, &name, vec![pool]);
    begun(&state, gone.await.map_err(of_pool)?).await
}

/// Where it can go; or what going to one version would be.
async fn upgrade_plan(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["version"])?;
    let clusters = &state.backends.clusters;
    if let Some(version) = parameters.text("version")? {
        return answer::json(&clusters.upgrade_plan(&name, version).await?);
    }
    let versions = clusters.upgrade_targets(&name)?;
    let versions = versions.iter().map(ToString::to_string).collect();
    answer::json(&UpgradeTargets { versions })
}

async fn upgrade(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: UpgradeRequest = json::parse(&body)?;
    let clusters = &state.backends.clusters;
    // Nothing would be the newest, which may be far.
    if asked.version.is_empty() {
        return Err(Error::invalid("version", "must not be empty").into());
    }
    let id = clusters.upgrade(&principal, &name, &asked.version).await?;
    begun(&state, id).await
}

/// Lets the caller in.
async fn kubeconfig(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: KubeconfigRequest = json::parse(&body)?;
    let clusters = &state.backends.clusters;
    let made = clusters
        .kubeconfig(&principal, &name, asked.ttl_seconds)
        .await?;
    answer::json(&made)
}

/// Revokes the access of the caller, or of the user that an admin names.
async fn revoke(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["user"])?;
    let user = parameters.name("user")?;
    let clusters = &state.backends.clusters;
    clusters.revoke(&principal, &name, user.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn snapshots(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let all = state.backends.clusters.snapshots(&name)?;
    answer::list(all.len(), all.into_iter())
}

async fn snapshot(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let id = state.backends.clusters.snapshot(&principal, &name).await?;
    begun(&state, id).await
}

async fn restore(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: RestoreCluster = json::parse(&body)?;
    let clusters = &state.backends.clusters;
    let id: OperationId = clusters.restore(&principal, &name, &asked.snapshot).await?;
    begun(&state, id).await
}

/// What can be installed here.
async fn versions(State(state): State<RestState>, Auth(_): Auth, parameters: Parameters) -> Answer {
    parameters.deny_unknown(&["limit", "offset"])?;
    let (limit, offset) = parameters.pagination()?;
    let all = state.backends.clusters.versions();
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

/// The rules name the fields of the published document; here they have names of
/// ours.
fn of_cluster(error: Error) -> Error {
    let field = error.field().unwrap_or_default();
    let ours = field
        .replace("control_plane_nodes", "controlPlane")
        .replace("worker_node_pools", "pools");
    match field.is_empty() {
        true => error,
        false => error.in_field(ours),
    }
}

/// Here there is one pool; which one stands in the path when it is there.
fn of_pool(error: Error) -> Error {
    let field = match error.field() {
        None => return error,
        Some("node_pools" | "worker_node_pools") => "count".to_owned(),
        Some(field) => field.rsplit("].").next().unwrap_or_default().to_owned(),
    };
    if error.kind() != ErrorKind::NotFound {
        return error.in_field(field);
    }
    let bare = Error::not_found(error.message());
    match error.hint() {
        Some(hint) => bare.with_hint(hint),
        None => bare,
    }
}

/// Clusters that are watched.
fn watched(clusters: &Clusters) -> Selection<Cluster> {
    let shown = clusters.clone();
    let core = &clusters.core;
    Selection::of(
        core,
        |_| true,
        move |one| answer::text(&shown.status_report(one)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_of_ours() {
        let field = |error: Error| error.field().map(str::to_owned);
        let bad = |field: &str| Error::invalid(field, "is wrong");
        let told = field(of_cluster(bad("control_plane_nodes.count")));
        assert_eq!(told.as_deref(), Some("controlPlane.count"));
        let told = field(of_cluster(bad("worker_node_pools[2].labels")));
        assert_eq!(told.as_deref(), Some("pools[2].labels"));
        let told = field(of_pool(bad("worker_node_pools[0].name")));
        assert_eq!(told.as_deref(), Some("name"));
        let told = field(of_pool(bad("node_pools")));
        assert_eq!(told.as_deref(), Some("count"));
        let missing = Error::not_found("no such pool").in_field("node_pools[0].name");
        assert_eq!(field(of_pool(missing)), None);
    }
}

//! `/cluster/` and `/kubernetes`: clusters, their machines and pools, who is
//! let in, and what is kept of them. Whatever changes one is an operation.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse as _;
use http::StatusCode;
use strata_api::rest::{
    KubeconfigRequest, NewCluster, NodePool, RestoreCluster, ScalePool, UpgradeRequest,
    UpgradeTargets,
};
use strata_store::Revision;
use strata_types::{Error, ErrorKind};
use strata_workflow::OperationId;

use super::extract::{Asker, Json, Parameters, PartOf, Thing};
use super::operations::begun;
use super::refusal::Answer;
use super::watch::{self, Watched, following};
use super::{RestState, answer, json};
use crate::core::{Changed, Cluster, Kept, Page, Turn};
use crate::operations::Clusters;

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "watch"])?;
    let (limit, offset) = parameters.piece()?;
    let clusters = state.estate.clusters.clone();
    if parameters.flag("watch")? {
        let only = None;
        return Ok(watch::follow(&state, Those { clusters, only }));
    }
    let page = Page::of(clusters.list().into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

/// Makes one; or only tells which machines it would be made of.
pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["dryRun"])?;
    let asked: NewCluster = json::parse(&body)?;
    let (name, version) = (&asked.name, &asked.version);
    let clusters = &state.estate.clusters;
    if parameters.flag("dryRun")? {
        let (control, pools) = (&asked.control_plane, &asked.pools);
        let plan = clusters.plan_create(&who, name, version, control, pools);
        return answer::json(&plan.map_err(of_cluster)?);
    }
    let made = clusters.create(&who, name, version, asked.control_plane, asked.pools);
    begun(&state, made.await.map_err(of_cluster)?).await
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["watch"])?;
    let clusters = state.estate.clusters.clone();
    let found = clusters.get(&name)?;
    if parameters.flag("watch")? {
        let only = Some(name);
        return Ok(watch::follow(&state, Those { clusters, only }));
    }
    answer::json(&found)
}

/// Deletes it with all that runs in it.
pub(super) async fn delete(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    // As every route here: what is gone is not found.
    drop(state.core.cluster(&name)?);
    let id = state.estate.clusters.delete(&who, &name).await?;
    begun(&state, id).await
}

/// Its machines.
pub(super) async fn nodes(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let nodes = state.estate.clusters.nodes(&name)?;
    answer::list(nodes.len(), nodes.into_iter())
}

pub(super) async fn pools(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let pools = state.estate.clusters.pools(&name)?;
    answer::list(pools.len(), pools.into_iter())
}

pub(super) async fn add_pool(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let pool: NodePool = json::parse(&body)?;
    let added = state.estate.clusters.add_pools(&who, &name, vec![pool]);
    begun(&state, added.await.map_err(of_pool)?).await
}

/// Gives a pool so many machines; or only tells which would come and go.
pub(super) async fn scale_pool(
    State(state): State<RestState>,
    Asker(who): Asker,
    PartOf(name, pool): PartOf,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&["dryRun"])?;
    let asked: ScalePool = json::parse(&body)?;
    let sizes = vec![(pool, asked.count)];
    let clusters = &state.estate.clusters;
    if parameters.flag("dryRun")? {
        let plan = clusters.plan_scale(&name, &sizes).await;
        return answer::json(&plan.map_err(of_pool)?);
    }
    let scaled = clusters.scale_pools(&who, &name, sizes);
    begun(&state, scaled.await.map_err(of_pool)?).await
}

pub(super) async fn delete_pool(
    State(state): State<RestState>,
    Asker(who): Asker,
    PartOf(name, pool): PartOf,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let gone = state.estate.clusters.delete_pools(&who, &name, vec![pool]);
    begun(&state, gone.await.map_err(of_pool)?).await
}

/// Where it can go; or what going to one version would be.
pub(super) async fn upgrade_plan(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["version"])?;
    let clusters = &state.estate.clusters;
    if let Some(version) = parameters.text("version")? {
        return answer::json(&clusters.upgrade_plan(&name, version).await?);
    }
    let versions = clusters.upgrade_targets(&name)?;
    let versions = versions.iter().map(ToString::to_string).collect();
    answer::json(&UpgradeTargets { versions })
}

pub(super) async fn upgrade(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: UpgradeRequest = json::parse(&body)?;
    let clusters = &state.estate.clusters;
    // Nothing would be the newest, which may be far.
    if asked.version.is_empty() {
        return Err(Error::invalid("version", "must not be empty").into());
    }
    let id = clusters.upgrade(&who, &name, &asked.version).await?;
    begun(&state, id).await
}

/// Lets the caller in.
pub(super) async fn kubeconfig(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: KubeconfigRequest = json::parse(&body)?;
    let clusters = &state.estate.clusters;
    let made = clusters.kubeconfig(&who, &name, asked.ttl_seconds).await?;
    answer::json(&made)
}

/// Lets the caller, or whom an admin names, out again.
pub(super) async fn revoke(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["user"])?;
    let user = parameters.name("user")?;
    let clusters = &state.estate.clusters;
    clusters.revoke(&who, &name, user.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn snapshots(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let all = state.estate.clusters.snapshots(&name)?;
    answer::list(all.len(), all.into_iter())
}

pub(super) async fn snapshot(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let id = state.estate.clusters.snapshot(&who, &name).await?;
    begun(&state, id).await
}

pub(super) async fn restore(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: RestoreCluster = json::parse(&body)?;
    let clusters = &state.estate.clusters;
    let id: OperationId = clusters.restore(&who, &name, &asked.snapshot).await?;
    begun(&state, id).await
}

/// What can be installed here.
pub(super) async fn versions(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset"])?;
    let (limit, offset) = parameters.piece()?;
    let all = state.estate.clusters.versions();
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter())
}

/// The rules speak of the fields of the published document; here they have
/// names of ours.
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

/// Clusters that are followed.
struct Those {
    clusters: Clusters,
    only: Option<String>,
}

impl Watched for Those {
    type Record = Cluster;

    fn turn(changed: Changed) -> Option<Turn<Cluster>> {
        match changed {
            Changed::Cluster(turn) => Some(turn),
            _ => None,
        }
    }

    fn accepts(&self, one: &Cluster) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only == one.name.as_str())
    }

    fn page(&self, after: Option<&Cluster>, limit: usize) -> Vec<Arc<Kept<Cluster>>> {
        let tables = self.clusters.core.tables();
        let accepted = |one: &&Arc<Kept<Cluster>>| self.accepts(one);
        let rest = following(&tables.clusters, after.map(|one| &one.name));
        rest.filter(accepted).take(limit).cloned().collect()
    }

    fn revision(&self, one: &Cluster) -> Option<Revision> {
        let tables = self.clusters.core.tables();
        tables.clusters.get(&one.name).map(|kept| kept.revision)
    }

    fn tell(&self, kept: &Kept<Cluster>) -> Vec<u8> {
        answer::text(&self.clusters.tell(kept)).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
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

//! Whether a cluster can be built as specified at all.

use std::collections::BTreeSet;

use strata_types::cluster::{ClusterName, ControlPlane, NodePool};
use strata_types::{Error, Result};

use super::labels::check_labels;

/// The most workers of a cluster. Below the number of members that there can
/// be, so that there is room to replace some.
pub const MAX_WORKERS: u32 = 200;
/// The most pools of a cluster.
pub const MAX_POOLS: usize = 64;
/// The longest name of a cluster: others are made out of it.
const MAX_NAME_LENGTH: usize = 40;

/// Observes a whole cluster. The fields in errors are those of the published
/// `CreateClusterMsg`.
pub fn check(name: &str, control_plane: &ControlPlane, pools: &[NodePool]) -> Result<()> {
    let name = ClusterName::from_field("name", name)?;
    if name.as_str().len() > MAX_NAME_LENGTH {
        let why = format!("is longer than {MAX_NAME_LENGTH} characters");
        return Err(Error::invalid("name", why));
    }
    if !matches!(control_plane.count, 1 | 3 | 5) {
        let why = format!(
            "must be 1, 3 or 5, not {}: what steers a cluster decides by majority",
            control_plane.count
        );
        return Err(Error::invalid("control_plane_nodes.count", why));
    }
    check_labels("control_plane_nodes.labels", &control_plane.labels)?;
    check_added(&[], pools)
}

/// Checks pools that are to be added to those that there are. One that is there
/// in the same form was requested again, and is fine.
pub fn check_added(there: &[NodePool], added: &[NodePool]) -> Result<()> {
    let is_new = |pool: &&NodePool| !there.contains(pool);
    if there.len() + added.iter().filter(is_new).count() > MAX_POOLS {
        let why = format!("a cluster has at most {MAX_POOLS} pools");
        return Err(Error::invalid("worker_node_pools", why));
    }
    let mut names = BTreeSet::new();
    for (at, pool) in added.iter().enumerate() {
        let field = |rest: &str| format!("worker_node_pools[{at}].{rest}");
        ClusterName::from_field(&field("name"), &pool.name)?;
        if !names.insert(&pool.name) {
            let why = format!("there are two pools {}", pool.name);
            return Err(Error::invalid(field("name"), why));
        }
        if is_new(&pool) && there.iter().any(|known| known.name == pool.name) {
            let why = format!("there is another pool {} already", pool.name);
            return Err(Error::already_exists(why).in_field(field("name")));
        }
        check_labels(&field("labels"), &pool.labels)?;
        let new = added[..=at].iter().filter(is_new);
        check_count(&field("count"), there.iter().chain(new))?;
    }
    Ok(())
}

/// Observes how many workers there would be.
fn check_count<'a>(field: &str, pools: impl Iterator<Item = &'a NodePool>) -> Result<()> {
    let all: u64 = pools.map(|pool| u64::from(pool.count)).sum();
    match all > u64::from(MAX_WORKERS) {
        true => Err(Error::invalid(
            field,
            format!("there would be {all} workers; a cluster has at most {MAX_WORKERS}"),
        )),
        false => Ok(()),
    }
}

/// Observes pools that are to have another size: `(name, count)` each. The
/// fields in errors are those of the published `ScaleNodePoolMsg`. All or
/// nothing: the pools as they would be, or the first thing that is wrong.
pub fn check_scaled(there: &[NodePool], sizes: &[(String, u32)]) -> Result<Vec<NodePool>> {
    let mut pools = there.to_vec();
    let mut reported = BTreeSet::new();
    for (at, (name, count)) in sizes.iter().enumerate() {
        let field = format!("node_pools[{at}].name");
        let Some(pool) = pools.iter_mut().find(|pool| pool.name == *name) else {
            return Err(no_pool(field, there, name));
        };
        if !reported.insert(name) {
            let why = format!("the pool {name} is named twice");
            return Err(Error::invalid(field, why));
        }
        pool.count = *count;
    }
    // What grows may be paid for by what shrinks in the same request.
    check_count("node_pools", pools.iter())?;
    Ok(pools)
}

fn no_pool(field: String, there: &[NodePool], name: &str) -> Error {
    let name: String = name.chars().take(80).collect();
    let names: Vec<_> = there.iter().map(|pool| pool.name.as_str()).collect();
    let here = match names.is_empty() {
        true => "it has none".into(),
        false => format!("it has {}", names.join(", ")),
    };
    Error::not_found(format!("the cluster has no pool {name:?}; {here}")).in_field(field)
}

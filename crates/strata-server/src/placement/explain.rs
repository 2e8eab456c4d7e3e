//! Why an instance is where it is, for people and for REST.

use std::borrow::Cow;
use std::collections::BTreeMap;

use strata_api::rest::{Placement, PlacementNode};
use strata_scheduler::{Explanation, explain as explain_request};
use strata_types::instance::InstanceId;
use strata_types::{Error, Result};

use super::fleet::FleetCache;
use crate::core::{Core, Instance};

/// An explanation in full, and one for callers limited to projects: that
/// counts nodes instead of naming them.
pub(super) struct Explained {
    pub(super) full: Placement,
    pub(super) limited: Placement,
}

pub(super) fn explain(core: &Core, cache: &mut FleetCache, id: &InstanceId) -> Result<Explained> {
    let record = core.tables().instances.get(id).cloned();
    let record = record.ok_or_else(|| Error::not_found(format!("there is no instance {id}")))?;
    let request = cache
        .request(core, &record)
        .ok_or_else(|| Error::internal("its rules cannot be read"))?;
    let explained = explain_request(&cache.fleet, &request);
    let limited = limited(&record, &explained);
    let best = explained.chosen.map(|(node, _)| cache.node_name(node));
    let mut nodes: Vec<PlacementNode> = explained
        .others
        .iter()
        .map(|(node, reason)| PlacementNode {
            name: cache.node_name(*node),
            chosen: false,
            reason: reason.to_string(),
        })
        .collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some((node, score)) = explained.chosen {
        let reason = match score.preference {
            0 => "it fits, and its free room suits the policy best".to_owned(),
            sum => format!("it fits, and preferences sum up to {sum}"),
        };
        let name = cache.node_name(node);
        let chosen = true;
        nodes.insert(
            0,
            PlacementNode {
                name,
                chosen,
                reason,
            },
        );
    }
    let summary = match (&record.node, &best) {
        (Some(node), Some(best)) if node == best => {
            format!(
                "{} is on {node}, which would be chosen today as well",
                record.name
            )
        }
        (Some(node), Some(best)) => {
            format!(
                "{} is on {node}; if it were placed now, it would go to {best}",
                record.name
            )
        }
        (Some(node), None) => {
            format!(
                "{} is on {node}; if it were placed now, no node would fit",
                record.name
            )
        }
        (None, Some(best)) => format!("{} has no place; {best} fits", record.name),
        (None, None) => format!("{} has no place, and no node fits", record.name),
    };
    // What nodes gave as the reason for a refusal is in the record alone.
    let summary = match record.node.is_none() && !record.description.is_empty() {
        true => format!("{summary}: {}", record.description),
        false => summary,
    };
    let full = Placement {
        node: record.node.clone(),
        best,
        summary,
        nodes,
    };
    Ok(Explained { full, limited })
}

/// The explanation for a caller that is limited to projects: where its own
/// instance is, and how many nodes have which reason against them.
fn limited(record: &Instance, explained: &Explanation) -> Placement {
    let name = &record.name;
    let mut counts: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    for (_, reason) in &explained.others {
        *counts.entry(reason.without_names()).or_default() += 1;
    }
    let mut summary = match (&record.node, explained.chosen) {
        (Some(_), Some(_)) => format!("{name} has a place, and would find one today as well"),
        (Some(_), None) => {
            format!("{name} has a place; if it were placed now, no node would fit")
        }
        (None, Some(_)) => format!("{name} has no place yet; a node fits"),
        (None, None) => format!("{name} has no place, and no node fits"),
    };
    for (reason, nodes) in counts {
        let noun = if nodes == 1 { "node" } else { "nodes" };
        summary.push_str(&format!("; {nodes} {noun}: {reason}"));
    }
    Placement {
        node: record.node.clone(),
        best: None,
        summary,
        nodes: Vec::new(),
    }
}

//! What a node is sent of projects: whose the addresses of other nodes are, and
//! which project may reach which. Its own instances it knows by their
//! assignments.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use strata_api::strata::v1;

use crate::core::{Core, DEFAULT_PROJECT};

/// What this node is sent now.
pub(super) fn projects(core: &Core, node: &str) -> v1::Projects {
    let tables = core.tables();
    let mut all: BTreeMap<String, v1::Project> = BTreeMap::new();
    for project in tables.projects.values() {
        let from = &project.settings.allow_from;
        if !from.is_empty() {
            let allow_from = from.iter().map(ToString::to_string).collect();
            entry(&mut all, project.name.as_str()).allow_from = allow_from;
        }
    }
    let names_default = |one: &v1::Project| {
        one.name == DEFAULT_PROJECT || one.allow_from.iter().any(|from| from == DEFAULT_PROJECT)
    };
    let default_matters = all.values().any(names_default);
    let subscriptions = core.subscriptions();
    let flag = &subscriptions.default_matters;
    flag.store(default_matters, Ordering::Relaxed);
    for instance in tables.instances.values() {
        let elsewhere = instance.node.as_deref().is_some_and(|on| on != node);
        if let Some(address) = instance.address
            && elsewhere
            && (default_matters || instance.project.as_str() != DEFAULT_PROJECT)
        {
            let project = entry(&mut all, instance.project.as_str());
            project.addresses.push(address.to_bits());
        }
    }
    let mut projects: Vec<v1::Project> = all.into_values().collect();
    for project in &mut projects {
        project.addresses.sort_unstable();
    }
    v1::Projects { projects }
}

fn entry<'a>(all: &'a mut BTreeMap<String, v1::Project>, name: &str) -> &'a mut v1::Project {
    all.entry(name.to_owned()).or_insert_with(|| v1::Project {
        name: name.to_owned(),
        ..v1::Project::default()
    })
}

//! The names that a node is sent: what the instances on other nodes are called,
//! while they run. Those of its own it knows by their assignments. After the
//! first time only what changed is sent, so that a change costs each node one
//! line and not the whole list.

use std::collections::HashSet;

use strata_api::strata::v1::{self, server_message::Message};
use strata_types::instance::{InstanceId, InstanceState};

use super::assignment::aliases;
use crate::core::{Core, Instance};

/// Names in one message: some 100 bytes each.
const CHUNK_ENTRIES: usize = 2000;

/// The name that an instance has for other nodes than its own.
fn name(instance: &Instance, node: &str) -> Option<v1::InstanceName> {
    let elsewhere = instance.node.as_deref().is_some_and(|on| on != node);
    let address = instance.address?;
    (elsewhere && instance.state == InstanceState::Running).then(|| v1::InstanceName {
        id: instance.id.to_string(),
        address: address.to_bits(),
        project: instance.project.to_string(),
        names: aliases(instance),
    })
}

/// All names, for a node that begins to follow.
pub(super) fn all_names(core: &Core, node: &str) -> Vec<Message> {
    let tables = core.tables();
    let instances = tables.instances.values();
    let names: Vec<_> = instances.filter_map(|one| name(one, node)).collect();
    let mut parts = in_parts(&names, &[]);
    if let Some(Message::Names(first)) = parts.first_mut() {
        first.complete = true;
    }
    parts
}

/// What became of the names of these.
pub(super) fn changed_names(core: &Core, node: &str, ids: HashSet<InstanceId>) -> Vec<Message> {
    let tables = core.tables();
    let (mut names, mut gone) = (Vec::new(), Vec::new());
    for id in ids {
        match tables.instances.get(&id).and_then(|one| name(one, node)) {
            Some(name) => names.push(name),
            None => gone.push(id.to_string()),
        }
    }
    in_parts(&names, &gone)
}

/// One message at least.
fn in_parts(names: &[v1::InstanceName], gone: &[String]) -> Vec<Message> {
    let count = names.len().max(gone.len()).div_ceil(CHUNK_ENTRIES).max(1);
    let part = |number: usize| {
        let names = names.chunks(CHUNK_ENTRIES).nth(number).unwrap_or_default();
        let gone = gone.chunks(CHUNK_ENTRIES).nth(number).unwrap_or_default();
        Message::Names(v1::InstanceNames {
            complete: false,
            names: names.to_vec(),
            gone: gone.to_vec(),
        })
    };
    (0..count).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_go_in_several_messages() {
        let name = |id: usize| v1::InstanceName {
            id: id.to_string(),
            ..v1::InstanceName::default()
        };
        let names: Vec<_> = (0..CHUNK_ENTRIES + 1).map(name).collect();
        let gone: Vec<String> = vec!["x".into()];
        let parts = in_parts(&names, &gone);
        let sizes = parts.iter().map(|part| match part {
            Message::Names(names) => (names.names.len(), names.gone.len()),
            other => panic!("{other:?}"),
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [(CHUNK_ENTRIES, 1), (1, 0)]);
        assert_eq!(in_parts(&[], &[]).len(), 1);
    }
}

//! Assignments that the disk has lost, as a loss of power does it with a file
//! that was emptied: they are restored from the units, each of which names its
//! owner in its labels. Without its assignment an instance would be bound by no
//! lease, would be started again by its own restart policy, and the server
//! would receive no report of it.

use std::collections::HashSet;
use std::path::Path;

use strata_types::Result;

use super::assigned_spec::{AssignedSpec, GENERATION, INSTANCE};
use super::state::{Assigned, Progress};
use super::store;
use crate::blocking::blocking;

/// A unit that was found after a restart.
pub(crate) struct RecoveredUnit {
    pub(crate) unit_spec: AssignedSpec,
    /// It is to run.
    pub(crate) wanted: bool,
}

/// Writes down what is missing of the assignments of these units.
pub(crate) fn restore(node_dir: &Path, units: Vec<RecoveredUnit>) -> Result<()> {
    let store = store(node_dir)?;
    let assigned = blocking(|| store.assigned());
    let known: HashSet<&str> = assigned.iter().map(|one| one.id.as_str()).collect();
    for missing in units.into_iter().filter_map(assignment) {
        if known.contains(missing.id.as_str()) {
            continue;
        }
        tracing::error!(
            instance = missing.id,
            "assignment lost: rebuilt from its unit"
        );
        blocking(|| store.write(&missing))?;
    }
    Ok(())
}

/// The assignment that a unit is of; none for one that was made on the node.
/// How it was placed is not known any more: it is bound by the lease, and
/// follows whatever the server sends next.
fn assignment(unit: RecoveredUnit) -> Option<Assigned> {
    let labels = match &unit.unit_spec {
        AssignedSpec::Pod(spec) => &spec.labels,
        AssignedSpec::Vm(unit_spec) => &unit_spec.labels,
    };
    let id = labels.get(INSTANCE)?.clone();
    let generation = labels.get(GENERATION)?.parse().ok()?;
    Some(Assigned {
        id,
        generation,
        wanted: unit.wanted,
        starts: 0,
        unit_spec: unit.unit_spec,
        progress: Progress::Started(0),
        has_run: true,
        failure: None,
        superseded: Vec::new(),
        available: false,
        epoch: 0,
        control_plane: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::assigned_spec::tests::pod;
    use super::*;

    #[test]
    fn assignment_that_was_lost_is_made_again_from_its_unit() {
        let dir = tempfile::tempdir().unwrap();
        let assigned = pod("one", "web", 3);
        let mut own = assigned.unit_spec.clone();
        if let AssignedSpec::Pod(spec) = &mut own {
            spec.labels.clear();
        }
        let found = |unit_spec: &AssignedSpec| RecoveredUnit {
            unit_spec: unit_spec.clone(),
            wanted: true,
        };
        restore(dir.path(), vec![found(&assigned.unit_spec), found(&own)]).unwrap();
        let store = store(dir.path()).unwrap();
        let restored = store.assigned();
        assert_eq!(restored.len(), 1, "not what was made on the node");
        assert_eq!((&*restored[0].id, restored[0].generation), ("one", 3));
        assert!(!restored[0].available);
        // What is there stays as it is.
        let mut there = assigned;
        there.epoch = 7;
        store.write(&there).unwrap();
        restore(dir.path(), vec![found(&there.unit_spec)]).unwrap();
        assert_eq!(store.assigned()[0].epoch, 7);
    }
}

//! Assignments that the disk has lost, as a loss of power does it with a file
//! that was emptied: they are made again from the units, each of which says by
//! its labels whose it is. Without its assignment an instance would be bound by
//! no lease, would be started again by its own restart policy, and the server
//! would hear nothing of it.

use std::collections::HashSet;
use std::path::Path;

use strata_types::Result;

use super::ask::{Ask, GENERATION, INSTANCE};
use super::kept;
use super::state::{Assigned, Progress};
use crate::blocking::blocking;

/// A unit that was found after a restart.
pub(crate) struct FoundUnit {
    pub(crate) ask: Ask,
    /// It is to run.
    pub(crate) wanted: bool,
}

/// Writes down what is missing of the assignments of these units.
pub(crate) fn restore(node_folder: &Path, units: Vec<FoundUnit>) -> Result<()> {
    let kept = kept(node_folder)?;
    let assigned = blocking(|| kept.assigned());
    let known: HashSet<&str> = assigned.iter().map(|one| one.id.as_str()).collect();
    for missing in units.into_iter().filter_map(assignment) {
        if known.contains(missing.id.as_str()) {
            continue;
        }
        tracing::error!(
            instance = missing.id,
            "assignment lost: made again from what is there"
        );
        blocking(|| kept.write(&missing))?;
    }
    Ok(())
}

/// The assignment that a unit is of; none for one that was made on the node.
/// How it was placed is not known any more: it is bound by the lease, and goes
/// by whatever the server says next.
fn assignment(unit: FoundUnit) -> Option<Assigned> {
    let labels = match &unit.ask {
        Ask::Pod(spec) => &spec.labels,
        Ask::Vm(ask) => &ask.labels,
    };
    let id = labels.get(INSTANCE)?.clone();
    let generation = labels.get(GENERATION)?.parse().ok()?;
    Some(Assigned {
        id,
        generation,
        wanted: unit.wanted,
        starts: 0,
        ask: unit.ask,
        progress: Progress::Started(0),
        failure: None,
        outgrown: Vec::new(),
        available: false,
        epoch: 0,
        control_plane: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::ask::tests::pod;
    use super::*;

    #[test]
    fn assignment_that_was_lost_is_made_again_from_its_unit() {
        let folder = tempfile::tempdir().unwrap();
        let assigned = pod("one", "web", 3);
        let mut own = assigned.ask.clone();
        if let Ask::Pod(spec) = &mut own {
            spec.labels.clear();
        }
        let found = |ask: &Ask| FoundUnit {
            ask: ask.clone(),
            wanted: true,
        };
        restore(folder.path(), vec![found(&assigned.ask), found(&own)]).unwrap();
        let kept = kept(folder.path()).unwrap();
        let restored = kept.assigned();
        assert_eq!(restored.len(), 1, "not what was made on the node");
        assert_eq!((&*restored[0].id, restored[0].generation), ("one", 3));
        assert!(!restored[0].available);
        // What is there stays as it is.
        let mut there = assigned;
        there.epoch = 7;
        kept.write(&there).unwrap();
        restore(folder.path(), vec![found(&there.ask)]).unwrap();
        assert_eq!(kept.assigned()[0].epoch, 7);
    }
}

//! What an assignment requests: a pod or a virtual machine, checked, and marked
//! as the server's. The mark is part of the unit's own record, so it is never
//! in doubt whose a unit is and of which generation.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_api::strata::v1::assignment::Spec;
use strata_types::pod::{PodSecret, PodSpec, RestartPolicy};
use strata_types::{Error, Label, Result};

use super::state::Assigned;
use crate::vms::VmUnitSpec;

/// The label with the id of the instance that a unit is.
pub const INSTANCE: &str = "strata.dev/instance";
/// The label with the generation of the assignment that a unit is of.
pub const GENERATION: &str = "strata.dev/generation";
const MAX_ID: usize = 128;

/// A kind of units, as far as the server knows kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitType {
    Pod,
    Vm,
}

/// A unit of this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitName {
    pub kind: UnitType,
    pub name: Label,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignedSpec {
    Pod(Box<PodSpec>),
    Vm(Box<VmUnitSpec>),
}

impl AssignedSpec {
    pub fn unit(&self) -> UnitName {
        match self {
            Self::Pod(spec) => UnitName {
                kind: UnitType::Pod,
                name: spec.name.label().clone(),
            },
            Self::Vm(unit_spec) => UnitName {
                kind: UnitType::Vm,
                name: unit_spec.name.label().clone(),
            },
        }
    }

    pub(crate) fn restart(&self) -> RestartPolicy {
        match self {
            Self::Pod(spec) => spec.restart,
            Self::Vm(unit_spec) => unit_spec.restart,
        }
    }

    pub fn stop_grace(&self) -> Duration {
        match self {
            Self::Pod(spec) => spec.stop_grace,
            Self::Vm(unit_spec) => unit_spec.stop_grace,
        }
    }

    /// The project that it belongs to.
    pub(crate) fn project(&self) -> &str {
        let labels = match self {
            Self::Pod(spec) => &spec.labels,
            Self::Vm(unit_spec) => &unit_spec.labels,
        };
        let project = labels.get(crate::network::PROJECT_LABEL);
        project.map_or(strata_network::DEFAULT_PROJECT, String::as_str)
    }

    fn labels(&mut self) -> &mut BTreeMap<String, String> {
        match self {
            Self::Pod(spec) => &mut spec.labels,
            Self::Vm(unit_spec) => &mut unit_spec.labels,
        }
    }

    /// The same with this address, where it does not request one.
    pub(crate) fn at(mut self, address: Option<Ipv4Addr>) -> Self {
        let (asked, connected) = match &mut self {
            Self::Pod(spec) => {
                let bridged = spec.network == strata_types::pod::PodNetwork::Bridge;
                (&mut spec.address, bridged)
            }
            Self::Vm(unit_spec) => (&mut unit_spec.address, unit_spec.network),
        };
        if asked.is_none() && connected {
            *asked = address;
        }
        self
    }
}

/// The values that an assignment brings.
pub type SecretValues = Vec<(PodSecret, Vec<u8>)>;

/// Reads an assignment and the values that come with it; what is wrong with
/// it, if it cannot be had here.
pub(crate) fn read(assignment: v1::Assignment) -> Result<(Assigned, SecretValues)> {
    let wanted = match v1::Wanted::try_from(assignment.wanted) {
        Ok(wanted) => wanted == v1::Wanted::Running,
        Err(_) => return Err(Error::invalid("wanted", "is nothing that this node knows")),
    };
    check_id(&assignment.id)?;
    let mut unit_spec = match assignment.spec {
        Some(Spec::Pod(pod)) => AssignedSpec::Pod(Box::new(pod.try_into()?)),
        Some(Spec::Vm(vm)) => AssignedSpec::Vm(Box::new(vm.try_into()?)),
        None => return Err(Error::invalid("spec", "is of no kind that this node knows")),
    };
    let values = secrets(&mut unit_spec, assignment.secrets)?;
    let labels = unit_spec.labels();
    labels.insert(INSTANCE.to_owned(), assignment.id.clone());
    labels.insert(GENERATION.to_owned(), assignment.generation.to_string());
    let assigned = Assigned {
        id: assignment.id,
        generation: assignment.generation,
        wanted,
        starts: assignment.starts,
        unit_spec,
        progress: Default::default(),
        has_run: false,
        failure: None,
        superseded: Vec::new(),
        available: assignment.available,
        epoch: assignment.epoch,
        control_plane: String::new(),
    };
    Ok((assigned, values))
}

/// An assignment of the generation that is known here, with the specification
/// as it is known.
pub(crate) fn with_spec_of(known: &Assigned, assignment: &v1::Assignment) -> Option<Assigned> {
    let wanted = v1::Wanted::try_from(assignment.wanted).ok()?;
    Some(Assigned {
        wanted: wanted == v1::Wanted::Running,
        starts: assignment.starts,
        available: assignment.available,
        epoch: assignment.epoch,
        ..known.clone()
    })
}

/// Adds to a pod which secrets it is given, and takes their values apart.
fn secrets(
    unit_spec: &mut AssignedSpec,
    assigned: Vec<v1::AssignedSecret>,
) -> Result<SecretValues> {
    let AssignedSpec::Pod(spec) = unit_spec else {
        return Ok(SecretValues::new());
    };
    let mut values = SecretValues::new();
    for (i, one) in assigned.into_iter().enumerate() {
        let secret = PodSecret::parse(&format!("secrets[{i}]"), &one.reference)?;
        spec.secrets.push(secret.clone());
        if let Some(value) = one.value {
            values.push((secret, value));
        }
    }
    spec.check()?;
    Ok(values)
}

/// An id is part of a file's name.
fn check_id(id: &str) -> Result<()> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    match id.is_empty() || id.len() > MAX_ID || !id.bytes().all(allowed) {
        true => Err(Error::invalid(
            "id",
            "must have 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn assignment(id: &str, name: &str, generation: u64) -> v1::Assignment {
        v1::Assignment {
            id: id.into(),
            generation,
            wanted: v1::Wanted::Running.into(),
            spec: Some(Spec::Pod(v1::PodSpec {
                name: name.into(),
                image: "registry.example/web:1".into(),
                ..v1::PodSpec::default()
            })),
            ..v1::Assignment::default()
        }
    }

    pub(in super::super) fn pod(id: &str, name: &str, generation: u64) -> Assigned {
        read(assignment(id, name, generation)).unwrap().0
    }

    #[test]
    fn a_unit_carries_whose_it_is() {
        let mut assigned = pod("i-1", "web", 7);
        assert!(assigned.wanted);
        let labels = assigned.unit_spec.labels();
        assert_eq!(labels[INSTANCE], "i-1");
        assert_eq!(labels[GENERATION], "7");
    }

    #[test]
    fn invalid_assignment_is_refused_with_its_field() {
        let refused = |change: fn(&mut v1::Assignment)| {
            let mut bad = assignment("i", "web", 1);
            change(&mut bad);
            let error = read(bad).unwrap_err();
            error.field().unwrap().to_owned()
        };
        assert_eq!(refused(|a| a.id = "a/b".into()), "id");
        assert_eq!(refused(|a| a.id = String::new()), "id");
        assert_eq!(refused(|a| a.id = "x".repeat(129)), "id");
        assert_eq!(refused(|a| a.wanted = 9), "wanted");
        assert_eq!(refused(|a| a.spec = None), "spec");
        assert_eq!(
            refused(|a| a.spec = Some(Spec::Vm(v1::VmSpec::default()))),
            "vm.boot"
        );
        let bad_name = |a: &mut v1::Assignment| {
            if let Some(Spec::Pod(pod)) = &mut a.spec {
                pod.name = "Not A Name".into();
            }
        };
        assert_eq!(refused(bad_name), "pod.name");
    }

    #[test]
    fn address_is_kept_when_none_is_requested() {
        let (old, asked) = (Ipv4Addr::new(10, 42, 0, 7), Ipv4Addr::new(10, 42, 0, 9));
        let address = |unit_spec: AssignedSpec| match unit_spec {
            AssignedSpec::Pod(spec) => spec.address,
            AssignedSpec::Vm(_) => None,
        };
        let unit_spec = pod("i", "web", 1).unit_spec;
        assert_eq!(address(unit_spec.clone().at(Some(old))), Some(old));
        assert_eq!(
            address(unit_spec.at(Some(asked)).at(Some(old))),
            Some(asked)
        );
    }
}

//! The pods and virtual machines of a node, as the agent deals with both.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use strata_cell::Usage;
use strata_types::pod::{PodSpec, PodState};
use strata_types::{Ending, ErrorKind, Label, Result};
use tokio::sync::broadcast;

use super::ask::{Ask, GENERATION, INSTANCE, Kind, UnitName};
use crate::blocking::blocking;
use crate::images::reference_from_field;
use crate::pods::Pods;
use crate::secrets::PodSecrets;
use crate::units::{Event, Health, Kind as UnitKind, Unit, Units};
use crate::vms::{VmAsk, Vms};

/// A unit as it is.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The instance that it is; none of what was made here by hand.
    pub(super) instance: Option<String>,
    pub(super) generation: u64,
    pub(super) state: PodState,
    pub(super) reason: String,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) restarts: u32,
    pub(super) ending: Option<Ending>,
    pub(super) health: Health,
    /// Whether its record says that it is to run.
    pub(super) wanted: bool,
    /// Its record cannot be read: what it is and whether it runs is not known.
    pub(super) damaged: bool,
}

/// The pods and virtual machines of a node.
#[derive(Clone)]
pub(super) struct Hosting {
    pub(super) pods: Pods,
    pub(super) vms: Vms,
}

impl Hosting {
    /// The values that pods are given.
    pub(super) fn secrets(&self) -> &PodSecrets {
        &self.pods.kind().outfitter.secrets
    }

    pub(super) fn look(&self, unit: &UnitName) -> Option<Seen> {
        match unit.kind {
            Kind::Pod => look(&self.pods, &unit.name, |spec: &PodSpec| &spec.labels),
            Kind::Vm => look(&self.vms, &unit.name, |ask: &VmAsk| &ask.labels),
        }
    }

    /// How far the pull of its image is, if it waits for one.
    pub(super) fn pull_progress(&self, ask: &Ask) -> Option<String> {
        let Ask::Pod(spec) = ask else {
            return None;
        };
        let reference = reference_from_field("image", &spec.image).ok()?;
        self.pods.kind().images.pull_progress(&reference)
    }

    /// Makes a unit; the same again is fine.
    pub(super) async fn create(&self, ask: Ask) -> Result<()> {
        match ask {
            Ask::Pod(spec) => self.pods.create(*spec, false).await.map(drop),
            Ask::Vm(ask) => self.vms.create(*ask, false).await.map(drop),
        }
    }

    /// Has the shim end a unit with the lease of this node, or not.
    pub(super) fn set_fenced(&self, unit: &UnitName, fenced: bool) -> Result<()> {
        let cells = match unit.kind {
            Kind::Pod => self.pods.kind().cells(),
            Kind::Vm => self.vms.kind().cells(),
        };
        cells.set_fenced(&unit.name.clone().into(), fenced)
    }

    pub(super) async fn start(&self, unit: &UnitName) -> Result<()> {
        match unit.kind {
            Kind::Pod => self.pods.find("name", unit.name.as_str())?.start().await,
            Kind::Vm => self.vms.find("name", unit.name.as_str())?.start().await,
        }
    }

    pub(super) async fn stop(&self, unit: &UnitName, grace: Option<Duration>) -> Result<()> {
        let damaged = match unit.kind {
            Kind::Pod => self.pods.is_damaged(&unit.name),
            Kind::Vm => self.vms.is_damaged(&unit.name),
        };
        if damaged {
            // Nothing is known of it but that it must not run.
            return self.destroy(unit).await;
        }
        match unit.kind {
            Kind::Pod => {
                self.pods
                    .find("name", unit.name.as_str())?
                    .stop(grace)
                    .await
            }
            Kind::Vm => self.vms.find("name", unit.name.as_str())?.stop(grace).await,
        }
    }

    /// Takes a unit away; one that is gone is fine.
    pub(super) async fn destroy(&self, unit: &UnitName) -> Result<()> {
        let name = unit.name.as_str();
        let gone = match unit.kind {
            Kind::Pod => self.pods.destroy("name", name, None).await,
            Kind::Vm => self.vms.take_away("name", name).await,
        };
        match gone {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            gone => gone,
        }
    }

    /// What happens to units of a kind from now on.
    pub(super) fn events(&self, kind: Kind) -> broadcast::Receiver<Event> {
        match kind {
            Kind::Pod => self.pods.events().listen().1,
            Kind::Vm => self.vms.events().listen().1,
        }
    }

    /// What a unit uses now, but for its disk.
    pub(super) fn usage(&self, unit: &UnitName) -> Option<Usage> {
        let cells = match unit.kind {
            Kind::Pod => self.pods.kind().cells(),
            Kind::Vm => self.vms.kind().cells(),
        };
        let cell = cells.find("name", &unit.name.clone().into()).ok()?;
        Some(cell.usage())
    }

    /// Bytes of the machine's disk that a unit has written, which may take a
    /// walk through its files.
    pub(super) fn disk(&self, unit: &UnitName) -> Option<u64> {
        match unit.kind {
            Kind::Pod => {
                let id = self.pods.find("name", unit.name.as_str()).ok()?.record().id;
                let roots = &self.pods.kind().outfitter.roots;
                blocking(|| roots.usage(&id)).ok().map(|usage| usage.bytes)
            }
            Kind::Vm => {
                let id = self.vms.find("name", unit.name.as_str()).ok()?.record().id;
                let folder = self.vms.kind().folders.join(id);
                Some(blocking(|| crate::vms::usage(&folder)))
            }
        }
    }
}

fn look<K: UnitKind>(
    units: &Units<K>,
    name: &Label,
    labels: fn(&K::Spec) -> &BTreeMap<String, String>,
) -> Option<Seen> {
    if units.is_damaged(name) {
        return Some(Seen::damaged());
    }
    let unit: Arc<Unit<K>> = units.find("name", name.as_str()).ok()?;
    let (record, view) = (unit.record(), unit.view());
    let labels = labels(&record.spec);
    let generation = labels.get(GENERATION).and_then(|text| text.parse().ok());
    Some(Seen {
        instance: labels.get(INSTANCE).cloned(),
        generation: generation.unwrap_or(0),
        state: view.state,
        reason: view.reason,
        address: K::endpoint(&record).map(|endpoint| endpoint.address),
        restarts: record.restarts,
        ending: view.main.and_then(|main| main.view().ending),
        health: view.health,
        wanted: record.wanted,
        damaged: false,
    })
}

impl Seen {
    /// One whose record cannot be read. It may run.
    fn damaged() -> Self {
        Self {
            instance: None,
            generation: 0,
            state: PodState::Running,
            reason: "its record on the node cannot be read".to_owned(),
            address: None,
            restarts: 0,
            ending: None,
            health: Health::Unknown,
            wanted: false,
            damaged: true,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn seen(instance: &str, generation: u64, state: PodState) -> Seen {
        Seen {
            instance: Some(instance.into()),
            generation,
            state,
            reason: String::new(),
            address: None,
            restarts: 0,
            ending: None,
            health: Health::Unknown,
            wanted: false,
            damaged: false,
        }
    }
}

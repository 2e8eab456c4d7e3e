//! The pods and virtual machines of a node, as the agent deals with both.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use strata_cell::Usage;
use strata_types::pod::{PodSpec, PodState};
use strata_types::{ErrorKind, Label, Result};
use tokio_stream::wrappers::BroadcastStream;

use super::assigned_spec::{AssignedSpec, GENERATION, INSTANCE, SecretValues, UnitName, UnitType};
use super::host::{UnitHost, UnitStatus};
use crate::Node;
use crate::blocking::blocking;
use crate::images::reference_from_field;
use crate::pods::Pods;
use crate::secrets::PodSecrets;
use crate::units::{Health, Unit, UnitKind, Units};
use crate::vms::{VmUnitSpec, Vms};

/// The pods and virtual machines of a node.
#[derive(Clone)]
pub(super) struct UnitRuntime {
    pods: Pods,
    vms: Vms,
}

impl UnitRuntime {
    pub(super) fn of(node: &Node) -> Self {
        let (pods, vms) = (node.pods.clone(), node.vms.clone());
        Self { pods, vms }
    }

    /// The values that pods are given.
    fn secrets(&self) -> &PodSecrets {
        &self.pods.kind().rootfs_builder.secrets
    }

    async fn end(&self, unit: &UnitName, grace: Option<Duration>) -> Result<()> {
        let name = unit.name.as_str();
        let damaged = match unit.kind {
            UnitType::Pod => self.pods.is_damaged(&unit.name),
            UnitType::Vm => self.vms.is_damaged(&unit.name),
        };
        if damaged {
            // Nothing is known of it but that it must not run.
            return self.remove(unit, None).await;
        }
        match unit.kind {
            UnitType::Pod => self.pods.find("name", name)?.stop(grace).await,
            UnitType::Vm => self.vms.find("name", name)?.stop(grace).await,
        }
    }

    async fn remove(&self, unit: &UnitName, grace: Option<Duration>) -> Result<()> {
        let name = unit.name.as_str();
        let gone = match (unit.kind, grace) {
            (UnitType::Pod, grace) => self.pods.destroy("name", name, grace).await,
            (UnitType::Vm, None) => self.vms.take_away("name", name).await,
            (UnitType::Vm, grace) => self.vms.destroy("name", name, grace).await,
        };
        match gone {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            gone => gone,
        }
    }

    /// What a unit uses now, but for its disk.
    pub(super) fn usage(&self, unit: &UnitName) -> Option<Usage> {
        let cells = match unit.kind {
            UnitType::Pod => self.pods.kind().cells(),
            UnitType::Vm => self.vms.kind().cells(),
        };
        let cell = cells.find("name", &unit.name.clone().into()).ok()?;
        Some(cell.usage())
    }

    /// Bytes of the machine's disk that a unit has written, which may take a
    /// walk through its files.
    pub(super) fn disk(&self, unit: &UnitName) -> Option<u64> {
        match unit.kind {
            UnitType::Pod => {
                let id = self.pods.find("name", unit.name.as_str()).ok()?.record().id;
                let roots = &self.pods.kind().rootfs_builder.roots;
                blocking(|| roots.usage(&id)).ok().map(|usage| usage.bytes)
            }
            UnitType::Vm => {
                let id = self.vms.find("name", unit.name.as_str()).ok()?.record().id;
                let dir = self.vms.kind().dirs.join(id);
                Some(blocking(|| crate::vms::usage(&dir)))
            }
        }
    }
}

impl UnitHost for UnitRuntime {
    fn look(&self, unit: &UnitName) -> Option<UnitStatus> {
        match unit.kind {
            UnitType::Pod => look(&self.pods, &unit.name, |spec: &PodSpec| &spec.labels),
            UnitType::Vm => look(&self.vms, &unit.name, |unit_spec: &VmUnitSpec| {
                &unit_spec.labels
            }),
        }
    }

    fn pull_progress(&self, unit_spec: &AssignedSpec) -> Option<String> {
        let AssignedSpec::Pod(spec) = unit_spec else {
            return None;
        };
        let reference = reference_from_field("image", &spec.image).ok()?;
        self.pods.kind().images.pull_progress(&reference)
    }

    fn create(&self, unit_spec: AssignedSpec) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match unit_spec {
                AssignedSpec::Pod(spec) => self.pods.create(*spec, false).await.map(drop),
                AssignedSpec::Vm(unit_spec) => self.vms.create(*unit_spec, false).await.map(drop),
            }
        })
    }

    fn start<'a>(&'a self, unit: &'a UnitName) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match unit.kind {
                UnitType::Pod => self.pods.find("name", unit.name.as_str())?.start().await,
                UnitType::Vm => self.vms.find("name", unit.name.as_str())?.start().await,
            }
        })
    }

    fn stop<'a>(
        &'a self,
        unit: &'a UnitName,
        grace: Option<Duration>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.end(unit, grace))
    }

    fn destroy<'a>(
        &'a self,
        unit: &'a UnitName,
        grace: Option<Duration>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.remove(unit, grace))
    }

    fn kill(&self, unit: &UnitName) -> Result<()> {
        let name = unit.name.as_str();
        let killed = match unit.kind {
            UnitType::Pod => self.pods.find("name", name).and_then(|pod| pod.kill()),
            UnitType::Vm => self.vms.find("name", name).and_then(|vm| vm.kill()),
        };
        match killed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            killed => killed,
        }
    }

    fn set_fenced(&self, unit: &UnitName, fenced: bool) -> Result<()> {
        let cells = match unit.kind {
            UnitType::Pod => self.pods.kind().cells(),
            UnitType::Vm => self.vms.kind().cells(),
        };
        cells.set_fenced(&unit.name.clone().into(), fenced)
    }

    fn events(&self, kind: UnitType) -> BoxStream<'static, Option<String>> {
        let events = match kind {
            UnitType::Pod => self.pods.events().listen().1,
            UnitType::Vm => self.vms.events().listen().1,
        };
        BroadcastStream::new(events)
            .map(|event| event.ok().map(|event| event.name.to_string()))
            .boxed()
    }

    fn put_secrets(&self, unit: &UnitName, project: &str, values: &SecretValues) -> Result<()> {
        blocking(|| self.secrets().put(&unit.name, project, values))
    }

    fn remove_secrets(&self, unit: &UnitName) {
        blocking(|| self.secrets().remove(&unit.name));
    }

    fn keep_secrets_of(&self, units: &HashSet<Label>) {
        blocking(|| self.secrets().clear_all_but(units));
    }
}

fn look<K: UnitKind>(
    units: &Units<K>,
    name: &Label,
    labels: fn(&K::Spec) -> &BTreeMap<String, String>,
) -> Option<UnitStatus> {
    if units.is_damaged(name) {
        return Some(damaged());
    }
    let unit: Arc<Unit<K>> = units.find("name", name.as_str()).ok()?;
    let (record, view) = (unit.record(), unit.view());
    let labels = labels(&record.spec);
    let generation = labels.get(GENERATION).and_then(|text| text.parse().ok());
    Some(UnitStatus {
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

/// One whose record cannot be read. It may run.
fn damaged() -> UnitStatus {
    UnitStatus {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn seen(instance: &str, generation: u64, state: PodState) -> UnitStatus {
        UnitStatus {
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

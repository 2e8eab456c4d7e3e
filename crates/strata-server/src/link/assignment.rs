//! What a node is sent of an instance.

use sha2::{Digest as _, Sha256};
use strata_api::pod_fields::restart_to_wire;
use strata_api::strata::v1::{self, assignment::Spec, vm_spec};
use strata_types::Result;
use strata_types::instance::{InstanceId, InstanceKind, PoolDisk, RunPolicy};
use strata_types::pod::{PodName, VolumeSource};

use crate::core::{DEFAULT_PROJECT, DesiredState, Instance};

/// What volumes of nodes hold together that are created for an instance of a
/// caller limited to projects, where it has no size of disk itself.
const DEFAULT_VOLUME_BYTES: u64 = 4_000_000_000;

/// The name of an instance's pod or virtual machine on its node: the same for
/// its whole life, whatever it is called.
pub(crate) fn unit_name(id: &InstanceId) -> String {
    let digest = Sha256::digest(id.as_str());
    let hex: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("i-{hex}")
}

/// What the node is to have.
pub(super) fn assignment(instance: &Instance) -> Result<v1::Assignment> {
    let spec = match instance.spec.kind {
        InstanceKind::Container => Spec::Pod(pod(instance)?),
        InstanceKind::Vm => Spec::Vm(vm(instance)?),
    };
    let desired_state = match instance.desired_state {
        DesiredState::Running => v1::Wanted::Running,
        DesiredState::Stopped | DesiredState::Gone => v1::Wanted::Stopped,
    };
    Ok(v1::Assignment {
        id: instance.id.to_string(),
        generation: instance.generation,
        wanted: desired_state.into(),
        spec: Some(spec),
        starts: instance.starts,
        // The sender adds them.
        secrets: Vec::new(),
        available: instance.spec.placement.runs == RunPolicy::Available,
        epoch: instance.epoch,
    })
}

fn pod(instance: &Instance) -> Result<v1::PodSpec> {
    let name: PodName = unit_name(&instance.id).parse()?;
    let mut pod = instance.spec.pod(name, None)?;
    pod.hostname = Some(instance.name.clone());
    for volume in &mut pod.volumes {
        if let VolumeSource::Named(name) | VolumeSource::Pool(name) = &mut volume.source {
            *name = instance.own_volume(name)?;
        }
    }
    if instance.sized_volumes {
        let own = instance.spec.resources.disk_bytes();
        pod.volume_bytes = Some(if own == 0 { DEFAULT_VOLUME_BYTES } else { own });
    }
    for (key, value) in server_labels(instance) {
        pod.labels.insert(key.into(), value);
    }
    let mut wire = v1::PodSpec::from(&pod);
    wire.aliases = aliases(instance);
    Ok(wire)
}

/// The names by which others find it.
pub(super) fn aliases(instance: &Instance) -> Vec<String> {
    let (name, project) = (&instance.name, &instance.project);
    let mut aliases = vec![format!("{name}.{project}")];
    if project.as_str() == DEFAULT_PROJECT {
        aliases.push(name.to_string());
    }
    aliases
}

fn server_labels(instance: &Instance) -> [(&'static str, String); 4] {
    [
        ("strata.dev/instance", instance.name.to_string()),
        ("strata.dev/name", instance.name.to_string()),
        ("strata.dev/project", instance.project.to_string()),
        ("strata.dev/id", instance.id.to_string()),
    ]
}

fn vm(instance: &Instance) -> Result<v1::VmSpec> {
    let spec = &instance.spec;
    let disk = |disk: PoolDisk| {
        Ok(v1::VmDisk {
            pool: instance.own_volume(&disk.name)?.to_string(),
            read_only: disk.read_only,
            ..v1::VmDisk::default()
        })
    };
    let disks = spec.pool_disks()?.into_iter().map(disk);
    let cpu = u32::try_from(spec.resources.cpu).unwrap_or(0);
    let grace = u32::try_from(spec.stop_grace().as_millis()).unwrap_or(u32::MAX);
    Ok(v1::VmSpec {
        name: unit_name(&instance.id),
        cpus: cpu.div_ceil(1000),
        cpu_millis: cpu,
        memory_bytes: spec.resources.memory_bytes(),
        boot: Some(vm_spec::Boot::Image(spec.uri.clone())),
        disk_bytes: spec.resources.disk_bytes(),
        disks: disks.collect::<Result<_>>()?,
        ports: spec.ports.clone(),
        restart: restart_to_wire(spec.restart).into(),
        stop_grace_ms: spec.stop_grace_seconds.map(|_| grace),
        // What the server marks comes last: it wins over labels of people.
        labels: spec
            .labels
            .clone()
            .into_iter()
            .chain(server_labels(instance).map(|(key, value)| (key.to_owned(), value)))
            .collect(),
        user_data: spec.user_data.clone().unwrap_or_default(),
        ..v1::VmSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use strata_types::Label;

    use super::*;

    #[test]
    fn volumes_of_the_pool_are_those_of_the_project() {
        let label = |text: &str| -> Label { text.parse().unwrap() };
        let text = r#"{"id": "i1", "name": "web", "project": "shop", "wanted": "running",
            "spec": {"type": "VM", "uri": "/x.qcow2", "volumes": ["pool=data", "pool=fix:ro"]},
            "generation": 1, "state": "SCHEDULED", "createdAtMs": 0, "changedAtMs": 0}"#;
        let mut instance: Instance = serde_json::from_str(text).unwrap();
        let own = |name| {
            crate::core::own_volume(&label("shop"), 0, &label(name))
                .unwrap()
                .to_string()
        };
        let told = vm(&instance).unwrap().disks;
        let told: Vec<_> = told.into_iter().map(|d| (d.pool, d.read_only)).collect();
        assert_eq!(told, [(own("data"), false), (own("fix"), true)]);
        instance.spec.kind = InstanceKind::Container;
        instance.spec.uri = "x".into();
        instance.spec.volumes = vec!["pool=data:/data".into()];
        let source = pod(&instance).unwrap().volumes.remove(0).source;
        assert_eq!(source, Some(v1::pod_volume::Source::Pool(own("data"))));
    }

    #[test]
    fn volumes_of_limited_callers_have_the_size_of_their_disk() {
        let text = r#"{"id": "i1", "name": "web", "project": "shop", "wanted": "running",
            "spec": {"type": "CONTAINER", "uri": "x", "volumes": ["data:/data"]},
            "generation": 1, "state": "SCHEDULED", "createdAtMs": 0, "changedAtMs": 0}"#;
        let mut instance: Instance = serde_json::from_str(text).unwrap();
        assert_eq!(pod(&instance).unwrap().volume_bytes, None);
        instance.sized_volumes = true;
        let default = Some(DEFAULT_VOLUME_BYTES);
        assert_eq!(pod(&instance).unwrap().volume_bytes, default);
        instance.spec.resources.disk = 2;
        assert_eq!(pod(&instance).unwrap().volume_bytes, Some(2_000_000_000));
    }

    #[test]
    fn marks_of_the_server_win_over_labels_of_people() {
        for kind in ["VM", "CONTAINER"] {
            let text = format!(
                r#"{{"id": "i1", "name": "web", "project": "shop", "wanted": "running",
                "spec": {{"type": "{kind}", "uri": "/x", "labels": {{
                    "strata.dev/project": "rival", "strata.dev/id": "i2", "app": "web"}}}},
                "generation": 1, "state": "SCHEDULED", "createdAtMs": 0, "changedAtMs": 0}}"#
            );
            let instance: Instance = serde_json::from_str(&text).unwrap();
            let labels = match assignment(&instance).unwrap().spec {
                Some(Spec::Pod(pod)) => pod.labels,
                Some(Spec::Vm(vm)) => vm.labels,
                None => Default::default(),
            };
            assert_eq!(labels["strata.dev/project"], "shop", "{kind}");
            assert_eq!(labels["strata.dev/id"], "i1", "{kind}");
            assert_eq!(labels["strata.dev/name"], "web", "{kind}");
            assert_eq!(labels["app"], "web", "{kind}");
        }
    }
}

//! Machines, the pool and backups of the fake.

use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use strata_api::rest::{
    AutoscalePlan, AutoscaleStep, Autoscaling, Backup, BackupSchedule, Capability, DeviceState,
    Headroom, Machine, MachineFailure, MachinePhase, Pool, PoolDevice, PoolState, PoolVolume,
    PowerState, Profile, ProviderKind, Retention, Scrub, VolumeKind, VolumeSnapshot,
};
use strata_types::Error;

use super::data::NOW_MS;
use super::objects::{CREATED, Objects};
use super::operations;
use super::rest::{Query, answer, find, is, problem, told};

pub struct Backends {
    pub machines: Vec<Machine>,
    pub autoscaling: Autoscaling,
    pub pool: Pool,
    pub volumes: Vec<PoolVolume>,
    pub backups: Vec<Backup>,
    pub schedules: Vec<BackupSchedule>,
}

fn machine(id: &str, phase: MachinePhase, state: &str) -> Machine {
    Machine {
        id: id.into(),
        provider: ProviderKind::Redfish,
        handle: "/redfish/v1/Systems/1".into(),
        address: "https://10.0.9.7".into(),
        credentials: "rack1".into(),
        cpu: 32,
        ram: 128_000,
        capabilities: vec![Capability::Storage, Capability::Gpu],
        labels: [("zone".to_owned(), "eu".to_owned())].into(),
        phase,
        state: state.into(),
        message: String::new(),
        failure: None,
        power: PowerState::On,
        node_address: "192.0.2.7".into(),
        instances: 2,
        operation: String::new(),
        created_at: CREATED.into(),
        changed_at: "2026-01-31T11:59:00Z".into(),
    }
}

fn machines() -> Vec<Machine> {
    let mut down = machine("rack1-8", MachinePhase::Available, "AVAILABLE_TO_CREATE");
    down.power = PowerState::Off;
    down.instances = 0;
    down.capabilities.clear();
    down.node_address.clear();
    let mut broken = machine("m1", MachinePhase::Stopping, "UNKNOWN");
    broken.provider = ProviderKind::Local;
    broken.power = PowerState::Unknown;
    (broken.cpu, broken.ram, broken.instances) = (0, 0, 0);
    broken.message = "its node did not come within 5 min\u{1b}[2J; look at its console".into();
    broken.failure = Some(MachineFailure {
        phase: MachinePhase::Joining,
        why: "nothing was heard of its node".into(),
        at_ms: NOW_MS - 60_000,
    });
    let up = machine("rack1-7", MachinePhase::Up, "AVAILABLE_TO_DESTROY");
    vec![up, down, broken]
}

fn device(name: &str, state: DeviceState, path: &str) -> PoolDevice {
    let spare = state == DeviceState::Spare;
    PoolDevice {
        name: name.into(),
        path: path.into(),
        state,
        bytes: 10 << 30,
        allocated_bytes: if spare { 0 } else { 4 << 30 },
        errors: 0,
    }
}

fn pool() -> Pool {
    let mut failing = device("d2", DeviceState::Failing, "/dev/sdc");
    failing.errors = 12;
    Pool {
        id: "5a1f0c2e-3b4d-4e5f-8a9b-0c1d2e3f4a5b".into(),
        state: PoolState::Degraded,
        message: "d2 answers with errors; replace it".into(),
        profile: Profile::Mirrored,
        path: "/var/lib/strata/pool/mount".into(),
        bytes: 10 << 30,
        used_bytes: 3 << 30,
        free_bytes: 7 << 30,
        devices: vec![
            device("d1", DeviceState::Online, "/dev/sdb"),
            failing,
            device("d3", DeviceState::Spare, "/var/lib/strata/pool/d3"),
        ],
        volumes: 2,
        scrub: Some(Scrub {
            ended_at_ms: NOW_MS - 7_200_000,
            bytes: 6 << 30,
            corrected: 3,
            uncorrectable: 0,
        }),
    }
}

fn volumes() -> Vec<PoolVolume> {
    let data = PoolVolume {
        name: "data".into(),
        kind: VolumeKind::Files,
        quota_bytes: Some(10 << 30),
        used_bytes: 2 << 30,
        exclusive_bytes: 1 << 30,
        origin: String::new(),
        created_at_ms: NOW_MS - 3_600_000,
        snapshots: vec![VolumeSnapshot {
            name: "monday".into(),
            created_at_ms: NOW_MS - 1_800_000,
        }],
    };
    let trial = PoolVolume {
        name: "trial".into(),
        quota_bytes: None,
        origin: "data@monday".into(),
        exclusive_bytes: 4096,
        snapshots: Vec::new(),
        ..data.clone()
    };
    vec![data, trial]
}

fn backups() -> Vec<Backup> {
    let backup = |id: &str, age_ms: i64| Backup {
        id: id.repeat(8),
        taken_at_ms: NOW_MS - age_ms,
        host: "rack1-1".into(),
        operation: String::new(),
        volumes: vec!["data".into(), "trial".into()],
        has_state: true,
        files: 1234,
        bytes: 3 << 30,
        new_bytes: 64 << 20,
        stored_bytes: 20 << 20,
        took_ms: 75_400,
        damaged: false,
    };
    vec![
        backup("3f9a41c8", 7_200_000),
        backup("3f9a41c7", 90_000_000),
    ]
}

pub fn backends() -> Backends {
    Backends {
        machines: machines(),
        autoscaling: Autoscaling {
            enabled: true,
            cpu: 4000,
            memory: 8000,
            gpu: 1,
            least: 1,
            most: 0,
        },
        pool: pool(),
        volumes: volumes(),
        backups: backups(),
        schedules: vec![BackupSchedule {
            name: "nightly".into(),
            when: "30 2 * * *".into(),
            keep: Retention {
                last: Some(3),
                daily: Some(7),
                ..Default::default()
            },
            paused: false,
            last_at_ms: Some(NOW_MS - 34_200_000),
            next_at_ms: Some(NOW_MS + 52_200_000),
        }],
    }
}

/// What is asked for: all of it, or a thing, or what is done with it.
pub type Asked<'a> = (&'a Method, &'a str, &'a Query<'a>, &'a [u8]);

/// Answers what is about these; nothing when it is about something else.
pub fn serve(objects: &mut Objects, (method, path, query, body): Asked<'_>) -> Option<Response> {
    let words: Vec<&str> = path.split('/').collect();
    let dry = is(query, "dryRun").is_some();
    let backends = &mut objects.backends;
    Some(match words.as_slice() {
        ["machine", id, "console"] => match find(&backends.machines, id, query) {
            Ok(_) => ([(header::CONTENT_TYPE, "text/plain")], "boot\r\nlogin: ").into_response(),
            Err(error) => problem(&error),
        },
        ["machine" | "hypervisor", id, verb] => match find(&backends.machines, id, query) {
            Ok(_) => {
                let about = format!("machine/{id}");
                operations::begun(objects, &format!("machine-{verb}"), &about)
            }
            Err(error) => problem(&error),
        },
        ["machine" | "hypervisor", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            answer(&mut backends.machines, method, name, query, body)
        }
        ["autoscaling"] => {
            let mut one = serde_json::to_value(backends.autoscaling).unwrap();
            if *method == Method::PATCH {
                let patch: Value = serde_json::from_slice(body).unwrap();
                let fields = patch.as_object().unwrap().clone();
                one.as_object_mut().unwrap().extend(fields);
            }
            told(&one)
        }
        ["autoscaling", "plan"] => told(&plan(backends)),
        ["storage"] => told(&backends.pool),
        ["storage", "expand"] if dry => told(&json!({
            "devices": ["d3"], "gainedBytes": 10u64 << 30, "movedBytes": 0,
        })),
        ["storage", "shrink"] if dry => told(&json!({
            "devices": ["d2", "d1"], "lostBytes": 5u64 << 30,
            "movedBytes": 3u64 << 30, "freeBytes": 2u64 << 30,
        })),
        ["storage", verb @ ("expand" | "shrink" | "scrub")] => {
            operations::begun(objects, &format!("storage-{verb}"), "storage/pool")
        }
        ["storage", "device", name, "replace"] => {
            operations::begun(objects, "storage-replace", &format!("device/{name}"))
        }
        ["storage", "device", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            answer(&mut backends.pool.devices, method, name, query, body)
        }
        ["storage", "volume", name, "snapshot", ..] => match find(&backends.volumes, name, query) {
            Ok(_) if *method == Method::DELETE => StatusCode::NO_CONTENT.into_response(),
            Ok(found) => told(&backends.volumes[found]),
            Err(error) => problem(&error),
        },
        ["storage", "volume", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            answer(&mut backends.volumes, method, name, query, body)
        }
        ["backup"] if *method == Method::POST => {
            operations::begun(objects, "backup-create", "backup/new")
        }
        ["backup", "prune"] if dry => told(&json!({
            "keep": [{"id": backends.backups[0].id, "because": ["last", "daily"]}],
            "forget": [backends.backups[1].id],
        })),
        ["backup", "prune"] => operations::begun(objects, "backup-prune", "backup/all"),
        ["backup", id, verb] => {
            let about = format!("backup/{}", &id[..8]);
            operations::begun(objects, &format!("backup-{verb}"), &about)
        }
        ["backup", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            answer(&mut backends.backups, method, name, query, body)
        }
        ["backup-schedule", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            answer(&mut backends.schedules, method, name, query, body)
        }
        ["storage", ..] => problem(&Error::not_found("there is nothing here")),
        _ => return None,
    })
}

fn plan(backends: &Backends) -> AutoscalePlan {
    let room = |cpu, memory, gpu| Headroom { cpu, memory, gpu };
    AutoscalePlan {
        settings: backends.autoscaling,
        free: room(1500, 2000, 0),
        waiting: room(500, 256, 0),
        create: vec![AutoscaleStep {
            machine: "rack1-8".into(),
            why: "2.5 cpus are missing, and it is the smallest that has them".into(),
        }],
        destroy: Vec::new(),
        message: "no machine with a gpu is left".into(),
    }
}

//! What the REST API of the fake tells of.

use strata_api::rest::{
    Claim, Cluster, DesiredState, Event, Instance, InstanceState, Node, NodeStatus, Operation,
    Placement, PlacementNode, Project, ProjectUse, Quota, Resources, Workload,
};
use strata_types::instance::InstanceSpec;

use super::backends::Backends;

/// The objects, and how what is followed goes on.
pub struct Objects {
    pub instances: Vec<Instance>,
    pub workloads: Vec<Workload>,
    pub nodes: Vec<Node>,
    pub projects: Vec<Project>,
    pub events: Vec<Event>,
    /// What each following of events begins with, then ends; without any, the
    /// server is ending.
    pub event_streams: Vec<Vec<Event>>,
    pub operations: Vec<Operation>,
    /// Those that are followed come to no good end.
    pub operations_fail: bool,
    pub clusters: Vec<Cluster>,
    /// Machines, the pool and backups.
    pub backends: Backends,
    pub placement: Placement,
    /// What becomes of an instance that is followed, step by step. Gone after
    /// the last one when it is `None`.
    pub journey: Vec<Option<(InstanceState, &'static str)>>,
    /// The journey does not go on, and does not end either.
    pub unending: bool,
    /// The streams that are still given.
    pub watches: usize,
    /// What was asked for, as it came: `PUT /instance/ {…}`.
    pub requests: Vec<String>,
}

pub const CREATED: &str = "2026-01-31T11:56:48Z";

fn amounts(cpu: i32, memory: i32, disk: i32) -> Resources {
    Resources { cpu, memory, disk }
}

pub fn instance(name: &str, project: &str, status: InstanceState) -> Instance {
    Instance {
        id: format!("0192f0c1-{project}-{name}"),
        name: name.into(),
        project: project.into(),
        status,
        uri: "docker.io/library/nginx:1.27".into(),
        wanted: DesiredState::Running,
        owner: "me".into(),
        generation: 1,
        created_at: CREATED.into(),
        changed_at: CREATED.into(),
        ..Default::default()
    }
}

fn instances() -> Vec<Instance> {
    let mut web = instance("web", "default", InstanceState::Running);
    web.node = Some("rack1-7".into());
    web.ip = Some("10.42.1.5".into());
    web.ports = vec!["8080:80".into(), "8443:443".into()];
    web.environment = vec!["EVIL=\u{1b}[2J".into(), "TZ=UTC".into()];
    web.resources = Claim {
        max: amounts(500, 256, 2),
        usage: amounts(120, 64, 0),
    };
    web.labels = [("app".to_owned(), "shop".to_owned())].into();
    web.placement.constraints = vec!["zone=eu".into()];
    web.healthy = Some(true);
    let mut job = instance("job", "default", InstanceState::Failed);
    job.description = "nothing fits: rack1-7 has 0.1 cpus left, 2 are asked for".into();
    job.resources.max = amounts(2000, 1500, 0);
    job.restarts = 4;
    let mut db = instance("db", "shop", InstanceState::Stopped);
    db.uri = "registry.lan:5000/team/postgres-with-a-long-name:v17".into();
    db.wanted = DesiredState::Stopped;
    db.workload_id = Some("0192f0c1-shop-pg".into());
    vec![web, job, db]
}

fn nodes() -> Vec<Node> {
    let node = Node {
        name: "rack1-7".into(),
        status: NodeStatus::Ready,
        subnet: "10.42.1.0/24".into(),
        address: "192.0.2.7".into(),
        labels: [("zone".to_owned(), "eu".to_owned())].into(),
        capacity: amounts(8000, 64_000, 500),
        reserved: amounts(500, 256, 2),
        usage: amounts(300, 4_000, 20),
        instances: 1,
        runs_vms: true,
        overlay_encryption: "wireguard".into(),
        version: "0.1.0".into(),
        created_at: CREATED.into(),
        changed_at: CREATED.into(),
        ..Default::default()
    };
    let lost = Node {
        name: "rack1-8".into(),
        status: NodeStatus::Lost,
        description: "nothing was heard for 10 s".into(),
        reserved: Resources::default(),
        instances: 0,
        labels: Default::default(),
        gpus: [("a100".to_owned(), 2)].into(),
        ..node.clone()
    };
    vec![node, lost]
}

pub fn objects() -> Objects {
    let event = |number, kind: &str, name: &str, message: &str| Event {
        number,
        at: format!("2026-01-31T12:00:00.00{number}Z"),
        kind: kind.into(),
        name: name.into(),
        id: None,
        project: (kind != "node").then(|| "default".into()),
        message: message.into(),
        count: None,
        last_at: None,
    };
    Objects {
        instances: instances(),
        workloads: vec![Workload {
            id: "0192f0c1-default-web".into(),
            name: "web".into(),
            project: "default".into(),
            instances: 2,
            owner: "me".into(),
            created_at: CREATED.into(),
            changed_at: CREATED.into(),
            spec: InstanceSpec {
                uri: "nginx:1.27".into(),
                resources: amounts(500, 256, 0),
                ports: vec!["8080:80".into()],
                ..Default::default()
            },
        }],
        nodes: nodes(),
        projects: vec![
            Project {
                name: "default".into(),
                used: ProjectUse {
                    cpu: 2500,
                    memory: 1756,
                    disk: 2,
                    pids: 8192,
                    instances: 2,
                },
                created_at: CREATED.into(),
                ..Default::default()
            },
            Project {
                name: "shop".into(),
                quota: Quota {
                    cpu: Some(8000),
                    memory: Some(16_000),
                    disk: None,
                    pids: None,
                    instances: Some(50),
                },
                created_at: CREATED.into(),
                ..Default::default()
            },
        ],
        events: vec![
            event(1, "node", "rack1-7", "registered with 10.42.1.0/24"),
            event(2, "instance", "web", "RUNNING\u{1b}[2J"),
            event(3, "instance", "job", "FAILED: nothing fits"),
        ],
        event_streams: Vec::new(),
        operations: super::operations::operations(),
        operations_fail: false,
        clusters: super::clusters::clusters(),
        backends: super::backends::backends(),
        placement: Placement {
            node: Some("rack1-7".into()),
            best: Some("rack1-7".into()),
            summary: "web is on rack1-7, which would be chosen today as well".into(),
            nodes: vec![
                PlacementNode {
                    name: "rack1-7".into(),
                    chosen: true,
                    reason: "it fits, and its free room suits the policy best".into(),
                },
                PlacementNode {
                    name: "rack1-8".into(),
                    chosen: false,
                    reason: "it is lost".into(),
                },
            ],
        },
        journey: vec![
            Some((InstanceState::Scheduling, "")),
            Some((InstanceState::Scheduled, "on node rack1-7")),
            Some((InstanceState::Starting, "fetching the image")),
            Some((InstanceState::Running, "")),
        ],
        unending: false,
        watches: 1,
        requests: Vec::new(),
    }
}

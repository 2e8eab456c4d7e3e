//! Bad input of every kind on every call of the published services: refused
//! with the field's name, and nothing is changed by it.

use strata_testkit::cluster::port;
use strata_testkit::controller;
use strata_testkit::scheduler::{Instance, InstanceIdentifier, Resource, ResourceSummary};
use strata_testkit::serde_json::json;
use strata_testkit::{Code, field_of};

use crate::control::cluster;

fn limit(cpu: i32, memory: i32, disk: i32) -> Option<Resource> {
    Some(Resource {
        limit: Some(ResourceSummary { cpu, memory, disk }),
        usage: None,
    })
}

/// A change of a good request, and the field that is wrong then.
type Case = (&'static str, fn(&mut Instance));

const CASES: &[Case] = &[
    ("id", |one| one.id = "a b".into()),
    ("id", |one| one.id = "a/b".into()),
    ("id", |one| one.id = "x".repeat(129)),
    ("id", |one| one.id = "ä".into()),
    ("name", |one| one.name = "Web".into()),
    ("name", |one| one.name = "-web".into()),
    ("name", |one| one.name = "x".repeat(64)),
    ("name", |one| one.name = "a.b".into()),
    ("name", |one| one.name = "a\u{0}b".into()),
    ("type", |one| one.r#type = 7),
    ("type", |one| one.r#type = -1),
    ("uri", |one| one.uri = String::new()),
    ("uri", |one| one.uri = "x".repeat(5000)),
    ("uri", |one| one.uri = "oci:relative/path:v1".into()),
    ("uri", |one| one.uri = "Not An Image".into()),
    ("environnement[0]", |one| {
        one.environnement = vec!["novalue".into()];
    }),
    ("environnement[1]", |one| {
        one.environnement = vec!["A=1".into(), "=x".into()];
    }),
    ("environnement[0]", |one| {
        one.environnement = vec!["A=\u{0}".into()];
    }),
    ("environnement", |one| {
        one.environnement = (0..101).map(|n| format!("K{n}=v")).collect();
    }),
    ("resource.limit.cpu", |one| one.resource = limit(-1, 0, 0)),
    ("resource.limit.memory", |one| {
        one.resource = limit(0, -1, 0);
    }),
    ("resource.limit.disk", |one| {
        one.resource = limit(0, 0, i32::MIN);
    }),
    ("ports[0].source", |one| one.ports = vec![port(0, 80)]),
    ("ports[0].source", |one| one.ports = vec![port(65_536, 80)]),
    ("ports[0].source", |one| one.ports = vec![port(-5, 80)]),
    ("ports[1].destination", |one| {
        one.ports = vec![port(1, 1), port(2, 0)];
    }),
    ("ports[0].destination", |one| {
        one.ports = vec![port(1, i32::MAX)];
    }),
    ("ports", |one| {
        one.ports = (1..=101).map(|n| port(n, n)).collect();
    }),
    ("ports", |one| one.ports = vec![port(80, 1), port(80, 2)]),
    ("ip", |one| one.ip = "10.42.0.9".into()),
    ("ip", |one| one.ip = "nonsense".into()),
];

#[tokio::test(flavor = "multi_thread")]
async fn bad_instances_are_refused_with_the_field() {
    let cluster = cluster(0).await;
    let mut scheduler = cluster.client().await.scheduler();
    let mut wrong = Vec::new();
    for (number, (field, change)) in CASES.iter().enumerate() {
        let mut one = cluster.instance("one");
        change(&mut one);
        let Err(status) = scheduler.create(one).await else {
            wrong.push(format!("{number} {field}: accepted"));
            continue;
        };
        let named = field_of(&status).unwrap_or_default();
        let close = named == *field || named.starts_with(&format!("{field}["));
        if status.code() != Code::InvalidArgument || !close {
            wrong.push(format!("{number} {field}: {named:?} {status:?}"));
        }
        assert!(status.message().len() < 600, "{status:?}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let left = cluster.rest().get("/instance/").await;
    assert_eq!(left, json!([]));

    // Of what nobody knows.
    for text in ["", "nobody", "a/b", "../x", "\u{0}"] {
        let id = || InstanceIdentifier { id: text.into() };
        let code = match text {
            "" => Code::InvalidArgument,
            _ => Code::NotFound,
        };
        for answer in [
            scheduler.start(id()).await,
            scheduler.stop(id()).await,
            scheduler.destroy(id()).await,
        ] {
            let status = answer.expect_err("there is none");
            assert_eq!(status.code(), code, "{text:?}: {status:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_creation_is_idempotent_and_conflicts_are_refused() {
    let cluster = cluster(0).await;
    let mut scheduler = cluster.client().await.scheduler();
    let one = cluster.instance("one");
    for _ in 0..3 {
        let mut updates = scheduler.create(one.clone()).await.unwrap().into_inner();
        let first = updates.message().await.unwrap().unwrap();
        assert_eq!(first.id, "id-one");
    }
    let mut other_spec = one.clone();
    other_spec.environnement = vec!["A=1".into()];
    let mut other_id = one.clone();
    other_id.id = "id-other".into();
    other_id.environnement = vec!["A=1".into()];
    let mut other_name = one.clone();
    other_name.name = "other".into();
    for another in [other_spec, other_id, other_name] {
        let status = scheduler.create(another).await.unwrap_err();
        assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    }
    let all = cluster.rest().get("/instance/").await;
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    assert_eq!(all[0]["environment"], json!([]), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_statuses_are_refused_and_change_nothing() {
    let cluster = cluster(0).await;
    let node = cluster.seed_node("seed").await;
    node.register().await.unwrap();
    let stream = node.stream(node.status(4000)).await;
    cluster.node_is("seed", "READY").await;
    let mut updates = cluster.create(cluster.instance("it")).await.unwrap();
    let scheduled = strata_testkit::scheduler::Status::Scheduled;
    updates.until_state(scheduled).await;
    let before = cluster.rest().get("/instance/id-it").await;

    // On the stream of statuses.
    let mut wrong = Vec::new();
    let change = |change: fn(&mut strata_testkit::scheduler::NodeStatus)| {
        let mut status = node.status(1000);
        change(&mut status);
        status
    };
    let statuses = [
        ("status", change(|s| s.status = 99)),
        (
            "resource.limit.cpu",
            change(|s| s.resource = limit(-1, 0, 0)),
        ),
        (
            "resource.limit.memory",
            change(|s| s.resource = limit(0, -1, 0)),
        ),
        (
            "resource.limit.disk",
            change(|s| s.resource = limit(0, 0, -1)),
        ),
        (
            "resource.usage.cpu",
            change(|s| {
                s.resource.as_mut().unwrap().usage.as_mut().unwrap().cpu = -1;
            }),
        ),
    ];
    for (field, status) in statuses {
        let refused = node.stream(status).await.end().await;
        check(field, refused.err(), &mut wrong);
    }

    // Pushed.
    let mut controller = node.client.controller();
    let instance = |id: &str, status: i32| controller::InstanceStatus {
        id: id.into(),
        status,
        description: String::new(),
    };
    for (field, status) in [
        ("status", instance("id-it", 99)),
        ("status", instance("id-it", -1)),
        ("id", instance("", 0)),
        ("id", instance("a b", 0)),
        ("id", instance(&"x".repeat(129), 0)),
    ] {
        let refused = controller.set_instance_status(status).await;
        check(field, refused.err(), &mut wrong);
    }
    let push = |change: fn(&mut controller::NodeStatus)| {
        let mut status = controller::NodeStatus {
            id: "seed".into(),
            ..Default::default()
        };
        change(&mut status);
        status
    };
    for (field, status) in [
        ("status", push(|s| s.status = 99)),
        (
            "resource.max.cpu",
            push(|s| {
                let max = controller::ResourceSummary {
                    cpu: -1,
                    ..Default::default()
                };
                s.resource = Some(controller::Resource {
                    max: Some(max),
                    usage: None,
                });
            }),
        ),
        (
            "resource.usage.disk",
            push(|s| {
                let usage = controller::ResourceSummary {
                    disk: -1,
                    ..Default::default()
                };
                s.resource = Some(controller::Resource {
                    max: None,
                    usage: Some(usage),
                });
                s.instances = vec![controller::Instance {
                    id: "id-it".into(),
                    ..Default::default()
                }];
            }),
        ),
        (
            "instances[0].status",
            push(|s| {
                s.instances = vec![controller::Instance {
                    id: "id-it".into(),
                    status: 99,
                    ..Default::default()
                }];
            }),
        ),
        (
            "instances[1].id",
            push(|s| {
                let first = controller::Instance {
                    id: "id-it".into(),
                    ..Default::default()
                };
                s.instances = vec![first, controller::Instance::default()];
            }),
        ),
    ] {
        let refused = controller.set_node_status(status).await;
        check(field, refused.err(), &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    let after = cluster.rest().get("/instance/id-it").await;
    assert_eq!(after, before);
    let seed = cluster.rest().get("/node/seed").await;
    assert_eq!(seed["capacity"]["cpu"], 4000, "{seed}");
    assert!(stream.is_open());
}

fn check(field: &str, refused: Option<strata_testkit::Status>, wrong: &mut Vec<String>) {
    let Some(status) = refused else {
        wrong.push(format!("{field}: accepted"));
        return;
    };
    let named = field_of(&status).unwrap_or_default();
    if status.code() != Code::InvalidArgument || named != field {
        wrong.push(format!("{field}: {named:?} {status:?}"));
    }
}

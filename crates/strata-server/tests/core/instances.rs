//! Instances: made, placed, changed, gone.

use strata_server::core::{DesiredState, InstanceUpdate, NodeFacts, Precondition, Quota};
use strata_types::instance::InstanceState;
use strata_types::{ErrorKind, Role};

use crate::world::{World, admin, label, new, spec};

#[tokio::test]
async fn instance_is_placed_on_a_node_that_fits() {
    let world = World::new().await;
    world.node("small", 1, 100).await;
    world.node("large", 8, 8000).await;
    world.create("web", spec(4000, 4000)).await;
    let web = world.until_state("web", InstanceState::Scheduled).await;
    assert_eq!(web.node.as_deref(), Some("large"));
    assert_eq!(web.description, "on node large");
}

#[tokio::test]
async fn unschedulable_instance_has_a_reason_and_is_placed_later() {
    let world = World::new().await;
    world.create("web", spec(4000, 4000)).await;
    let web = world.until_state("web", InstanceState::Failed).await;
    assert_eq!(web.description, "there are no nodes");
    world.node("small", 1, 100).await;
    let short =
        |now: &strata_server::core::Instance| now.description.contains("cpu short by 3.000");
    world.until("web", "too large", short).await;
    world.node("large", 8, 8000).await;
    world.until_state("web", InstanceState::Scheduled).await;
}

#[tokio::test]
async fn repeated_instance_creation_is_idempotent() {
    let world = World::new().await;
    let first = world.create("web", spec(100, 100)).await;
    let (same, is_new) = world
        .core
        .create_instance(&admin(), new("web", spec(100, 100)))
        .await
        .unwrap();
    assert_eq!((same.id.clone(), is_new), (first.id.clone(), false));
    let other = new("web", spec(200, 100));
    let other = world.core.create_instance(&admin(), other).await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn quota_holds_under_concurrent_creation() {
    let world = World::new().await;
    let quota = Quota {
        instances: Some(3),
        cpu: Some(1000),
        ..Quota::default()
    };
    let project = label("default");
    world
        .core
        .projects()
        .set_quota(&admin(), &project, quota, Precondition::default())
        .await
        .unwrap();
    let (principal, requested) = (
        admin(),
        (0..20).map(|i| new(&format!("i{i}"), spec(100, 10))),
    );
    let asked = requested.map(|new| world.core.create_instance(&principal, new));
    let answers = futures_util::future::join_all(asked).await;
    let made = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(made, 3);
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(
        refused
            .clone()
            .all(|error| error.kind() == ErrorKind::Exhausted)
    );
    assert!(
        refused
            .clone()
            .all(|error| error.message().contains("instances 3"))
    );
    assert_eq!(
        world.core.projects().get(&project).unwrap().used.instances,
        3
    );
}

#[tokio::test]
async fn another_specification_is_another_generation() {
    let world = World::new().await;
    world.node("n1", 8, 8000).await;
    let web = world.create("web", spec(100, 100)).await;
    world.until_state("web", InstanceState::Scheduled).await;
    let mut requested = spec(100, 100);
    requested.environment = vec!["A=1".into()];
    let change = InstanceUpdate {
        spec: Some(requested),
        ..InstanceUpdate::default()
    };
    let none = Precondition::default();
    let principal = admin();
    let next = world
        .core
        .update_instance(&principal, &web.id, change.clone(), none);
    let next = next.await.unwrap();
    assert_eq!((next.generation, next.node.as_deref()), (2, Some("n1")));
    // The same again changes nothing.
    let same = world
        .core
        .update_instance(&principal, &web.id, change, none);
    assert_eq!(same.await.unwrap().generation, 2);
    let stale = Precondition(Some(web.revision));
    let late = world
        .core
        .update_instance(&principal, &web.id, InstanceUpdate::default(), stale);
    assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Aborted);
}

/// Others change it at the same time, placement among them.
#[tokio::test]
async fn answer_to_an_update_is_what_the_update_wrote() {
    let world = World::new().await;
    world.node("n1", 8, 8000).await;
    let web = world.create("web", spec(100, 100)).await;
    world.until_state("web", InstanceState::Scheduled).await;
    let (principal, none) = (admin(), Precondition::default());
    let updates = (200..220).map(|cpu| {
        let change = InstanceUpdate {
            spec: Some(spec(cpu, 100)),
            ..InstanceUpdate::default()
        };
        let updated = world
            .core
            .update_instance(&principal, &web.id, change, none);
        async move { (cpu, updated.await.unwrap()) }
    });
    for (cpu, answer) in futures_util::future::join_all(updates).await {
        assert_eq!(answer.spec.resources.cpu, cpu);
        assert_eq!(answer.state, InstanceState::Scheduling);
        assert!(answer.description.contains("changed"), "{answer:?}");
    }
}

#[tokio::test]
async fn renamed_instance_frees_its_old_name() {
    let world = World::new().await;
    let web = world.create("web", spec(0, 0)).await;
    world.create("taken", spec(0, 0)).await;
    let named = |name: &str| InstanceUpdate {
        name: Some(label(name)),
        ..InstanceUpdate::default()
    };
    let none = Precondition::default();
    let principal = admin();
    let taken = world
        .core
        .update_instance(&principal, &web.id, named("taken"), none);
    assert_eq!(taken.await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let changed = world
        .core
        .update_instance(&principal, &web.id, named("site"), none);
    assert_eq!(changed.await.unwrap().name.as_str(), "site");
    let other = world.create("web", spec(0, 0)).await;
    assert_ne!(other.id, web.id);
}

#[tokio::test]
async fn unplaced_instance_is_deleted_immediately() {
    let world = World::new().await;
    let web = world.create("web", spec(0, 0)).await;
    world.until_state("web", InstanceState::Failed).await;
    let none = Precondition::default();
    world
        .core
        .delete_instance(&admin(), &web.id, none)
        .await
        .unwrap();
    assert!(world.get("web").is_none());
    let again = world.core.delete_instance(&admin(), &web.id, none).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::NotFound);
    world.create("web", spec(0, 0)).await;
}

#[tokio::test]
async fn project_limited_caller_sees_and_changes_no_other_project() {
    let world = World::new().await;
    let shop = label("shop");
    world
        .core
        .projects()
        .create(&admin(), &shop, Quota::default())
        .await
        .unwrap();
    let web = world.create("web", spec(0, 0)).await;
    let mut principal = admin();
    principal.role = Role::Operator;
    principal.projects = Some(vec![shop.clone()]);
    let hidden = world.core.instance(&principal, None, "web").unwrap_err();
    assert_eq!(hidden.kind(), ErrorKind::NotFound);
    let denied = world
        .core
        .create_instance(&principal, new("x", spec(0, 0)))
        .await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let stop = world.core.stop_instance(&principal, &web.id).await;
    assert_eq!(stop.unwrap_err().kind(), ErrorKind::NotFound);
    let mut own = new("x", spec(0, 0));
    own.project = shop;
    own.spec.uri = "nginx".into();
    world.core.create_instance(&principal, own).await.unwrap();
    let mut dir = new("y", spec(0, 0));
    dir.project = label("shop");
    dir.spec.volumes = vec!["/etc:/etc2".into()];
    let denied = world.core.create_instance(&principal, dir).await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn restarted_server_resumes_from_its_records() {
    let store = {
        let world = World::new().await;
        world.create("web", spec(1000, 100)).await;
        world.until_state("web", InstanceState::Failed).await;
        world.store.clone()
    };
    let world = World::over(store).await;
    assert_eq!(
        world.get("web").unwrap().desired_state,
        DesiredState::Running
    );
    world.node("n1", 4, 4000).await;
    world.until_state("web", InstanceState::Scheduled).await;
}

#[tokio::test]
async fn broken_store_watch_loses_no_change() {
    let world = World::new().await;
    world.node("n1", 64, 64_000).await;
    for i in 0..20 {
        world.store.break_watches();
        world.create(&format!("i{i}"), spec(100, 100)).await;
    }
    for i in 0..20 {
        world
            .until_state(&format!("i{i}"), InstanceState::Scheduled)
            .await;
    }
}

#[tokio::test]
async fn unavailable_store_is_reported_and_recovers() {
    let world = World::new().await;
    world.node("n1", 64, 64_000).await;
    world.store.fail_before(1);
    let error = world
        .core
        .create_instance(&admin(), new("a", spec(0, 0)))
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    // It was written, and the answer was lost: the same again finds it.
    world.store.fail_after(1);
    let error = world
        .core
        .create_instance(&admin(), new("b", spec(0, 0)))
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    world.until_state("b", InstanceState::Scheduled).await;
    let (_, is_new) = world
        .core
        .create_instance(&admin(), new("b", spec(0, 0)))
        .await
        .unwrap();
    assert!(!is_new);
}

#[tokio::test]
async fn placement_explanation_names_every_node() {
    let world = World::new().await;
    world.node("small", 1, 100).await;
    world.node("large", 8, 8000).await;
    let web = world.create("web", spec(4000, 100)).await;
    world.until_state("web", InstanceState::Scheduled).await;
    let why = world.placement.explain(&web.id, true).await.unwrap();
    assert_eq!(why.node.as_deref(), Some("large"));
    assert_eq!(why.nodes.len(), 2);
    let small = why.nodes.iter().find(|node| node.name == "small").unwrap();
    assert_eq!(small.reason, "cpu short by 3.000");
}

#[tokio::test]
async fn instance_with_a_pool_volume_waits_for_a_node_with_the_pool() {
    let world = World::new().await;
    world.node("far", 8, 8000).await;
    world.node("near", 1, 1000).await;
    let mut pooled = spec(100, 100);
    pooled.volumes = vec!["pool=data:/data".into()];
    let web = world.create("web", pooled).await;
    let failed = world.until_state("web", InstanceState::Failed).await;
    let why = "does not reach the storage pool";
    assert!(failed.description.contains(why), "{failed:?}");
    let reaches = |pool: &str| NodeFacts {
        pool: Some(pool.into()),
        ..NodeFacts::default()
    };
    world
        .core
        .update_node_facts("near", &reaches("p1"))
        .await
        .unwrap();
    let placed = world.until_state("web", InstanceState::Scheduled).await;
    assert_eq!(placed.node.as_deref(), Some("near"));
    let told = world.placement.explain(&web.id, true).await.unwrap();
    let far = told.nodes.iter().find(|node| node.name == "far").unwrap();
    assert_eq!(far.reason, why);
    // A report without the pool leaves it as it was.
    let node = world
        .core
        .update_node_facts("near", &NodeFacts::default())
        .await
        .unwrap();
    assert_eq!(node.pool, "p1");
    let node = world
        .core
        .update_node_facts("near", &reaches(""))
        .await
        .unwrap();
    assert_eq!(node.pool, "");
}

#[tokio::test]
async fn instance_id_is_not_taken_for_another_name() {
    let world = World::new().await;
    let shop = label("shop");
    let made = world
        .core
        .projects()
        .create(&admin(), &shop, Quota::default())
        .await;
    made.unwrap();
    let own = world.create("web", spec(0, 0)).await;
    let mut other = new("decoy", spec(0, 0));
    (other.project, other.id) = (shop.clone(), Some("web".parse().unwrap()));
    world.core.create_instance(&admin(), other).await.unwrap();
    let found = world
        .core
        .instance(&admin(), Some(&label("default")), "web");
    assert_eq!(found.unwrap().id, own.id);
    let mut limited = admin();
    limited.projects = Some(vec![label("default")]);
    let found = world.core.instance(&limited, None, "web");
    assert_eq!(found.unwrap().id, own.id);
}

#[tokio::test]
async fn stopped_instance_stays_stopped_when_updated() {
    let world = World::new().await;
    let web = world.create("web", spec(100, 100)).await;
    world.core.stop_instance(&admin(), &web.id).await.unwrap();
    let change = InstanceUpdate {
        spec: Some(spec(200, 100)),
        ..InstanceUpdate::default()
    };
    let (principal, none) = (admin(), Precondition::default());
    let changed = world
        .core
        .update_instance(&principal, &web.id, change, none);
    let changed = changed.await.unwrap();
    assert_eq!(changed.state, InstanceState::Stopped);
    assert_eq!(changed.desired_state, DesiredState::Stopped);
}

#[tokio::test]
async fn concurrent_update_of_the_same_revision_is_refused() {
    let world = World::new().await;
    let web = world.create("web", spec(100, 100)).await;
    let change = |cpu| InstanceUpdate {
        spec: Some(spec(cpu, 100)),
        made_from: Some(web.generation),
        ..InstanceUpdate::default()
    };
    let (principal, none) = (admin(), Precondition::default());
    let first = world
        .core
        .update_instance(&principal, &web.id, change(200), none);
    first.await.unwrap();
    let second = world
        .core
        .update_instance(&principal, &web.id, change(300), none);
    assert_eq!(second.await.unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(world.get("web").unwrap().spec.resources.cpu, 200);
}

#[tokio::test]
async fn higher_priority_instance_preempts() {
    let world = World::new().await;
    world.node("n1", 1, 1000).await;
    world.create("low", spec(800, 100)).await;
    world.until_state("low", InstanceState::Scheduled).await;
    let mut modest = spec(800, 100);
    modest.placement.priority = 10;
    world.create("modest", modest).await;
    world.until_state("modest", InstanceState::Failed).await;
    let mut high = spec(800, 100);
    (high.placement.priority, high.placement.preempts) = (20, true);
    world.create("high", high).await;
    let high = world.until_state("high", InstanceState::Scheduled).await;
    assert_eq!(high.node.as_deref(), Some("n1"));
    let low = world.until("low", "off", |now| now.node.is_none()).await;
    assert_eq!(
        low.desired_state,
        DesiredState::Running,
        "it waits for another place"
    );
    // And gets one, the more important of those that wait first.
    world.node("n2", 1, 1000).await;
    let modest = world.until_state("modest", InstanceState::Scheduled).await;
    assert_eq!(modest.node.as_deref(), Some("n2"));
}

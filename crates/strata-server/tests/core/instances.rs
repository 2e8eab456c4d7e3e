//! Instances: made, placed, changed, gone.

use strata_server::core::{Change, Precondition, Quota, Seen, Wanted};
use strata_types::instance::InstanceState;
use strata_types::{ErrorKind, Role};

use crate::world::{World, admin, label, new, spec};

#[tokio::test]
async fn an_instance_is_placed_where_there_is_room() {
    let world = World::new().await;
    world.node("small", 1, 100).await;
    world.node("large", 8, 8000).await;
    world.create("web", spec(4000, 4000)).await;
    let web = world.until_state("web", InstanceState::Scheduled).await;
    assert_eq!(web.node.as_deref(), Some("large"));
    assert_eq!(web.description, "on node large");
}

#[tokio::test]
async fn what_finds_no_place_says_why_and_gets_one_when_there_is_room() {
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
async fn the_same_again_is_the_same_and_another_is_refused() {
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
async fn a_quota_holds_however_many_ask_at_once() {
    let world = World::new().await;
    let quota = Quota {
        instances: Some(3),
        cpu: Some(1000),
        ..Quota::default()
    };
    let project = label("default");
    world
        .core
        .set_quota(&admin(), &project, quota, Precondition::default())
        .await
        .unwrap();
    let (who, wanted) = (
        admin(),
        (0..20).map(|i| new(&format!("i{i}"), spec(100, 10))),
    );
    let asked = wanted.map(|new| world.core.create_instance(&who, new));
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
    assert_eq!(world.core.project(&project).unwrap().used.instances, 3);
}

#[tokio::test]
async fn another_specification_is_another_generation() {
    let world = World::new().await;
    world.node("n1", 8, 8000).await;
    let web = world.create("web", spec(100, 100)).await;
    world.until_state("web", InstanceState::Scheduled).await;
    let mut wanted = spec(100, 100);
    wanted.environment = vec!["A=1".into()];
    let change = Change {
        spec: Some(wanted),
        ..Change::default()
    };
    let none = Precondition::default();
    let who = admin();
    let next = world
        .core
        .update_instance(&who, &web.id, change.clone(), none);
    let next = next.await.unwrap();
    assert_eq!((next.generation, next.node.as_deref()), (2, Some("n1")));
    // The same again changes nothing.
    let same = world.core.update_instance(&who, &web.id, change, none);
    assert_eq!(same.await.unwrap().generation, 2);
    let stale = Precondition(Some(web.revision));
    let late = world
        .core
        .update_instance(&who, &web.id, Change::default(), stale);
    assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Aborted);
}

#[tokio::test]
async fn a_new_name_frees_the_old_one() {
    let world = World::new().await;
    let web = world.create("web", spec(0, 0)).await;
    world.create("taken", spec(0, 0)).await;
    let named = |name: &str| Change {
        name: Some(label(name)),
        ..Change::default()
    };
    let none = Precondition::default();
    let who = admin();
    let taken = world
        .core
        .update_instance(&who, &web.id, named("taken"), none);
    assert_eq!(taken.await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let changed = world
        .core
        .update_instance(&who, &web.id, named("site"), none);
    assert_eq!(changed.await.unwrap().name.as_str(), "site");
    let other = world.create("web", spec(0, 0)).await;
    assert_ne!(other.id, web.id);
}

#[tokio::test]
async fn what_is_on_no_node_is_gone_at_once() {
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
async fn whoever_is_limited_to_a_project_sees_and_changes_no_other() {
    let world = World::new().await;
    let shop = label("shop");
    world
        .core
        .create_project(&admin(), &shop, Quota::default())
        .await
        .unwrap();
    let web = world.create("web", spec(0, 0)).await;
    let mut who = admin();
    who.role = Role::Operator;
    who.projects = Some(vec![shop.clone()]);
    let hidden = world.core.instance(&who, None, "web").unwrap_err();
    assert_eq!(hidden.kind(), ErrorKind::NotFound);
    let denied = world.core.create_instance(&who, new("x", spec(0, 0))).await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let stop = world.core.stop_instance(&who, &web.id).await;
    assert_eq!(stop.unwrap_err().kind(), ErrorKind::NotFound);
    let mut own = new("x", spec(0, 0));
    own.project = shop;
    own.spec.uri = "nginx".into();
    world.core.create_instance(&who, own).await.unwrap();
    let mut folder = new("y", spec(0, 0));
    folder.project = label("shop");
    folder.spec.volumes = vec!["/etc:/etc2".into()];
    let denied = world.core.create_instance(&who, folder).await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_server_that_is_started_again_knows_all_and_goes_on() {
    let store = {
        let world = World::new().await;
        world.create("web", spec(1000, 100)).await;
        world.until_state("web", InstanceState::Failed).await;
        world.store.clone()
    };
    let world = World::over(store).await;
    assert_eq!(world.get("web").unwrap().wanted, Wanted::Running);
    world.node("n1", 4, 4000).await;
    world.until_state("web", InstanceState::Scheduled).await;
}

#[tokio::test]
async fn a_watch_that_breaks_loses_nothing() {
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
async fn a_store_that_does_not_answer_is_told_and_got_over() {
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
async fn an_explanation_names_every_node() {
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
async fn what_has_a_volume_of_the_pool_waits_for_a_node_that_reaches_it() {
    let world = World::new().await;
    world.node("far", 8, 8000).await;
    world.node("near", 1, 1000).await;
    let mut pooled = spec(100, 100);
    pooled.volumes = vec!["pool=data:/data".into()];
    let web = world.create("web", pooled).await;
    let failed = world.until_state("web", InstanceState::Failed).await;
    let why = "does not reach the storage pool";
    assert!(failed.description.contains(why), "{failed:?}");
    let reaches = |pool: &str| Seen {
        pool: Some(pool.into()),
        ..Seen::default()
    };
    world.core.see_node("near", &reaches("p1")).await.unwrap();
    let placed = world.until_state("web", InstanceState::Scheduled).await;
    assert_eq!(placed.node.as_deref(), Some("near"));
    let told = world.placement.explain(&web.id, true).await.unwrap();
    let far = told.nodes.iter().find(|node| node.name == "far").unwrap();
    assert_eq!(far.reason, why);
    // What says nothing of the pool leaves it as it was.
    let node = world.core.see_node("near", &Seen::default()).await.unwrap();
    assert_eq!(node.pool, "p1");
    let node = world.core.see_node("near", &reaches("")).await.unwrap();
    assert_eq!(node.pool, "");
}

#[tokio::test]
async fn an_id_does_not_stand_in_for_the_name_of_another() {
    let world = World::new().await;
    let shop = label("shop");
    let made = world
        .core
        .create_project(&admin(), &shop, Quota::default())
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
async fn what_rests_goes_on_resting_when_it_is_changed() {
    let world = World::new().await;
    let web = world.create("web", spec(100, 100)).await;
    world.core.stop_instance(&admin(), &web.id).await.unwrap();
    let change = Change {
        spec: Some(spec(200, 100)),
        ..Change::default()
    };
    let (who, none) = (admin(), Precondition::default());
    let changed = world.core.update_instance(&who, &web.id, change, none);
    let changed = changed.await.unwrap();
    assert_eq!(changed.state, InstanceState::Stopped);
    assert_eq!(changed.wanted, Wanted::Stopped);
}

#[tokio::test]
async fn of_two_changes_made_from_the_same_one_is_refused() {
    let world = World::new().await;
    let web = world.create("web", spec(100, 100)).await;
    let change = |cpu| Change {
        spec: Some(spec(cpu, 100)),
        made_from: Some(web.generation),
        ..Change::default()
    };
    let (who, none) = (admin(), Precondition::default());
    let first = world.core.update_instance(&who, &web.id, change(200), none);
    first.await.unwrap();
    let second = world.core.update_instance(&who, &web.id, change(300), none);
    assert_eq!(second.await.unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(world.get("web").unwrap().spec.resources.cpu, 200);
}

#[tokio::test]
async fn who_is_more_important_and_may_takes_the_place_of_another() {
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
    assert_eq!(low.wanted, Wanted::Running, "it waits for another place");
    // And gets one, the more important of those who wait first.
    world.node("n2", 1, 1000).await;
    let modest = world.until_state("modest", InstanceState::Scheduled).await;
    assert_eq!(modest.node.as_deref(), Some("n2"));
}

//! Nodes: subnets, silence, draining, leaving.

use std::collections::BTreeSet;

use strata_server::core::{Core, Instance, NodeCondition, Registration};
use strata_types::instance::InstanceState;
use strata_types::pod::RestartPolicy;

use crate::world::{World, admin, facts, spec};

fn registration(name: &str, subnet: Option<&str>) -> Registration {
    Registration {
        name: name.into(),
        subnet: subnet.map(Into::into),
    }
}

#[tokio::test]
async fn node_subnets_are_distinct_and_stable() {
    let world = World::new().await;
    let names: Vec<String> = (0..20).map(|i| format!("n{i}")).collect();
    let registrations: Vec<_> = names.iter().map(|name| registration(name, None)).collect();
    let asked = registrations
        .iter()
        .map(|one| world.core.register_node(one));
    let nodes = futures_util::future::join_all(asked).await;
    let subnets: BTreeSet<String> = nodes
        .iter()
        .map(|n| n.as_ref().unwrap().subnet.clone())
        .collect();
    assert_eq!(subnets.len(), 20);
    let again = world.core.register_node(&registrations[7]).await.unwrap();
    assert_eq!(again.subnet, nodes[7].as_ref().unwrap().subnet);
    let requested = registration("own", Some("10.42.200.0/24"));
    let own = world.core.register_node(&requested).await.unwrap();
    assert_eq!(own.subnet, "10.42.200.0/24");
    let foreign = registration("foreign", Some("192.168.0.0/24"));
    let foreign = world.core.register_node(&foreign).await.unwrap();
    assert!(foreign.subnet.starts_with("10.42."));
}

#[tokio::test]
async fn silent_node_is_lost_and_its_instances_are_rescheduled() {
    let world = World::new().await;
    world.node("n1", 4, 4000).await;
    world.create("web", spec(1000, 100)).await;
    let mut once = spec(1000, 100);
    once.restart = RestartPolicy::Never;
    world.create("once", once).await;
    for name in ["web", "once"] {
        let placed = world.until_state(name, InstanceState::Scheduled).await;
        assert_eq!(placed.node.as_deref(), Some("n1"));
    }
    world.node("n2", 4, 4000).await;
    // Only one of them still sends heartbeats. What runs once was never
    // started, so it may be started elsewhere, too.
    let _speaking = world.speaking(&["n2"]);
    for name in ["web", "once"] {
        let on_n2 = |now: &Instance| now.node.as_deref() == Some("n2");
        let moved = world.until(name, "on n2", on_n2).await;
        assert_eq!(moved.state, InstanceState::Scheduled, "{name}");
    }
    assert_eq!(
        world.core.node("n1").unwrap().condition,
        NodeCondition::Lost
    );
    world
        .core
        .update_node_facts("n1", &facts(4, 4000))
        .await
        .unwrap();
    assert_eq!(
        world.core.node("n1").unwrap().condition,
        NodeCondition::Ready
    );
}

#[tokio::test]
async fn drain_reschedules_as_many_instances_as_fit() {
    let world = World::new().await;
    world.node("n1", 4, 4000).await;
    world.create("a", spec(2000, 100)).await;
    world.create("b", spec(2000, 100)).await;
    for name in ["a", "b"] {
        world.until_state(name, InstanceState::Scheduled).await;
    }
    world.node("n2", 2, 4000).await;
    world.core.drain_node(&admin(), "n1", true).await.unwrap();
    let _speaking = world.speaking(&["n1", "n2", "n3"]);
    let on = |node: &'static str| move |now: &Instance| now.node.as_deref() == Some(node);
    let one_moved = |core: &Core| core.instances_on("n2") == 1;
    world.until_true("one is on n2", one_moved).await;
    assert_eq!(world.core.instances_on("n1"), 1, "one has no other place");
    world.node("n3", 2, 4000).await;
    let rest = if on("n1")(&world.get("a").unwrap()) {
        "a"
    } else {
        "b"
    };
    let moved = world.until(rest, "on n3", on("n3")).await;
    assert_eq!(moved.state, InstanceState::Scheduled);
    world.core.leave_node("n1", false).await.unwrap();
    let gone = |core: &Core| core.node("n1").is_err();
    world.until_true("n1 is forgotten", gone).await;
}

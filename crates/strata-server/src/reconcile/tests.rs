//! What no caller requested and the reconcilers must correct.

use std::sync::Arc;
use std::time::Duration;

use strata_store::Memory;
use strata_types::instance::{InstanceSpec, InstanceState};
use strata_types::{Label, Role};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::start_liveness;
use crate::core::{
    Core, CoreSettings, Instance, Lead, NewInstance, NodeFacts, NodeLoss, Principal, Range,
    Refusal, Registration, StateReason, Versioned,
};
use crate::placement;

struct World {
    core: Core,
    _placement: placement::PlacementHandle,
    _shutdown: DropGuard,
}

fn principal() -> Principal {
    Principal {
        name: "somebody".into(),
        role: Role::Admin,
        projects: None,
    }
}

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

async fn world() -> World {
    let settings = CoreSettings {
        range: Range::DEFAULT,
        lease: Duration::from_secs(60),
        placement: Default::default(),
        overcommit: Default::default(),
        alone: true,
        bounds: Default::default(),
        events_file: None,
        server_port: None,
    };
    let shutdown = CancellationToken::new();
    let core = Core::open(Arc::new(Memory::new()), settings, shutdown.clone());
    let core = core.await.unwrap();
    core.set_lead(Lead::Leading(None));
    let placement = placement::start(core.clone(), shutdown.clone());
    start_liveness(core.clone(), shutdown.clone());
    World {
        core,
        _placement: placement,
        _shutdown: shutdown.drop_guard(),
    }
}

impl World {
    async fn node(&self, name: &str) {
        let registration = Registration {
            name: name.into(),
            subnet: None,
        };
        self.core.register_node(&registration).await.unwrap();
        let facts = NodeFacts {
            capacity: Some((4000, 4_000_000_000, 0)),
            follows: Some(true),
            ..NodeFacts::default()
        };
        self.core.update_node_facts(name, &facts).await.unwrap();
    }

    async fn create(&self) {
        let new = NewInstance {
            id: None,
            name: Some(label("web")),
            project: label("default"),
            workload: None,
            spec: InstanceSpec {
                uri: "x".into(),
                ..InstanceSpec::default()
            },
            fresh_id: None,
            desired_state: None,
        };
        self.core.create_instance(&principal(), new).await.unwrap();
    }

    async fn until(&self, holds: impl Fn(&Instance) -> bool) -> Arc<Versioned<Instance>> {
        let mut changes = self.core.watch_all();
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                let now = self.core.instance(&principal(), None, "web").unwrap();
                if holds(&now) {
                    return now;
                }
                let _ = changes.recv().await;
            }
        });
        let now = self.core.instance(&principal(), None, "web");
        waited
            .await
            .unwrap_or_else(|_| panic!("waited in vain: {now:?}"))
    }
}

fn refusal(one: &Instance, generation: u64) -> Refusal<'_> {
    Refusal {
        id: &one.id,
        generation,
        epoch: one.epoch,
        why: "no room",
    }
}

fn is_on(node: &'static str) -> impl Fn(&Instance) -> bool {
    move |now| now.node.as_deref() == Some(node)
}

#[tokio::test]
async fn refused_instance_is_rescheduled_and_may_return() {
    let world = world().await;
    world.node("n1").await;
    world.create().await;
    let web = world.until(is_on("n1")).await;
    let refused = refusal(&web, web.generation);
    world.core.refuse("n1", &refused).await.unwrap();
    let failed = world.until(|now| now.state == InstanceState::Failed).await;
    assert!(
        failed.description.contains("n1 refused it: no room"),
        "{failed:?}"
    );
    assert!(
        failed.refusals.is_empty(),
        "it is told once, and not for ever"
    );
    // There is another: it goes there, and not to the one that refused it.
    world.node("n2").await;
    let placed = world.until(|now| now.node.is_some()).await;
    let node = placed.node.clone().unwrap();
    let other = if node == "n1" { "n2" } else { "n1" };
    let refused = refusal(&placed, placed.generation);
    world.core.refuse(&node, &refused).await.unwrap();
    world.until(|now| now.node.as_deref() == Some(other)).await;
    // Of an older generation or of another node it means nothing.
    let stale = refusal(&placed, 0);
    world.core.refuse(other, &stale).await.unwrap();
    let now = world.core.instance(&principal(), None, "web").unwrap();
    assert_eq!(now.node.as_deref(), Some(other));
}

#[tokio::test]
async fn instances_of_a_removed_node_are_rescheduled() {
    let world = world().await;
    world.node("n1").await;
    world.create().await;
    world.until(is_on("n1")).await;
    world.node("n2").await;
    world.core.remove_node("n1").await.unwrap();
    world.until(is_on("n2")).await;
}

#[tokio::test]
async fn follower_marks_no_node_lost() {
    let world = world().await;
    world.node("n1").await;
    world.create().await;
    let web = world.until(is_on("n1")).await;
    world.core.set_lead(Lead::Following(None));
    world
        .core
        .mark_node_lost("n1", "silence")
        .await
        .unwrap_err();
    let why = StateReason {
        full: "silence of n1".into(),
        limited: "silence".into(),
    };
    let loss = NodeLoss {
        node: "n1".into(),
        revision: Some(world.core.node("n1").unwrap().revision),
        silent: false,
        witnessed: false,
    };
    let moved = world.core.fail_over(&loss, &web.id, &why);
    moved.await.unwrap_err();
    let now = world.core.instance(&principal(), None, "web").unwrap();
    assert_eq!(now.node.as_deref(), Some("n1"));
}

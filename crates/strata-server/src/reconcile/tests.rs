//! What nobody asked for and must come right by itself.

use std::sync::Arc;
use std::time::Duration;

use strata_store::Memory;
use strata_types::instance::{InstanceSpec, InstanceState};
use strata_types::{Label, Role};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::start_liveness;
use crate::core::{
    Core, CoreSettings, Instance, Kept, Lead, NewInstance, Range, Registration, Seen, Who, Why,
};
use crate::placement;

struct World {
    core: Core,
    _placement: placement::PlacementHandle,
    _shutdown: DropGuard,
}

fn who() -> Who {
    Who {
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
        let seen = Seen {
            capacity: Some((4000, 4_000_000_000, 0)),
            follows: Some(true),
            ..Seen::default()
        };
        self.core.see_node(name, &seen).await.unwrap();
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
            wanted: None,
        };
        self.core.create_instance(&who(), new).await.unwrap();
    }

    async fn until(&self, holds: impl Fn(&Instance) -> bool) -> Arc<Kept<Instance>> {
        let mut changes = self.core.watch_all();
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                let now = self.core.instance(&who(), None, "web").unwrap();
                if holds(&now) {
                    return now;
                }
                let _ = changes.recv().await;
            }
        });
        let now = self.core.instance(&who(), None, "web");
        waited
            .await
            .unwrap_or_else(|_| panic!("waited in vain: {now:?}"))
    }
}

fn is_on(node: &'static str) -> impl Fn(&Instance) -> bool {
    move |now| now.node.as_deref() == Some(node)
}

#[tokio::test]
async fn what_a_node_refused_is_placed_elsewhere_and_may_come_back() {
    let world = world().await;
    world.node("n1").await;
    world.create().await;
    let web = world.until(is_on("n1")).await;
    let refused = world.core.refuse("n1", &web.id, web.generation, "no room");
    refused.await.unwrap();
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
    let refused = world
        .core
        .refuse(&node, &placed.id, placed.generation, "no room");
    refused.await.unwrap();
    world.until(|now| now.node.as_deref() == Some(other)).await;
    // Of an older generation or of another node it means nothing.
    let stale = world.core.refuse(other, &placed.id, 0, "no room");
    stale.await.unwrap();
    let now = world.core.instance(&who(), None, "web").unwrap();
    assert_eq!(now.node.as_deref(), Some(other));
}

#[tokio::test]
async fn what_is_on_a_node_that_is_forgotten_is_placed_elsewhere() {
    let world = world().await;
    world.node("n1").await;
    world.create().await;
    world.until(is_on("n1")).await;
    world.node("n2").await;
    world.core.forget_node("n1").await.unwrap();
    world.until(is_on("n2")).await;
}

#[tokio::test]
async fn a_server_that_does_not_lead_takes_nobody_for_lost() {
    let world = world().await;
    world.node("n1").await;
    world.create().await;
    let web = world.until(is_on("n1")).await;
    world.core.set_lead(Lead::Following(None));
    world.core.lose_node("n1", "silence").await.unwrap_err();
    let why = Why {
        full: "silence of n1".into(),
        limited: "silence".into(),
    };
    let moved = world.core.move_off("n1", &web.id, &why, false);
    moved.await.unwrap_err();
    let now = world.core.instance(&who(), None, "web").unwrap();
    assert_eq!(now.node.as_deref(), Some("n1"));
}

//! Every kind of operation, through the trials that every kind has to pass.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_server::core::Core;
use strata_server::operations::{Drain, DrainInput};
use strata_types::instance::InstanceState;
use strata_workflow::testing::{self, KindHarness};
use tokio_util::task::AbortOnDropHandle;

use crate::world::{World, admin, spec};

/// A node with an instance on it, and another with room.
struct Draining {
    leave: bool,
    /// What the trials work on, as long as they do.
    worlds: Mutex<Vec<Speaking>>,
}

impl Draining {
    fn new(leave: bool) -> Self {
        let worlds = Mutex::default();
        Self { leave, worlds }
    }
}

/// Both nodes send heartbeats as long as the world is there.
struct Speaking {
    _world: World,
    _voices: AbortOnDropHandle<()>,
}

async fn world(trial: &Draining) -> Arc<Core> {
    let world = World::new().await;
    world.node("old", 4, 4000).await;
    world.create("web", spec(1000, 100)).await;
    world.until_state("web", InstanceState::Scheduled).await;
    world.node("new", 4, 4000).await;
    let core = world.core.clone();
    let voices = world.speaking(&["old", "new"]);
    let mut worlds = trial.worlds.lock().expect("nobody panics with it");
    worlds.push(Speaking {
        _world: world,
        _voices: voices,
    });
    Arc::new(core)
}

impl KindHarness for Draining {
    type Kind = Drain;

    fn kind(&self) -> Drain {
        Drain
    }

    fn world(&self) -> BoxFuture<'_, Arc<Core>> {
        world(self).boxed()
    }

    fn input(&self, _: &Core) -> DrainInput {
        DrainInput {
            node: "old".into(),
            leave: self.leave,
            was_closed: false,
            was_lost: false,
        }
    }

    fn done<'a>(&'a self, core: &'a Core) -> BoxFuture<'a, ()> {
        async {
            assert_eq!(core.instances_on("old"), 0);
            assert_eq!(core.instances_on("new"), 1);
            match core.node("old") {
                Ok(node) => assert!(node.draining && !self.leave),
                Err(_) => assert!(self.leave),
            }
        }
        .boxed()
    }

    /// Instances that moved stay where they are; the node is open again.
    fn clean<'a>(&'a self, core: &'a Core) -> BoxFuture<'a, ()> {
        async {
            if let Ok(old) = core.node("old") {
                assert!(!old.draining, "it is open again");
            }
            let web = core.instance(&admin(), None, "web").expect("it is there");
            assert!(web.node.is_some(), "it has a place");
        }
        .boxed()
    }
}

#[tokio::test]
async fn draining_a_node_passes_every_trial() {
    let trial = Draining::new(false);
    testing::every_step_twice(&trial).await;
    testing::fail_at_every_step(&trial).await;
    testing::fail_and_undo_twice(&trial).await;
    testing::crash_at_every_step(&trial).await;
    testing::cancel_at_every_step(&trial).await;
}

#[tokio::test]
async fn leaving_node_is_removed() {
    let trial = Draining::new(true);
    testing::every_step_twice(&trial).await;
    testing::crash_at_every_step(&trial).await;
}

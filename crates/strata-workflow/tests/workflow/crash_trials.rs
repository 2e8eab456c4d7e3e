//! The tests that every kind has to pass, on one that passes and on some that
//! must not.

use std::sync::Arc;

use crate::support::{Build, BuildWorld, World, house};
use futures_util::future::BoxFuture;
use strata_workflow::testing::{
    KindHarness, cancel_at_every_step, crash_at_every_step, every_step_twice, fail_and_undo_twice,
    fail_at_every_step,
};
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

struct Building {
    rooms: u32,
}

impl KindHarness for Building {
    type Kind = Build;

    fn kind(&self) -> Build {
        Build
    }

    fn world(&self) -> BoxFuture<'_, Arc<World>> {
        let world = World::default();
        world.put("tree", "old");
        Box::pin(async { Arc::new(world) })
    }

    fn input(&self, _: &World) -> BuildWorld {
        house("h", self.rooms)
    }

    fn done<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        Box::pin(async {
            let stair = usize::from(self.rooms > 1);
            assert_eq!(world.names().len(), self.rooms as usize + stair + 2);
        })
    }

    fn clean<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        Box::pin(async { assert_eq!(world.names(), ["tree"]) })
    }
}

#[tokio::test]
async fn build_steps_are_idempotent() {
    every_step_twice(&Building { rooms: 3 }).await;
}

#[tokio::test]
async fn failure_at_every_step_leaves_nothing() {
    fail_at_every_step(&Building { rooms: 3 }).await;
}

#[tokio::test]
async fn undo_steps_are_idempotent() {
    fail_and_undo_twice(&Building { rooms: 3 }).await;
}

#[tokio::test]
async fn crash_at_every_step_is_recovered() {
    crash_at_every_step(&Building { rooms: 3 }).await;
}

#[tokio::test]
async fn cancellation_at_every_step_leaves_nothing() {
    cancel_at_every_step(&Building { rooms: 3 }).await;
}

/// A kind with one fault.
#[derive(Clone, Copy)]
enum Faulty {
    /// A second time makes a second thing.
    Counts,
    /// The undo is missing.
    Forgets,
    /// The undo fails when there is nothing to undo.
    UndoesOnce,
}

impl Kind for Faulty {
    type Input = ();
    type Context = World;
    const NAME: &'static str = "faulty";

    fn claims(&self, (): &()) -> Vec<Claim> {
        Vec::new()
    }

    fn steps(&self, (): &(), _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let fault = *self;
        let step = Step::new("thing", move |ctx: StepContext<Self>| async move {
            let count = match fault {
                Self::Counts => ctx.context.names().len(),
                Self::Forgets | Self::UndoesOnce => 0,
            };
            ctx.context.put(format!("thing-{count}"), "");
            Ok(())
        });
        let last = Step::new("last", |_: StepContext<Self>| async { Ok(()) });
        Ok(match fault {
            Self::Forgets => vec![step, last],
            Self::Counts | Self::UndoesOnce => vec![step.undo(take_all), last],
        })
    }
}

async fn take_all(ctx: StepContext<Faulty>) -> Result<(), StepError> {
    let names = ctx.context.names();
    if names.is_empty() {
        return Err(StepError::permanent("there is nothing"));
    }
    for name in names {
        ctx.context.take(&name);
    }
    Ok(())
}

impl KindHarness for Faulty {
    type Kind = Self;

    fn kind(&self) -> Self {
        *self
    }

    fn world(&self) -> BoxFuture<'_, Arc<World>> {
        Box::pin(async { Arc::default() })
    }

    fn input(&self, _: &World) {}

    fn done<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        Box::pin(async { assert_eq!(world.names(), ["thing-0"]) })
    }

    fn clean<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        Box::pin(async { assert!(world.names().is_empty(), "something is left") })
    }
}

#[tokio::test]
#[should_panic(expected = "thing-1")]
async fn non_idempotent_step_is_detected() {
    every_step_twice(&Faulty::Counts).await;
}

#[tokio::test]
#[should_panic(expected = "something is left")]
async fn missing_undo_is_detected() {
    fail_at_every_step(&Faulty::Forgets).await;
}

#[tokio::test]
#[should_panic(expected = "there is nothing")]
async fn non_idempotent_undo_is_detected() {
    fail_and_undo_twice(&Faulty::UndoesOnce).await;
}

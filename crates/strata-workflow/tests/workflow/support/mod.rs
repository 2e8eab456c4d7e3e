//! A fake world, and an operation that builds something in it.

pub(crate) mod custom;
pub(crate) mod flaky;
pub(crate) mod scripted;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_store::{Memory, Store};
use strata_workflow::{
    Claim, Kind, Operations, Outputs, Registry, Retry, Settings, Step, StepContext, StepError,
    Workflow,
};

/// Things by their names.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) things: Mutex<BTreeMap<String, String>>,
}

impl World {
    pub(crate) fn put(&self, name: impl Into<String>, thing: impl Into<String>) {
        self.things
            .lock()
            .unwrap()
            .insert(name.into(), thing.into());
    }

    pub(crate) fn take(&self, name: &str) {
        self.things.lock().unwrap().remove(name);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.things.lock().unwrap().keys().cloned().collect()
    }
}

/// Builds a house: an address, as many rooms as requested, and for a house of
/// more than one room a stair, which is known only when the plot is.
pub(crate) struct Build;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct BuildWorld {
    pub(crate) name: String,
    pub(crate) rooms: u32,
}

pub(crate) fn house(name: &str, rooms: u32) -> BuildWorld {
    let name = name.into();
    BuildWorld { name, rooms }
}

impl Kind for Build {
    type Input = BuildWorld;
    type Context = World;
    const NAME: &'static str = "build";

    fn claims(&self, house: &BuildWorld) -> Vec<Claim> {
        vec![Claim::exclusive(format!("house/{}", house.name))]
    }

    fn steps(&self, house: &BuildWorld, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![plot()];
        steps.extend((0..house.rooms).map(room));
        if outputs.find::<u32>("plot")?.is_some_and(|size| size > 1) {
            steps.push(stair());
        }
        Ok(steps)
    }
}

fn plot() -> Step<Build> {
    Step::new("plot", |ctx: StepContext<Build>| async move {
        ctx.context.put(format!("{}/plot", ctx.input.name), "plot");
        ctx.progress_to(0.5, "half of it");
        Ok(ctx.input.rooms)
    })
    .undo(|ctx: StepContext<Build>| async move {
        ctx.context.take(&format!("{}/plot", ctx.input.name));
        Ok(())
    })
}

fn room(number: u32) -> Step<Build> {
    Step::new(
        format!("room-{number}"),
        move |ctx: StepContext<Build>| async move {
            ctx.safe_point()?;
            let name = format!("{}/room-{number}", ctx.input.name);
            ctx.context.put(&name, ctx.operation().to_string());
            Ok(name)
        },
    )
    .undo(move |ctx: StepContext<Build>| async move {
        ctx.context
            .take(&format!("{}/room-{number}", ctx.input.name));
        Ok(())
    })
}

fn stair() -> Step<Build> {
    Step::new("stair", |ctx: StepContext<Build>| async move {
        let first: String = ctx.output("room-0")?;
        ctx.context.put(format!("{}/stair", ctx.input.name), first);
        Ok(())
    })
    .undo(|ctx: StepContext<Build>| async move {
        ctx.context.take(&format!("{}/stair", ctx.input.name));
        Ok(())
    })
}

/// No pauses.
pub(crate) fn at_once(attempts: u32) -> Retry {
    Retry {
        attempts,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
    }
}

/// An engine for one kind.
pub(crate) async fn engine<K: Kind>(
    store: &Arc<Memory>,
    kind: K,
    context: &Arc<K::Context>,
    settings: Settings,
) -> Workflow {
    Workflow::open(operations(store, kind, context), settings)
        .await
        .unwrap()
}

/// Operations of one kind.
pub(crate) fn operations<K: Kind>(
    store: &Arc<Memory>,
    kind: K,
    context: &Arc<K::Context>,
) -> Operations {
    let mut registry = Registry::new();
    registry.register(kind, Arc::clone(context)).unwrap();
    Operations::new(Arc::clone(store) as Arc<dyn Store>, registry)
}

/// Fails if it takes too long.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work)
        .await
        .expect("it takes too long")
}

/// Polls until it is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), look).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

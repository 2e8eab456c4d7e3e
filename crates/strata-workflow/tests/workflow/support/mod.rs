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
    At, Claim, Kind, Operations, Outputs, Registry, Retry, Settings, Step, StepError, Workflow,
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

/// Builds a house: an address, as many rooms as asked, and for a house of
/// more than one room a stair, which is known only when the plot is.
pub(crate) struct Build;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct House {
    pub(crate) name: String,
    pub(crate) rooms: u32,
}

pub(crate) fn house(name: &str, rooms: u32) -> House {
    let name = name.into();
    House { name, rooms }
}

impl Kind for Build {
    type Input = House;
    type Context = World;
    const NAME: &'static str = "build";

    fn claims(&self, house: &House) -> Vec<Claim> {
        vec![Claim::exclusive(format!("house/{}", house.name))]
    }

    fn steps(&self, house: &House, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![plot()];
        steps.extend((0..house.rooms).map(room));
        if outputs.find::<u32>("plot")?.is_some_and(|size| size > 1) {
            steps.push(stair());
        }
        Ok(steps)
    }
}

fn plot() -> Step<Build> {
    Step::new("plot", |at: At<Build>| async move {
        at.context.put(format!("{}/plot", at.input.name), "plot");
        at.progress_to(0.5, "half of it");
        Ok(at.input.rooms)
    })
    .undo(|at: At<Build>| async move {
        at.context.take(&format!("{}/plot", at.input.name));
        Ok(())
    })
}

fn room(number: u32) -> Step<Build> {
    Step::new(format!("room-{number}"), move |at: At<Build>| async move {
        at.safe_point()?;
        let name = format!("{}/room-{number}", at.input.name);
        at.context.put(&name, at.operation().to_string());
        Ok(name)
    })
    .undo(move |at: At<Build>| async move {
        at.context.take(&format!("{}/room-{number}", at.input.name));
        Ok(())
    })
}

fn stair() -> Step<Build> {
    Step::new("stair", |at: At<Build>| async move {
        let first: String = at.output("room-0")?;
        at.context.put(format!("{}/stair", at.input.name), first);
        Ok(())
    })
    .undo(|at: At<Build>| async move {
        at.context.take(&format!("{}/stair", at.input.name));
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

/// Looks again and again until it is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), look).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

//! One run of a kind on trial: a store, a world, an engine.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use strata_store::{Memory, Store};
use tokio::time::timeout;

use super::tamper::{Tamper, Tampered};
use super::{Death, Mortal, Trial};
use crate::registry::{AnyKind, Registered};
use crate::{
    Kind, Operation, OperationId, Operations, Registry, Settings, Workflow, WorkflowError,
};

/// No trial takes longer, or something hangs.
const LONGEST: Duration = Duration::from_secs(60);

type Context<T> = <<T as Trial>::Kind as Kind>::Context;

pub(super) struct Rig<T: Trial> {
    pub(super) world: Arc<Context<T>>,
    store: Arc<dyn Store>,
    registry: Registry,
    operations: Arc<OnceLock<Operations>>,
    input: <T::Kind as Kind>::Input,
}

impl<T: Trial> Rig<T> {
    pub(super) async fn new(trial: &T, tamper: Tamper) -> Self {
        let world = trial.world().await;
        let kind: Arc<dyn AnyKind> = Arc::new(Registered {
            kind: trial.kind(),
            context: Arc::clone(&world),
        });
        let operations = Arc::new(OnceLock::new());
        let tampered = Tampered {
            kind,
            tamper,
            operations: Arc::clone(&operations),
        };
        let mut registry = Registry::new();
        expect(registry.insert(T::Kind::NAME, Arc::new(tampered)));
        Self {
            input: trial.input(&world),
            world,
            store: Arc::new(Memory::new()),
            registry,
            operations,
        }
    }

    /// Runs it to its end.
    pub(super) async fn run(&self) -> Operation {
        let id = self.submit().await;
        self.finish(id).await
    }

    /// Runs it on an engine that dies at a write, if it gets there, and to its
    /// end on another. Tells whether the first one died.
    pub(super) async fn run_with_death(&self, commits: usize, death: Death) -> (Operation, bool) {
        let id = self.submit().await;
        let mortal = Arc::new(Mortal::new(Arc::clone(&self.store), commits, death));
        let store = Arc::clone(&mortal) as Arc<dyn Store>;
        let operations = Operations::new(store, self.registry.clone());
        let engine = expect(Workflow::open(operations, Settings::default()).await);
        let died = timeout(LONGEST, async {
            tokio::select! {
                () = mortal.died() => true,
                _ = engine.operations().wait(id) => false,
            }
        });
        let died = died.await.unwrap_or(false);
        engine.shutdown().await;
        (self.finish(id).await, died)
    }

    async fn submit(&self) -> OperationId {
        let operations = Operations::new(Arc::clone(&self.store), self.registry.clone());
        let id = operations.submit::<T::Kind>(&self.input, "trial", None);
        let id = expect(id.await);
        // Only the first of a rig is kept; all of them are the same.
        let _ = self.operations.set(operations);
        id
    }

    async fn finish(&self, id: OperationId) -> Operation {
        let operations = Operations::new(Arc::clone(&self.store), self.registry.clone());
        let engine = expect(Workflow::open(operations, Settings::default()).await);
        let ended = timeout(LONGEST, engine.operations().wait(id)).await;
        let Ok(ended) = ended else {
            let state = engine.operations().get(id).await;
            panic!("it has not ended after {LONGEST:?}: {state:?}");
        };
        engine.shutdown().await;
        expect(ended)
    }
}

fn expect<V>(result: Result<V, WorkflowError>) -> V {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

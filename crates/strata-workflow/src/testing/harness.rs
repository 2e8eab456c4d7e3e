//! One run of a kind on trial: a store, a world, an engine.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use strata_store::{Memory, Store};
use tokio::time::timeout;

use super::fault_injector::{FaultInjector, InjectedKind};
use super::{CrashPoint, CrashingStore, KindHarness};
use crate::registry::{AnyKind, Registered};
use crate::{
    Kind, Operation, OperationId, Operations, Registry, Settings, Workflow, WorkflowError,
};

/// No trial takes longer, or something hangs.
const LONGEST: Duration = Duration::from_secs(60);

type Context<T> = <<T as KindHarness>::Kind as Kind>::Context;

pub(super) struct Harness<T: KindHarness> {
    pub(super) world: Arc<Context<T>>,
    store: Arc<dyn Store>,
    registry: Registry,
    operations: Arc<OnceLock<Operations>>,
    input: <T::Kind as Kind>::Input,
}

impl<T: KindHarness> Harness<T> {
    pub(super) async fn new(trial: &T, fault_injector: FaultInjector) -> Self {
        let world = trial.world().await;
        let kind: Arc<dyn AnyKind> = Arc::new(Registered {
            kind: trial.kind(),
            context: Arc::clone(&world),
        });
        let operations = Arc::new(OnceLock::new());
        let tampered = InjectedKind {
            kind,
            fault_injector,
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
    /// end on another. Reports whether the first one died.
    pub(super) async fn run_with_crash(
        &self,
        commits: usize,
        death: CrashPoint,
    ) -> (Operation, bool) {
        let id = self.submit().await;
        let crashing_store = Arc::new(CrashingStore::new(Arc::clone(&self.store), commits, death));
        let store = Arc::clone(&crashing_store) as Arc<dyn Store>;
        let operations = Operations::new(store, self.registry.clone());
        let engine = expect(Workflow::open(operations, Settings::default()).await);
        let died = timeout(LONGEST, async {
            tokio::select! {
                () = crashing_store.crashed() => true,
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

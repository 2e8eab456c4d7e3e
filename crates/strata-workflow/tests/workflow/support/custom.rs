//! A kind whose steps a test defines itself, and a gate for steps to wait at.

use std::sync::Arc;

use strata_store::Memory;
use strata_workflow::{Claim, Kind, Outputs, Settings, Step, StepContext, StepError, Workflow};
use tokio::sync::watch;

use super::{World, engine};

pub(crate) type Steps = dyn Fn(&Outputs) -> Vec<Step<Custom>> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Custom(Arc<Steps>);

impl Custom {
    pub(crate) fn new(steps: impl Fn(&Outputs) -> Vec<Step<Self>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(steps))
    }

    /// An engine for it.
    pub(crate) async fn open(&self, store: &Arc<Memory>, stage: &Arc<Stage>) -> Workflow {
        self.open_with(store, stage, Settings::default()).await
    }

    pub(crate) async fn open_with(
        &self,
        store: &Arc<Memory>,
        stage: &Arc<Stage>,
        settings: Settings,
    ) -> Workflow {
        engine(store, self.clone(), stage, settings).await
    }
}

impl Kind for Custom {
    type Input = Vec<Claim>;
    type Context = Stage;
    const NAME: &'static str = "custom";

    fn claims(&self, claims: &Vec<Claim>) -> Vec<Claim> {
        claims.clone()
    }

    fn steps(&self, _: &Vec<Claim>, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        Ok((self.0)(outputs))
    }
}

/// What the steps work with.
#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) open: watch::Sender<bool>,
}

impl Stage {
    pub(crate) async fn passed(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// Puts a thing of that name into the world; the undo takes it away.
pub(crate) fn make(name: &'static str) -> Step<Custom> {
    Step::new(name, move |ctx: StepContext<Custom>| async move {
        ctx.context.world.put(name, ctx.operation().to_string());
        Ok(())
    })
    .undo(move |ctx: StepContext<Custom>| async move {
        ctx.context.world.take(name);
        Ok(())
    })
}

/// Waits until the auth layer is open or the operation is cancelled.
pub(crate) fn gate() -> Step<Custom> {
    Step::new("gate", |ctx: StepContext<Custom>| async move {
        tokio::select! {
            () = ctx.context.passed() => Ok(()),
            () = ctx.cancelled() => Err(StepError::Cancelled),
        }
    })
}

/// Fails.
pub(crate) fn fail() -> Step<Custom> {
    Step::new("fail", |_: StepContext<Custom>| async {
        Err::<(), _>(StepError::permanent("no luck"))
    })
}

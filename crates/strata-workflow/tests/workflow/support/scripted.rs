//! A kind whose input defines how each step behaves, for random worlds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use strata_workflow::{Claim, Kind, OperationId, Outputs, Step, StepContext, StepError};

use super::at_once;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    Never,
    BeforeEffect,
    AfterEffect,
}

/// How one step behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) fails: Failure,
    /// How often it fails for now, at first.
    pub(crate) stumbles: u32,
    /// How often its undo fails permanently, at first.
    pub(crate) sticks: u32,
    /// How long it takes.
    pub(crate) turns: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Script {
    pub(crate) claims: Vec<Claim>,
    pub(crate) acts: Vec<Act>,
    /// Only the first step is known before it is done.
    pub(crate) grows: bool,
}

#[derive(Default)]
pub(crate) struct ScriptStage {
    /// What is there: step n of the operation.
    pub(crate) things: Mutex<BTreeSet<(OperationId, usize)>>,
    calls: Mutex<HashMap<(OperationId, usize, bool), u32>>,
}

impl ScriptStage {
    /// How often this was called before.
    fn count(&self, id: OperationId, step: usize, undo: bool) -> u32 {
        let mut calls = self.calls.lock().unwrap();
        let count = calls.entry((id, step, undo)).or_default();
        *count += 1;
        *count - 1
    }
}

pub(crate) struct Scripted;

impl Kind for Scripted {
    type Input = Script;
    type Context = ScriptStage;
    const NAME: &'static str = "scripted";

    fn claims(&self, script: &Script) -> Vec<Claim> {
        script.claims.clone()
    }

    fn steps(&self, script: &Script, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let known = match script.grows && !outputs.has("step-0") {
            true => 1,
            false => script.acts.len(),
        };
        Ok((0..known).map(step).collect())
    }
}

fn step(n: usize) -> Step<Scripted> {
    Step::new(
        format!("step-{n}"),
        move |ctx: StepContext<Scripted>| async move {
            let act = &ctx.input.acts[n];
            pass(&ctx, act.turns / 2).await?;
            if ctx.context.count(ctx.operation(), n, false) < act.stumbles {
                return Err(StepError::transient("stumbles"));
            }
            if act.fails == Failure::BeforeEffect {
                return Err(StepError::permanent("fails before"));
            }
            ctx.progress("at it");
            ctx.context
                .things
                .lock()
                .unwrap()
                .insert((ctx.operation(), n));
            // Not a safe point: a cancellation now waits for the end.
            for _ in 0..act.turns / 2 {
                tokio::task::yield_now().await;
            }
            if act.fails == Failure::AfterEffect {
                return Err(StepError::permanent("fails after"));
            }
            Ok(n)
        },
    )
    .undo(move |ctx: StepContext<Scripted>| async move {
        let act = &ctx.input.acts[n];
        if ctx.context.count(ctx.operation(), n, true) < act.sticks {
            return Err(StepError::permanent("sticks"));
        }
        pass(&ctx, act.turns).await?;
        ctx.context
            .things
            .lock()
            .unwrap()
            .remove(&(ctx.operation(), n));
        Ok(())
    })
    .retry(at_once(4))
}

async fn pass(ctx: &StepContext<Scripted>, turns: u32) -> Result<(), StepError> {
    for _ in 0..turns {
        ctx.safe_point()?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

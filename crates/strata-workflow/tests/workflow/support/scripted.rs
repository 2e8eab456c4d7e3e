//! A kind whose input says how each step behaves, for worlds by chance.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use strata_workflow::{At, Claim, Kind, OperationId, Outputs, Step, StepError};

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
    /// How often its undo fails for good, at first.
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
pub(crate) struct Theatre {
    /// What is there: step n of the operation.
    pub(crate) things: Mutex<BTreeSet<(OperationId, usize)>>,
    calls: Mutex<HashMap<(OperationId, usize, bool), u32>>,
}

impl Theatre {
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
    type Context = Theatre;
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
    Step::new(format!("step-{n}"), move |at: At<Scripted>| async move {
        let act = &at.input.acts[n];
        pass(&at, act.turns / 2).await?;
        if at.context.count(at.operation(), n, false) < act.stumbles {
            return Err(StepError::transient("stumbles"));
        }
        if act.fails == Failure::BeforeEffect {
            return Err(StepError::permanent("fails before"));
        }
        at.progress("at it");
        at.context
            .things
            .lock()
            .unwrap()
            .insert((at.operation(), n));
        // Not a safe point: who cancels now waits for the end.
        for _ in 0..act.turns / 2 {
            tokio::task::yield_now().await;
        }
        if act.fails == Failure::AfterEffect {
            return Err(StepError::permanent("fails after"));
        }
        Ok(n)
    })
    .undo(move |at: At<Scripted>| async move {
        let act = &at.input.acts[n];
        if at.context.count(at.operation(), n, true) < act.sticks {
            return Err(StepError::permanent("sticks"));
        }
        pass(&at, act.turns).await?;
        at.context
            .things
            .lock()
            .unwrap()
            .remove(&(at.operation(), n));
        Ok(())
    })
    .retry(at_once(4))
}

async fn pass(at: &At<Scripted>, turns: u32) -> Result<(), StepError> {
    for _ in 0..turns {
        at.safe_point()?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

//! Empties a node: it is closed, its instances move to where there is room,
//! and when it is to leave, it is removed. Cancelled, it is opened again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::{Error, ErrorKind};
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::step_failed;
use crate::core::{Core, NodeCondition, Principal};

pub struct Drain;

/// Which, and what then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainInput {
    pub node: String,
    /// It is removed when it is empty.
    pub leave: bool,
    /// It was closed before: cancelled, it stays so.
    pub was_closed: bool,
    /// It was lost when it was to be removed: the caller declares that nothing
    /// runs there.
    #[serde(default)]
    pub was_lost: bool,
}

/// As long as an instance waits for room.
const STEP_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Changes wake the step that waits; this is for those that are missed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Kind for Drain {
    type Input = DrainInput;
    type Context = Core;
    const NAME: &'static str = "node-drain";

    fn claims(&self, input: &DrainInput) -> Vec<Claim> {
        vec![Claim::exclusive(format!("node/{}", input.node))]
    }

    fn steps(&self, input: &DrainInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![
            Step::new("close", |ctx: StepContext<Self>| async move {
                close(&ctx, true).await?;
                declare_gone(&ctx).await
            })
            .undo(|ctx: StepContext<Self>| async move { close(&ctx, ctx.input.was_closed).await }),
            Step::new("empty", |ctx: StepContext<Self>| async move {
                wait_until_empty(&ctx, &ctx.context, &ctx.input.node).await
            })
            .timeout(STEP_TIMEOUT),
        ];
        if input.leave {
            steps.push(Step::new("leave", |ctx: StepContext<Self>| async move {
                leave(&ctx).await
            }));
        }
        Ok(steps)
    }
}

async fn close(ctx: &StepContext<Drain>, closed: bool) -> Result<(), StepError> {
    let node = &ctx.input.node;
    match ctx
        .context
        .drain_node(&Principal::server("operation"), node, closed)
        .await
    {
        Ok(_) => Ok(()),
        // To undo, there is nothing to open.
        Err(error) if error.kind() == ErrorKind::NotFound && !closed => Ok(()),
        Err(error) => Err(step_failed(error)),
    }
}

/// A node that is removed while it is lost is not waited for.
async fn declare_gone(ctx: &StepContext<Drain>) -> Result<(), StepError> {
    let DrainInput {
        node,
        leave,
        was_lost,
        ..
    } = &*ctx.input;
    if !(*leave && *was_lost) {
        return Ok(());
    }
    match ctx.context.declare_node_gone(node).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(step_failed(error)),
        _ => Ok(()),
    }
}

/// Waits until nothing is on a node any more.
pub(super) async fn wait_until_empty<K: Kind>(
    ctx: &StepContext<K>,
    core: &Core,
    node: &str,
) -> Result<(), StepError> {
    let mut changes = core.watch_all();
    loop {
        // Also those that have not come to their end there.
        let left = core.occupants(node);
        if left == 0 {
            ctx.progress_to(1.0, "nothing is on it any more");
            return Ok(());
        }
        let named = core.names_on(node, 3).join(", ");
        ctx.progress(format!("{left} on it still: {named}"));
        ctx.safe_point()?;
        let something = async {
            tokio::select! {
                () = ctx.cancelled() => {}
                _ = changes.recv() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        };
        ctx.wait_for(something).await;
    }
}

async fn leave(ctx: &StepContext<Drain>) -> Result<(), StepError> {
    let (core, node) = (&ctx.context, &ctx.input.node);
    let mut changes = core.watch_all();
    match core.leave_node(node, true).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(step_failed(error)),
        Ok(_) => {}
    }
    while core.node(node).is_ok() {
        tokio::select! {
            _ = changes.recv() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
    Ok(())
}

/// The input that drains a node.
pub(crate) fn input(core: &Core, node: &str, leave: bool) -> Result<DrainInput, Error> {
    let found = core.node(node)?;
    Ok(DrainInput {
        node: found.name.clone(),
        leave,
        was_closed: found.draining,
        was_lost: found.condition == NodeCondition::Lost,
    })
}

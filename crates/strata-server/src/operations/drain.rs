//! Empties a node: it is closed, its instances move to where there is room,
//! and when it is to leave, it is forgotten. Cancelled, it is opened again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::{Error, ErrorKind};
use strata_workflow::{At, Claim, Kind, Outputs, Step, StepError};

use super::step_failed;
use crate::core::{Core, Who};

/// Empties a node.
pub struct Drain;

/// Which, and what then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainInput {
    /// The node.
    pub node: String,
    /// It is forgotten when it is empty.
    pub leave: bool,
    /// It was closed before: cancelled, it stays so.
    pub was_closed: bool,
}

/// As long as anybody waits for room.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Changes wake whoever waits; this is for those that are missed.
const LOOK: Duration = Duration::from_secs(1);

impl Kind for Drain {
    type Input = DrainInput;
    type Context = Core;
    const NAME: &'static str = "node-drain";

    fn claims(&self, input: &DrainInput) -> Vec<Claim> {
        vec![Claim::exclusive(format!("node/{}", input.node))]
    }

    fn steps(&self, input: &DrainInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = vec![
            Step::new(
                "close",
                |at: At<Self>| async move { close(&at, true).await },
            )
            .undo(|at: At<Self>| async move { close(&at, at.input.was_closed).await }),
            Step::new("empty", |at: At<Self>| async move {
                until_empty(&at, &at.context, &at.input.node).await
            })
            .timeout(LONGEST),
        ];
        if input.leave {
            steps.push(Step::new("leave", |at: At<Self>| async move {
                leave(&at).await
            }));
        }
        Ok(steps)
    }
}

async fn close(at: &At<Drain>, closed: bool) -> Result<(), StepError> {
    let node = &at.input.node;
    match at
        .context
        .drain_node(&Who::server("operation"), node, closed)
        .await
    {
        Ok(_) => Ok(()),
        // To undo, there is nothing to open.
        Err(error) if error.kind() == ErrorKind::NotFound && !closed => Ok(()),
        Err(error) => Err(step_failed(error)),
    }
}

/// Waits until nothing is on a node any more.
pub(super) async fn until_empty<K: Kind>(
    at: &At<K>,
    core: &Core,
    node: &str,
) -> Result<(), StepError> {
    let mut changes = core.watch_all();
    loop {
        // Also those that have not come to their end there.
        let left = core.occupants(node);
        if left == 0 {
            at.progress_to(1.0, "nothing is on it any more");
            return Ok(());
        }
        let named = core.names_on(node, 3).join(", ");
        at.progress(format!("{left} on it still: {named}"));
        at.safe_point()?;
        let something = async {
            tokio::select! {
                () = at.cancelled() => {}
                _ = changes.recv() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        };
        at.wait_for(something).await;
    }
}

async fn leave(at: &At<Drain>) -> Result<(), StepError> {
    let (core, node) = (&at.context, &at.input.node);
    let mut changes = core.watch_all();
    match core.leave_node(node, true).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(step_failed(error)),
        Ok(_) => {}
    }
    while core.node(node).is_ok() {
        tokio::select! {
            _ = changes.recv() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    Ok(())
}

/// Asks for a node to be emptied.
pub(crate) fn input(core: &Core, node: &str, leave: bool) -> Result<DrainInput, Error> {
    let found = core.node(node)?;
    Ok(DrainInput {
        node: found.name.clone(),
        leave,
        was_closed: found.draining,
    })
}

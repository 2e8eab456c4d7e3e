//! A machine that its provider reports off runs nothing: that proves the death
//! of its node better than any silence. What was on a lost node of such a
//! machine is placed elsewhere at once, without regard to witnesses that might
//! have extended its lease, and also while losses are held back.
//!
//! The provider is asked after the node was lost, never before: an older answer
//! may be of the machine before it was started.

use std::time::Duration;

use futures_util::StreamExt as _;
use strata_types::machine::{MachinePhase, PowerState};
use tokio_util::sync::CancellationToken;

use crate::core::{Node, NodeCondition};
use crate::operations::Hypervisors;

/// How often providers are asked while a node is lost.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long one may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many machines are asked at once.
const AT_ONCE: usize = 16;

/// Starts to ask; it acts while this server leads.
pub fn start(hypervisors: Hypervisors, shutdown: CancellationToken) {
    tokio::spawn(async move {
        let asking = async {
            loop {
                tokio::time::sleep(INTERVAL).await;
                if hypervisors.core.leads_now() {
                    look(&hypervisors).await;
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = asking => {}
        }
    });
}

/// Looks once.
pub async fn look(own: &Hypervisors) {
    let nodes = own.core.nodes();
    let silent = |node: &Node| node.condition == NodeCondition::Lost && !node.reported_down;
    let lost = nodes.iter().filter(|node| silent(node));
    let names: Vec<String> = lost.map(|node| node.name.clone()).collect();
    let asked = futures_util::stream::iter(names).map(|name| async move {
        match is_off(own, &name).await {
            true => Some(name),
            false => None,
        }
    });
    let mut off = std::pin::pin!(asked.buffer_unordered(AT_ONCE));
    while let Some(answer) = off.next().await {
        let Some(node) = answer else { continue };
        tracing::warn!(node, "node lost: its machine is off, says its provider");
        if let Err(error) = own.core.note_powered_off(&node).await {
            tracing::warn!(node, %error, "that a machine is off is not noted");
        }
    }
}

/// Whether the machine of a node is off for certain. One that was not brought up
/// here may be another machine than the node runs on.
async fn is_off(own: &Hypervisors, node: &str) -> bool {
    let is_up = |phase| matches!(phase, MachinePhase::Up | MachinePhase::Stopping);
    if !own.core.machine(node).is_ok_and(|it| is_up(it.phase)) {
        return false;
    }
    let Ok((provider, target)) = own.reach(node) else {
        return false;
    };
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, provider.power_state(&target)).await;
    matches!(asked, Ok(Ok(PowerState::Off)))
}

//! A machine that its provider reports off runs nothing: that proves the death
//! of its node better than any silence. What was on a lost node of such a
//! machine is placed elsewhere at once, without regard to witnesses that might
//! have extended its lease, and also while losses are held back.
//!
//! The provider is queried after the node was lost, never before: an older
//! answer may be of the machine before it was started.

use std::time::Duration;

use futures_util::StreamExt as _;
use strata_tasks::TaskGroup;
use strata_types::machine::{MachinePhase, PowerState};

use crate::core::{Node, NodeCondition, now_ms};
use crate::operations::Hypervisors;

/// How often providers are queried while a node is lost.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(1);
/// A node that is lost for longer than this is checked less often.
const LONG_LOST: Duration = Duration::from_secs(60);
const LONG_LOST_ROUNDS: u32 = 15;
/// How long one may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many machines are queried at once.
const MAX_CONCURRENT: usize = 16;

/// Starts the reconciler; it acts while this server leads.
pub fn start(hypervisors: Hypervisors, tasks: &TaskGroup) {
    tasks.restart("power-check", move || {
        let hypervisors = hypervisors.clone();
        async move {
            for round in (0..LONG_LOST_ROUNDS).cycle() {
                tokio::time::sleep(RECONCILE_INTERVAL).await;
                if hypervisors.core.leads_now() {
                    query_power(&hypervisors, round == 0).await;
                }
            }
        }
    });
}

/// Queries the provider for every node that is lost.
pub async fn reconcile(own: &Hypervisors) {
    query_power(own, true).await;
}

async fn query_power(own: &Hypervisors, long_lost_too: bool) {
    let nodes = own.core.nodes();
    let silent = |node: &Node| node.condition == NodeCondition::Lost && !node.reported_down;
    let long_ago = now_ms() - i64::try_from(LONG_LOST.as_millis()).unwrap_or(i64::MAX);
    let lost = nodes.iter().filter(|node| silent(node));
    let lost = lost.filter(|node| long_lost_too || node.changed_at_ms > long_ago);
    let names: Vec<String> = lost.map(|node| node.name.clone()).collect();
    let asked = futures_util::stream::iter(names).map(|name| async move {
        match is_off(own, &name).await {
            true => Some(name),
            false => None,
        }
    });
    let mut off = std::pin::pin!(asked.buffer_unordered(MAX_CONCURRENT));
    while let Some(answer) = off.next().await {
        let Some(node) = answer else { continue };
        tracing::warn!(node, "node lost: its provider reports the machine off");
        if let Err(error) = own.core.note_powered_off(&node).await {
            tracing::warn!(node, %error, "power-off of the machine not recorded");
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

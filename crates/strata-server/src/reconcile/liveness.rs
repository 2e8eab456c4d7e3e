//! Nodes that are silent for longer than their lease are lost, and what was
//! on them is placed elsewhere; nodes that leave and are empty are forgotten.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use strata_types::instance::InstanceId;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, Lead, NodeCondition};

/// How often it looks.
const TICK: Duration = Duration::from_millis(250);

/// Starts to look after nodes; it acts while this server leads.
pub fn start(core: Core, shutdown: CancellationToken) {
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = run(&core) => {}
        }
    });
}

async fn run(core: &Core) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut led = false;
    let mut last = Instant::now();
    loop {
        tick.tick().await;
        let leads = matches!(core.lead(), Lead::Leading(_));
        // This process stood still, and heard nobody while it did.
        let stood_still = last.elapsed() > 8 * TICK;
        last = Instant::now();
        if leads && (!led || stood_still) {
            // Nobody spoke to this server yet: every node has its whole lease.
            for node in core.nodes() {
                core.live().alive(&node.name);
            }
        }
        led = leads;
        if leads {
            look(core).await;
        }
    }
}

async fn look(core: &Core) {
    let lease = core.settings().lease;
    for node in core.nodes() {
        let name = &node.name;
        if node.condition == NodeCondition::Ready {
            let silent = core.live().node(name).map(|live| live.heard.elapsed());
            if let Some(silent) = silent.filter(|silent| *silent > lease) {
                let why = format!("nothing was heard of it for {} s", silent.as_secs());
                tracing::warn!(node = name, why, "a node is lost");
                if let Err(error) = core.lose_node(name, &why).await {
                    tracing::warn!(node = name, %error, "a node cannot be marked as lost");
                }
            }
        }
        let lost = |node: &crate::core::Node| node.condition == NodeCondition::Lost;
        if core.node(name).is_ok_and(|node| lost(&node)) {
            move_all_off(core, name).await;
        }
        if node.leaving && core.instances_on(name) == 0 {
            match core.forget_node(name).await {
                Ok(()) => tracing::info!(node = name, "a node has left"),
                Err(error) => tracing::debug!(node = name, %error, "a node stays for now"),
            }
        }
    }
    move_stranded(core).await;
}

/// What was placed on a node while that was being forgotten.
async fn move_stranded(core: &Core) {
    let stranded: Vec<String> = {
        let tables = core.tables();
        let on = tables.on_node.keys();
        on.filter(|node| !tables.nodes.contains_key(*node))
            .cloned()
            .collect()
    };
    for node in stranded {
        move_all_off(core, &node).await;
    }
}

pub(crate) async fn move_all_off(core: &Core, node: &str) {
    let on: Vec<InstanceId> = {
        let tables = core.tables();
        let on = tables.on_node.get(node);
        on.into_iter().flatten().cloned().collect()
    };
    let why = format!("its node {node} was lost");
    let moves = on.iter().map(|id| core.move_off(node, id, &why));
    for moved in join_all(moves).await {
        if let Err(error) = moved {
            tracing::warn!(node, %error, "an instance could not be moved off");
        }
    }
}

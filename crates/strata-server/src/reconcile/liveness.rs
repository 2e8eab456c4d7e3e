//! Nodes that are silent for longer than their lease are lost, and what was
//! on them is placed elsewhere; nodes that leave and are empty are forgotten.

use std::time::Duration;

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
    loop {
        tick.tick().await;
        let leads = matches!(core.lead(), Lead::Leading(_));
        if leads && !led {
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
        if node.condition == NodeCondition::Lost {
            move_all_off(core, name).await;
        }
        if node.leaving && core.instances_on(name) == 0 {
            match core.forget_node(name).await {
                Ok(()) => tracing::info!(node = name, "a node has left"),
                Err(error) => tracing::debug!(node = name, %error, "a node stays for now"),
            }
        }
    }
}

async fn move_all_off(core: &Core, node: &str) {
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

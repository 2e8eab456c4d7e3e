//! Nodes that are silent for longer than their lease are lost, and what was
//! on them is placed elsewhere; nodes that leave and are empty are forgotten.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use strata_types::instance::InstanceId;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, NodeCondition, Why};

/// More lost nodes than this, and than this part of all, are suspicious.
const MANY: usize = 3;
const MANY_PERCENT: usize = 30;
/// How long nothing is moved then.
const HELD_BACK: Duration = Duration::from_secs(300);
/// Records that are written at the same time.
const AT_ONCE: usize = 64;
/// Instances of a node that are moved off it in one look.
const MOVES: usize = 50;

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
    let mut losses = Losses::default();
    loop {
        tick.tick().await;
        let leads = core.leads_now();
        // This process stood still, and heard no node while it did. What it did
        // itself since the last look does not count.
        let stood_still = last.elapsed() > 8 * TICK;
        if leads && (!led || stood_still) {
            // Nobody spoke to this server yet: every node has its whole lease.
            for node in core.nodes() {
                core.live().alive(&node.name);
            }
        }
        led = leads;
        if leads {
            look(core, &mut losses).await;
        }
        last = Instant::now();
    }
}

async fn look(core: &Core, losses: &mut Losses) {
    lose_silent(core).await;
    for node in core.nodes() {
        super::published_nodes::look(core, &node).await;
    }
    let nodes = core.nodes();
    let lost = nodes
        .iter()
        .filter(|node| node.condition == NodeCondition::Lost);
    // A node that reports that it is down can be trusted with that, and so can a
    // person who removes it. Of one that is silent, nothing is known.
    let (down, silent): (Vec<_>, Vec<_>) = lost.partition(|node| node.reported_down);
    let seen = Sighting {
        lost: silent.len(),
        nodes: nodes.len(),
        silent_together: are_silent_together(core, &silent, &nodes),
        lease: core.settings().lease,
    };
    let held_back = losses.are_held_back(&seen, Instant::now());
    for node in &down {
        move_off(core, &node.name, MOVES, false).await;
    }
    for node in &silent {
        if node.leaving {
            move_off(core, &node.name, MOVES, false).await;
        } else if !held_back && !node.lease_waived {
            // Where the lease was waived, it goes on with what it has.
            move_off(core, &node.name, MOVES, node.witnesses.is_some()).await;
        }
    }
    for node in nodes.iter().filter(|node| node.leaving) {
        if core.occupants(&node.name) == 0 {
            match core.forget_node(&node.name).await {
                Ok(()) => tracing::info!(node = node.name, "a node has left"),
                Err(error) => tracing::debug!(node = node.name, %error, "a node stays for now"),
            }
        }
    }
    move_stranded(core).await;
}

/// Marks nodes as lost that were silent for longer than their lease, all at
/// once: the store writes them together.
async fn lose_silent(core: &Core) {
    let lease = core.settings().lease;
    let silence = |name: &str| Some(core.live().node(name)?.heard.elapsed());
    let nodes = core.nodes();
    let ready = nodes
        .iter()
        .filter(|node| node.condition == NodeCondition::Ready);
    let silent = ready.filter_map(|node| {
        let silent = silence(&node.name).filter(|silent| *silent > lease)?;
        Some((node, silent))
    });
    let losing = silent.map(|(node, silent)| async move {
        let mut why = format!("nothing was heard of it for {} s", silent.as_secs());
        if node.lease_waived {
            why.push_str(
                "; its instances stay, as it was the only node when it was last there: \
                 once it is off for good, remove it",
            );
        }
        tracing::warn!(node = node.name, why, "a node is lost");
        if let Err(error) = core.lose_node(&node.name, &why).await {
            tracing::warn!(node = node.name, %error, "a node cannot be marked as lost");
        }
    });
    let losing = futures_util::stream::iter(losing.collect::<Vec<_>>());
    losing.for_each_concurrent(AT_ONCE, |lost| lost).await;
}

type Nodes = [std::sync::Arc<crate::core::Kept<crate::core::Node>>];

/// Whether a node was lost and no other was heard since: then it is this server
/// that is cut off, as far as anyone can tell. The heartbeats of nodes that are
/// heard are at most a quarter of the lease apart.
fn are_silent_together(
    core: &Core,
    silent: &[&std::sync::Arc<crate::core::Kept<crate::core::Node>>],
    nodes: &Nodes,
) -> bool {
    let heard = |name: &str| core.live().node(name).map(|live| live.heard);
    let later = core.settings().lease / 2;
    let alone = |name: &str| {
        let Some(last) = heard(name) else {
            return false;
        };
        let mut others = nodes.iter().filter(|other| other.name != name);
        !others.any(|other| heard(&other.name).is_some_and(|heard| heard >= last + later))
    };
    nodes.len() > 1 && silent.iter().any(|node| alone(&node.name))
}

/// What there is to see of all nodes.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    /// By silence, not by their own report.
    lost: usize,
    nodes: usize,
    /// No node was heard since one of them was last heard.
    silent_together: bool,
    lease: Duration,
}

/// Holds back when many nodes are lost at once, or all: then the network, or
/// this server, is more likely to be at fault than all of them.
///
/// While no node is heard at all, nothing is moved for however long that lasts:
/// there is none to move anything to. Once some are heard again, the others have
/// two leases to come back as well; where they are many, five minutes.
#[derive(Debug, Default)]
struct Losses {
    /// Since when many are lost and some are heard.
    since: Option<Instant>,
    /// Since when few are lost, after many were.
    fewer_since: Option<Instant>,
}

impl Losses {
    /// Whether nothing is moved for now.
    fn are_held_back(&mut self, seen: &Sighting, now: Instant) -> bool {
        let many = MANY.max(seen.nodes * MANY_PERCENT / 100);
        let suspicious = seen.lost > many || seen.silent_together;
        if suspicious && self.since.is_none() {
            tracing::error!(
                lost = seen.lost,
                nodes = seen.nodes,
                "many nodes are lost at once: nothing is moved for {} s",
                HELD_BACK.as_secs()
            );
            self.since = Some(now);
        }
        let Some(since) = self.since else {
            return false;
        };
        if seen.silent_together {
            // The time counts from when some are heard again.
            *self = Self {
                since: Some(now),
                fewer_since: None,
            };
            return true;
        }
        if suspicious {
            self.fewer_since = None;
            return now.saturating_duration_since(since) < HELD_BACK;
        }
        let fewer_since = *self.fewer_since.get_or_insert(now);
        let waited = now.saturating_duration_since(fewer_since);
        if seen.lost == 0 || waited > 2 * seen.lease {
            *self = Self::default();
            return false;
        }
        true
    }
}

/// What was placed on a node while that was being forgotten.
async fn move_stranded(core: &Core) {
    let stranded: Vec<String> = {
        let tables = core.tables();
        let on = tables.on_node.keys().chain(tables.leaving.keys());
        on.filter(|node| !tables.nodes.contains_key(*node))
            .cloned()
            .collect()
    };
    for node in stranded {
        move_all_off(core, &node).await;
    }
}

/// Moves everything off a node that is gone for certain.
pub(crate) async fn move_all_off(core: &Core, node: &str) {
    move_off(core, node, usize::MAX, false).await;
}

async fn move_off(core: &Core, node: &str, most: usize, witnessed: bool) {
    let on: Vec<InstanceId> = {
        let tables = core.tables();
        let (on, leaving) = (tables.on_node.get(node), tables.leaving.get(node));
        let is_done = |id: &InstanceId| {
            let lost = tables.instances.get(id).and_then(|one| one.leaves(node));
            witnessed && lost.is_some_and(|from| from.lost)
        };
        let leaving = leaving.into_iter().flatten().filter(|id| !is_done(id));
        let all = on.into_iter().flatten().chain(leaving);
        all.take(most).cloned().collect()
    };
    let why = Why {
        full: format!("its node {node} was lost"),
        limited: "its node was lost".into(),
    };
    let moves = on.iter().map(|id| core.move_off(node, id, &why, witnessed));
    for moved in join_all(moves).await {
        if let Err(error) = moved {
            tracing::warn!(node, %error, "an instance could not be moved off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_losses_at_once_are_held_back_for_a_while() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        assert!(
            !losses.are_held_back(&seen(3, 4), begin),
            "few are moved at once"
        );
        assert!(losses.are_held_back(&seen(4, 4), begin));
        assert!(losses.are_held_back(&seen(4, 4), begin + HELD_BACK / 2));
        assert!(!losses.are_held_back(&seen(4, 4), begin + HELD_BACK));
        let mut losses = Losses::default();
        assert!(
            !losses.are_held_back(&seen(30, 100), begin),
            "not even a third"
        );
        assert!(losses.are_held_back(&seen(31, 100), begin));
    }

    #[test]
    fn server_that_heard_no_node_moves_nothing_until_all_had_time_to_come_back() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        let all_silent = Sighting {
            silent_together: true,
            ..seen(1, 2)
        };
        assert!(losses.are_held_back(&all_silent, begin));
        let back = begin + Duration::from_secs(60);
        assert!(losses.are_held_back(&seen(1, 2), back), "one is back");
        assert!(losses.are_held_back(&seen(1, 2), back + LEASE));
        assert!(!losses.are_held_back(&seen(1, 2), back + 3 * LEASE));
        assert!(!losses.are_held_back(&seen(1, 2), back + 4 * LEASE));
        assert!(losses.are_held_back(&all_silent, back + 5 * LEASE));
        assert!(!losses.are_held_back(&seen(0, 2), back + 5 * LEASE));
    }

    #[test]
    fn server_that_heard_no_node_for_ten_minutes_moves_nothing_when_some_are_back() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        let silent = |lost, nodes| Sighting {
            silent_together: true,
            ..seen(lost, nodes)
        };
        for (lost, nodes) in [(3, 3), (10, 10)] {
            for minute in 0..10 {
                let now = begin + Duration::from_secs(60 * minute);
                assert!(losses.are_held_back(&silent(lost, nodes), now), "{minute}");
            }
            let back = begin + Duration::from_secs(600);
            assert!(losses.are_held_back(&seen(lost - 1, nodes), back));
            assert!(losses.are_held_back(&seen(1, nodes), back + LEASE));
            assert!(!losses.are_held_back(&seen(0, nodes), back + 2 * LEASE));
        }
    }

    const LEASE: Duration = Duration::from_secs(10);

    fn seen(lost: usize, nodes: usize) -> Sighting {
        Sighting {
            lost,
            nodes,
            silent_together: false,
            lease: LEASE,
        }
    }
}

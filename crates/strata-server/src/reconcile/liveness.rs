//! Nodes that are silent for longer than their lease are lost, and what was
//! on them is placed elsewhere; nodes that leave and are empty are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_tasks::TaskGroup;
use tokio::time::Instant;

use super::move_budget::MoveBudget;
use crate::core::{Core, Moved, Node, NodeCondition, NodeLoss, Versioned, keys};

/// More lost nodes than this, and than this part of all, are suspicious.
const MASS_LOSS_NODES: usize = 3;
const MASS_LOSS_PERCENT: usize = 30;
/// How long nothing is moved then.
const MASS_LOSS_HOLD: Duration = Duration::from_secs(300);
/// Records that are written at the same time.
const MAX_CONCURRENT: usize = 64;

/// How often it runs.
const RECONCILE_INTERVAL: Duration = Duration::from_millis(250);

/// Starts the reconciler of nodes; it acts while this server leads.
pub fn start(core: Core, tasks: impl Into<TaskGroup>) {
    tasks.into().restart("liveness", move || {
        let core = core.clone();
        async move { run(&core).await }
    });
}

async fn run(core: &Core) {
    let mut tick = tokio::time::interval(RECONCILE_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut led = false;
    let mut last = Instant::now();
    let mut state = State::default();
    loop {
        tick.tick().await;
        let leads = core.leads_now();
        // This process stood still, and received no heartbeat while it did.
        // What it did itself since the last round does not count.
        let stood_still = last.elapsed() > 8 * RECONCILE_INTERVAL;
        if leads && !led {
            state.begin_leading();
        }
        if leads && (!led || stood_still) {
            // No node has connected to this server yet: every node has its
            // whole lease.
            for node in core.nodes() {
                core.live().await_heartbeat(&node.name);
            }
        }
        led = leads;
        if leads {
            reconcile(core, &mut state).await;
        }
        last = Instant::now();
    }
}

/// What is remembered from round to round.
#[derive(Debug, Default)]
pub(super) struct State {
    losses: Losses,
    budget: MoveBudget,
    /// Since when each silent node is lost, as far as this leader has seen. Not
    /// by the record, whose time is of a wall clock that may have been set
    /// since. A leader that begins finds all that are lost at once, and cannot
    /// know whether they were: they count as one incident.
    lost_since: BTreeMap<String, Instant>,
}

impl State {
    /// What was observed before this server led says nothing about now.
    pub(super) fn begin_leading(&mut self) {
        self.losses = Losses::default();
        self.lost_since.clear();
    }

    /// Takes in which nodes are silent now; those that have been for this time
    /// at most.
    fn recent(&mut self, silent: &[&Arc<Versioned<Node>>], window: Duration) -> BTreeSet<String> {
        let now = Instant::now();
        let is_silent = |name: &str| silent.iter().any(|node| node.name == name);
        self.lost_since.retain(|name, _| is_silent(name));
        let recent = silent.iter().filter(|node| {
            let since = self.lost_since.entry(node.name.clone()).or_insert(now);
            now.saturating_duration_since(*since) <= window
        });
        recent.map(|node| node.name.clone()).collect()
    }

    /// Whether nothing is moved off silent nodes for now.
    fn holds_back(&mut self, core: &Core) -> bool {
        let nodes = core.nodes();
        let silent: Vec<_> = nodes.iter().filter(|node| is_silent(node)).collect();
        let leases = silent.iter().map(|node| core.lease_of(node));
        let lease = leases.max().unwrap_or(core.settings().lease);
        let sample = FleetSample {
            lost: silent.iter().map(|node| node.name.clone()).collect(),
            recent: self.recent(&silent, lease),
            nodes: nodes.len(),
            silent_together: are_silent_together(core, &silent, &nodes),
            lease,
        };
        self.losses.are_held_back(&sample, Instant::now())
    }
}

pub(super) async fn reconcile(core: &Core, state: &mut State) {
    lose_silent(core).await;
    for node in core.nodes() {
        super::published_nodes::reconcile(core, &node).await;
    }
    let mut held_back = state.holds_back(core);
    let nodes = core.nodes();
    for node in nodes.iter().filter(|node| is_gone_for_certain(node)) {
        let most = state.budget.left(Instant::now());
        let moved = core.fail_over_node(&loss_of(node), most, Moved::All).await;
        state.budget.spend(moved);
    }
    for node in nodes.iter().filter(|node| is_silent(node)) {
        if held_back {
            break;
        }
        // Where the lease was waived, it goes on with what it has; but what may
        // overlap with its successor has no lease.
        let which = match node.lease_waived {
            true => Moved::Available,
            false => Moved::All,
        };
        let most = state.budget.left(Instant::now());
        let moved = core.fail_over_node(&loss_of(node), most, which).await;
        state.budget.spend(moved);
        if moved > 0 {
            // More may have been lost while that was written.
            held_back = state.holds_back(core);
        }
    }
    for node in nodes.iter().filter(|node| node.leaving) {
        if core.occupants(&node.name) == 0 {
            match core.remove_node(&node.name).await {
                Ok(()) => tracing::info!(node = node.name, "node removed"),
                Err(error) => tracing::debug!(node = node.name, %error, "node not removed yet"),
            }
        }
    }
    fail_over_stranded(core).await;
}

/// A node that reports that it is down can be trusted with that, and so can a
/// person who removes one that is lost, or has one removed at once.
fn is_gone_for_certain(node: &Node) -> bool {
    let certain = node.reported_down || node.declared_gone || node.removed_at_once;
    node.condition == NodeCondition::Lost && certain
}

/// Of a node that is silent, nothing is known.
fn is_silent(node: &Node) -> bool {
    node.condition == NodeCondition::Lost && !is_gone_for_certain(node)
}

fn loss_of(node: &Versioned<Node>) -> NodeLoss {
    let silent = is_silent(node);
    NodeLoss {
        node: node.name.clone(),
        revision: Some(node.revision),
        silent,
        witnessed: silent && node.witnesses.is_some(),
    }
}

/// Marks nodes as lost that were silent for longer than their lease, all at
/// once: the store writes them together.
async fn lose_silent(core: &Core) {
    let silence = |name: &str| Some(core.live().node(name)?.heard.elapsed());
    let nodes = core.nodes();
    let ready = nodes
        .iter()
        .filter(|node| node.condition == NodeCondition::Ready);
    let silent = ready.filter_map(|node| {
        let lease = core.lease_of(node);
        let silent = silence(&node.name).filter(|silent| *silent > lease)?;
        Some((node, silent))
    });
    let losing = silent.map(|(node, silent)| async move {
        let mut why = format!("no heartbeat for {} s", silent.as_secs());
        if node.lease_waived {
            why.push_str(
                "; its instances stay, as it was promised that nothing of it is started \
                 elsewhere, or the records were restored since it was last there: once it \
                 is off permanently, remove it",
            );
        }
        tracing::warn!(node = node.name, why, "node lost");
        if let Err(error) = core.mark_node_lost(&node.name, &why).await {
            tracing::warn!(node = node.name, %error, "node cannot be marked lost");
        }
    });
    let losing = futures_util::stream::iter(losing.collect::<Vec<_>>());
    losing
        .for_each_concurrent(MAX_CONCURRENT, |lost| lost)
        .await;
}

type Nodes = [Arc<Versioned<Node>>];

/// Whether a node was lost and no other sent a heartbeat since: then it is this
/// server that is cut off, as far as can be known. The heartbeats of connected
/// nodes are at most a quarter of the lease apart.
fn are_silent_together(core: &Core, silent: &[&Arc<Versioned<Node>>], nodes: &Nodes) -> bool {
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
#[derive(Debug, Clone)]
struct FleetSample {
    /// By silence, not by their own report.
    lost: BTreeSet<String>,
    /// Of these, within the last lease.
    recent: BTreeSet<String>,
    nodes: usize,
    /// No node sent a heartbeat since one of them last did.
    silent_together: bool,
    lease: Duration,
}

/// Holds back when many nodes are lost at once, or all: then the network, or
/// this server, is more likely to be at fault than all of them.
///
/// While no node is connected at all, nothing is moved for however long that
/// lasts: there is none to move anything to. Once some are connected again, the
/// others have two leases to come back as well; where they are many, five
/// minutes.
#[derive(Debug, Default)]
struct Losses {
    /// Since when many are lost and some are connected.
    since: Option<Instant>,
    /// Since when few are lost, after many were.
    fewer_since: Option<Instant>,
    /// Those that were lost long before, and have not been back: they are not
    /// part of it.
    earlier: BTreeSet<String>,
}

impl Losses {
    /// Whether nothing is moved for now.
    fn are_held_back(&mut self, observation: &FleetSample, now: Instant) -> bool {
        let many = MASS_LOSS_NODES.max(observation.nodes * MASS_LOSS_PERCENT / 100);
        // Nodes that break one after the other, and are not removed, are no
        // fault of the network.
        self.earlier.retain(|name| observation.lost.contains(name));
        let together = match self.since {
            None => observation.recent.len(),
            Some(_) => observation.lost.len() - self.earlier.len(),
        };
        let suspicious = together > many || observation.silent_together;
        if suspicious && self.since.is_none() {
            tracing::error!(
                lost = observation.recent.len(),
                nodes = observation.nodes,
                "many nodes lost at once: no instance is rescheduled for {} s",
                MASS_LOSS_HOLD.as_secs()
            );
            self.since = Some(now);
            self.earlier = &observation.lost - &observation.recent;
        }
        let Some(since) = self.since else {
            return false;
        };
        if observation.silent_together {
            // The time counts from when some are connected again.
            self.since = Some(now);
            self.fewer_since = None;
            return true;
        }
        if suspicious {
            self.fewer_since = None;
            return now.saturating_duration_since(since) < MASS_LOSS_HOLD;
        }
        let fewer_since = *self.fewer_since.get_or_insert(now);
        let waited = now.saturating_duration_since(fewer_since);
        if together == 0 || waited > 2 * observation.lease {
            *self = Self::default();
            return false;
        }
        true
    }
}

/// What was placed on a node while that was being removed. One whose record
/// cannot be read is there: nothing is known of its lease, so nothing is moved.
async fn fail_over_stranded(core: &Core) {
    let stranded: Vec<String> = {
        let tables = core.tables();
        let on = tables.on_node.keys().chain(tables.leaving.keys());
        let is_unreadable = |node: &str| tables.unreadable.contains_key(&keys::node(node));
        on.filter(|node| !tables.nodes.contains_key(*node) && !is_unreadable(node))
            .cloned()
            .collect()
    };
    for node in stranded {
        let loss = NodeLoss {
            node,
            revision: None,
            silent: false,
            witnessed: false,
        };
        core.fail_over_node(&loss, usize::MAX, Moved::All).await;
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
            !losses.are_held_back(&sample(3, 4), begin),
            "few are moved at once"
        );
        assert!(losses.are_held_back(&sample(4, 4), begin));
        assert!(losses.are_held_back(&sample(4, 4), begin + MASS_LOSS_HOLD / 2));
        assert!(!losses.are_held_back(&sample(4, 4), begin + MASS_LOSS_HOLD));
        let mut losses = Losses::default();
        assert!(
            !losses.are_held_back(&sample(30, 100), begin),
            "not even a third"
        );
        assert!(losses.are_held_back(&sample(31, 100), begin));
    }

    #[test]
    fn server_without_heartbeats_reschedules_nothing_until_nodes_could_return() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        let all_silent = FleetSample {
            silent_together: true,
            ..sample(1, 2)
        };
        assert!(losses.are_held_back(&all_silent, begin));
        let back = begin + Duration::from_secs(60);
        assert!(losses.are_held_back(&sample(1, 2), back), "one is back");
        assert!(losses.are_held_back(&sample(1, 2), back + LEASE));
        assert!(!losses.are_held_back(&sample(1, 2), back + 3 * LEASE));
        assert!(!losses.are_held_back(&sample(1, 2), back + 4 * LEASE));
        assert!(losses.are_held_back(&all_silent, back + 5 * LEASE));
        assert!(!losses.are_held_back(&sample(0, 2), back + 5 * LEASE));
    }

    #[test]
    fn server_isolated_for_ten_minutes_reschedules_nothing_when_nodes_return() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        let silent = |lost, nodes| FleetSample {
            silent_together: true,
            ..sample(lost, nodes)
        };
        for (lost, nodes) in [(3, 3), (10, 10)] {
            for minute in 0..10 {
                let now = begin + Duration::from_secs(60 * minute);
                assert!(losses.are_held_back(&silent(lost, nodes), now), "{minute}");
            }
            let back = begin + Duration::from_secs(600);
            assert!(losses.are_held_back(&sample(lost - 1, nodes), back));
            assert!(losses.are_held_back(&sample(1, nodes), back + LEASE));
            assert!(!losses.are_held_back(&sample(0, nodes), back + 2 * LEASE));
        }
    }

    #[test]
    fn nodes_that_were_lost_long_ago_do_not_hold_moves_back() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        // The last that were lost are the recent ones.
        let lost = |lost, recent| FleetSample {
            recent: names(lost - recent..lost),
            ..sample(lost, 20)
        };
        assert!(!losses.are_held_back(&lost(8, 0), begin), "one by one");
        assert!(!losses.are_held_back(&lost(9, 1), begin), "and one more");
        // Seven more at once are many; they stay so when their lease is over.
        assert!(losses.are_held_back(&lost(16, 7), begin));
        assert!(losses.are_held_back(&lost(16, 0), begin + 5 * LEASE));
        assert!(!losses.are_held_back(&lost(16, 0), begin + MASS_LOSS_HOLD));
        // They are back, and the others are not.
        let mut losses = Losses::default();
        assert!(losses.are_held_back(&lost(16, 7), begin));
        assert!(!losses.are_held_back(&lost(9, 0), begin + LEASE));
    }

    #[test]
    fn node_that_was_lost_before_an_outage_and_is_back_hides_none_that_is_not() {
        let mut losses = Losses::default();
        let begin = Instant::now();
        // Node 0 is lost, then the server is cut off from the other two.
        let outage = FleetSample {
            recent: names(1..3),
            silent_together: true,
            ..sample(3, 3)
        };
        assert!(losses.are_held_back(&outage, begin));
        let back = begin + 3 * LEASE;
        let returning = |lost: std::ops::Range<usize>| FleetSample {
            lost: names(lost),
            recent: BTreeSet::new(),
            ..sample(0, 3)
        };
        assert!(losses.are_held_back(&returning(1..3), back), "0 is back");
        assert!(losses.are_held_back(&returning(1..2), back), "and 2");
        assert!(losses.are_held_back(&returning(1..2), back + LEASE));
        assert!(!losses.are_held_back(&returning(1..2), back + 3 * LEASE));
    }

    const LEASE: Duration = Duration::from_secs(10);

    fn names(numbers: std::ops::Range<usize>) -> BTreeSet<String> {
        numbers.map(|number| format!("n{number}")).collect()
    }

    fn sample(lost: usize, nodes: usize) -> FleetSample {
        FleetSample {
            lost: names(0..lost),
            recent: names(0..lost),
            nodes,
            silent_together: false,
            lease: LEASE,
        }
    }
}

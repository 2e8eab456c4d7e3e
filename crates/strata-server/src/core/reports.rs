//! What nodes tell of instances, and what follows from it. The rule is a pure
//! function from the record and the report to the next record.

use std::net::Ipv4Addr;
use std::sync::Arc;

use strata_types::instance::{InstanceId, InstanceState, RunPolicy};
use strata_types::pod::{PodState, RestartPolicy};
use strata_types::{Error, Pace, Result};

use super::commit::{As, Verdict};
use super::record::{Instance, Wanted};
use super::tables::Kept;
use super::update::{Why, turn_to, turn_to_because};
use super::{Core, claims, now_ms};

/// So many nodes that refused an instance are remembered.
const MOST_REFUSALS: usize = 64;

/// How an instance is on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) id: InstanceId,
    /// Of the assignment it is of; none when whoever reports knows none.
    pub(crate) generation: Option<u64>,
    /// Of the placement it is of; 0 where the reporter knows none.
    pub(crate) epoch: u64,
    pub(crate) told: Told,
    pub(crate) reason: String,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) restarts: Option<u32>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) healthy: Option<bool>,
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// How its pod or virtual machine is.
    Pod(PodState),
    /// How it is, by whoever knows only the words of the published APIs.
    State(InstanceState),
    /// The node has nothing of it.
    Gone,
}

impl Core {
    /// A node tells of one of its instances. Of others' it is refused.
    pub(crate) async fn report(&self, node: &str, report: &Report) -> Result<()> {
        let mut report = report.clone();
        // A node gives its instances addresses of its subnet; what it says
        // beyond that would lead others astray.
        let outside = |address: &Ipv4Addr| {
            let node = self.node(node);
            node.is_ok_and(|node| !claims::is_within(&node.subnet, *address))
        };
        if let Some(address) = report.address.filter(outside) {
            tracing::warn!(node, instance = %report.id, %address,
                "node says that its instance has an address outside of its subnet; it is left out");
            report.address = None;
        }
        let report = &report;
        self.change_instance(&report.id, |now| {
            if let Some(leaving) = now.leaves(node) {
                // Whatever else it says is of the run that has to end.
                let over = report.told == Told::Gone && report.epoch >= leaving.epoch;
                return Ok(match over {
                    true => left(now, node),
                    false => Verdict::Keep,
                });
            }
            if now.node.as_deref() != Some(node) {
                return Ok(Verdict::Keep);
            }
            Ok(follow(now, report))
        })
        .await
        .map(drop)
    }

    /// A node will not have an instance: it is placed elsewhere.
    pub(crate) async fn refuse(
        &self,
        node: &str,
        id: &InstanceId,
        generation: u64,
        why: &str,
    ) -> Result<()> {
        self.change_instance(id, |now| {
            if now.node.as_deref() != Some(node) || now.generation != generation {
                return Ok(Verdict::Keep);
            }
            if now.wanted == Wanted::Gone {
                return Ok(Verdict::Delete);
            }
            let mut next = now.record.clone();
            if next.refusals.len() >= MOST_REFUSALS {
                next.refusals.clear();
            }
            next.refusals.insert(node.to_owned(), shorten(why));
            let why = shorten(why);
            let why = Why {
                full: format!("{node} refused it: {why}"),
                limited: format!("a node refused it: {why}"),
            };
            displace(&mut next, &why);
            Ok(Verdict::put(next))
        })
        .await
        .map(drop)
    }

    /// The node of an instance is lost, and with it all that ran there: it is
    /// placed elsewhere, unless it may not be started again. Where the node's
    /// lease can be extended, it is placed where that is known.
    pub(crate) async fn move_off(
        &self,
        node: &str,
        id: &InstanceId,
        why: &Why,
        witnessed: bool,
    ) -> Result<()> {
        let deleted = self.tables().instances.get(id).cloned();
        if deleted.is_some_and(|now| now.wanted == Wanted::Gone) {
            // Before its record goes: the node may still have it.
            self.remember_deleted(id).await?;
        }
        let rule = |now: &Kept<Instance>| Ok(moved_off(now, node, why, witnessed));
        let changed = self.change_instance_as(As::Leader, id, rule);
        changed.await.map(drop)
    }

    /// An instance of the caller, for whoever speaks only of its own.
    pub(crate) fn own_instance(&self, node: &str, id: &str) -> Result<Arc<Kept<Instance>>> {
        let found = self.tables().instances.get(id).cloned();
        found
            .filter(|found| found.node.as_deref() == Some(node))
            .ok_or_else(|| Error::not_found(format!("{node} has no instance {id}")))
    }
}

/// What follows from the loss of a node.
fn moved_off(now: &Instance, node: &str, why: &Why, witnessed: bool) -> Verdict<Instance> {
    let witnessed = witnessed && now.spec.placement.runs == RunPolicy::Exclusive;
    let was_assigned = now.is_assignable();
    let leaves = now.leaves(node);
    if now.node.as_deref() != Some(node) {
        return match leaves {
            Some(from) if witnessed && from.lost => Verdict::Keep,
            Some(_) if witnessed => {
                let mut next = now.clone();
                next.leaving
                    .iter_mut()
                    .filter(|from| from.node == node)
                    .for_each(|from| from.lost = true);
                Verdict::put(next)
            }
            Some(_) => left(now, node),
            None => Verdict::Keep,
        };
    }
    if now.wanted == Wanted::Gone {
        return Verdict::Delete;
    }
    let mut next = uproot(now, why);
    next.leaving.retain(|from| from.node != node);
    if witnessed && (was_assigned || leaves.is_some()) {
        next.note_leaving(node.to_owned(), true);
    }
    Verdict::put(next)
}

/// Nothing of it runs any more on this node.
fn left(now: &Instance, node: &str) -> Verdict<Instance> {
    let mut next = now.clone();
    next.leaving.retain(|from| from.node != node);
    if now.wanted == Wanted::Gone && now.node.is_none() && next.leaving.is_empty() {
        return Verdict::Delete;
    }
    Verdict::put(next)
}

/// Evicted from a node that is there, which has to confirm that it is gone
/// where it can.
pub(crate) fn evict(now: &Instance, why: &Why, confirms: bool) -> Instance {
    let mut next = uproot(now, why);
    if confirms {
        next.node.clone_from(&now.node);
        next.leave_node();
    }
    next
}

/// Without its node. It wants another if it is to run and may be started
/// again: what has ended by itself is not begun anew, and what runs once has
/// run.
pub(crate) fn uproot(now: &Instance, why: &Why) -> Instance {
    let mut next = now.clone();
    let once = next.spec.restart == RestartPolicy::Never;
    displace(&mut next, why);
    match now.state {
        InstanceState::Terminated => {
            next.wanted = Wanted::Stopped;
            keep(&mut next, now);
        }
        InstanceState::Crashed if once => {
            next.wanted = Wanted::Stopped;
            keep(&mut next, now);
        }
        InstanceState::Starting | InstanceState::Running if once => {
            next.wanted = Wanted::Stopped;
            turn_to_because(&mut next, InstanceState::Failed, why);
        }
        _ if now.wanted == Wanted::Stopped => {
            turn_to_because(&mut next, InstanceState::Stopped, why);
        }
        _ => {}
    }
    next
}

/// How it ended stays what is said of it.
fn keep(next: &mut Instance, now: &Instance) {
    turn_to(next, now.state, &now.description);
    next.limited_description
        .clone_from(&now.limited_description);
}

/// Off its node, and in want of another.
pub(crate) fn displace(instance: &mut Instance, why: &Why) {
    instance.node = None;
    instance.address = None;
    instance.healthy = None;
    turn_to_because(instance, InstanceState::Scheduling, why);
}

/// What follows from a report.
fn follow(now: &Instance, report: &Report) -> Verdict<Instance> {
    if report.told == Told::Gone {
        return gone(now);
    }
    let outdated = report.generation.is_some_and(|of| of != now.generation);
    // A node that ends what is to be destroyed has nothing of it any more.
    if now.wanted == Wanted::Gone && report.told == Told::State(InstanceState::Terminated) {
        return Verdict::Delete;
    }
    if outdated || now.wanted == Wanted::Gone {
        return Verdict::Keep;
    }
    let mut next = now.clone();
    next.address = report.address.or(next.address);
    next.restarts = report.restarts.unwrap_or(next.restarts);
    next.exit_code = report.exit_code.or(next.exit_code);
    next.healthy = report.healthy;
    let reason = shorten(&report.reason);
    let (state, description) = match report.told {
        Told::State(state) => stated(state, now, reason),
        Told::Pod(state) => words(state, now, report, reason),
        Told::Gone => return Verdict::Keep,
    };
    if state == InstanceState::Running {
        next.refusals.clear();
    }
    if lived_well(now, state, report) {
        next.restarts = 0;
    }
    if (next.state, &next.description) != (state, &description) {
        turn_to(&mut next, state, &description);
    }
    match next == *now {
        true => Verdict::Keep,
        false => Verdict::put(next),
    }
}

fn gone(now: &Instance) -> Verdict<Instance> {
    if now.wanted == Wanted::Gone {
        return Verdict::Delete;
    }
    // A node that follows its assignments has it, or will: this is of one that
    // was taken from it before it was given this one. Believed, it would be
    // placed again, taken away again, told of again, and so on for ever.
    Verdict::Keep
}

/// The state of an instance of which this is said with the words of the
/// published APIs. What was on its way when something else was asked for does
/// not undo that: the node that reads the state learns from it what is to be done.
fn stated(state: InstanceState, now: &Instance, reason: String) -> (InstanceState, String) {
    use InstanceState::{
        Crashed, Failed, Running, Scheduled, Starting, Stopped, Stopping, Terminated,
    };
    match (state, now.wanted, now.state) {
        (Starting | Running, Wanted::Stopped, Stopping)
        | (Stopping | Stopped, Wanted::Running, Starting | Scheduled) => {
            (now.state, now.description.clone())
        }
        (Starting | Running, Wanted::Stopped, _) => (Stopping, reason),
        (Stopped | Terminated | Crashed | Failed, Wanted::Stopped, _) => (Stopped, reason),
        // Where there is no word for a crash, the description says it.
        (Crashed, ..) if !reason.starts_with("crashed") => {
            let how = match reason.as_str() {
                "" => "it ended",
                how => how,
            };
            (Crashed, format!("crashed: {how}"))
        }
        _ => (state, reason),
    }
}

/// Whether it ran so long before it ended that waits between restarts begin
/// from the shortest again. Nodes that follow their assignments count
/// themselves.
fn lived_well(now: &Instance, state: InstanceState, report: &Report) -> bool {
    let ended = matches!(
        state,
        InstanceState::Crashed | InstanceState::Failed | InstanceState::Terminated
    );
    let lived = now_ms().saturating_sub(now.changed_at_ms);
    let good = Pace::UNITS.good.as_millis();
    report.generation.is_none()
        && ended
        && now.state == InstanceState::Running
        && u128::try_from(lived).is_ok_and(|lived| lived >= good)
}

/// The state of an instance whose pod is in this state.
fn words(
    state: PodState,
    now: &Instance,
    report: &Report,
    reason: String,
) -> (InstanceState, String) {
    let crashed = || {
        let how = match (report.exit_code, reason.as_str()) {
            (_, why) if !why.is_empty() => why.to_owned(),
            (Some(code), _) => format!("exit {code}"),
            (None, _) => "it ended".to_owned(),
        };
        (InstanceState::Crashed, format!("crashed: {how}"))
    };
    // What was on its way when somebody wanted something else is not told on:
    // it would look as if the wish had been taken back.
    let asked = || (now.state, now.description.clone());
    match (state, now.wanted, now.state) {
        (PodState::Starting | PodState::Running, Wanted::Stopped, InstanceState::Stopping)
        | (
            PodState::Stopping | PodState::Stopped,
            Wanted::Running,
            InstanceState::Starting | InstanceState::Scheduled,
        ) => return asked(),
        _ => {}
    }
    match state {
        PodState::Created if now.wanted == Wanted::Stopped => (InstanceState::Stopped, reason),
        PodState::Created => (InstanceState::Scheduled, reason),
        PodState::Starting => (InstanceState::Starting, reason),
        PodState::Running => (InstanceState::Running, reason),
        PodState::Stopping => (InstanceState::Stopping, reason),
        PodState::Stopped => (InstanceState::Stopped, reason),
        PodState::Waiting => crashed(),
        PodState::Exited if report.exit_code == Some(0) => {
            (InstanceState::Terminated, "exit 0".to_owned())
        }
        PodState::Exited => crashed(),
        PodState::Failed if now.wanted == Wanted::Stopped => (InstanceState::Stopped, reason),
        PodState::Failed => (InstanceState::Failed, reason),
        PodState::Destroying => asked(),
    }
}

/// Texts of nodes are kept in records: no longer than anybody reads.
fn shorten(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(1024).collect()
}

#[cfg(test)]
mod tests;

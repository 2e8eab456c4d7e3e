//! Reports of nodes about instances. The rule is a pure function from the
//! record and the report to the next record.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use strata_store::{Revision, Transaction};
use strata_types::instance::{DesiredState, InstanceId, InstanceState, RunPolicy};
use strata_types::pod::{PodState, RestartPolicy};
use strata_types::{BackoffPolicy, Error, Result};

use super::commit::{WriteDecision, Writer};
use super::record::Instance;
use super::tables::Versioned;
use super::update::{StateReason, set_state, set_state_because};
use super::{Core, claims, keys, now_ms};

/// So many placements an instance may have had since the backup that its record
/// is of. Each is a write of the store.
const MAX_EPOCHS_BEHIND: u64 = 1 << 20;
/// So many nodes that refused an instance are remembered.
const MAX_REFUSALS: usize = 64;

/// How an instance is on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) id: InstanceId,
    /// Of the assignment it is of; none when the reporting node knows none.
    pub(crate) generation: Option<u64>,
    /// Of the placement it is of; 0 where the reporter knows none.
    pub(crate) epoch: u64,
    pub(crate) told: ReportedState,
    pub(crate) reason: String,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) restarts: Option<u32>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) healthy: Option<bool>,
    /// It failed and is not tried again: which start, counted as by the record,
    /// was given up.
    pub(crate) given_up_at_start: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedState {
    /// How its pod or virtual machine is.
    Pod(PodState),
    /// The state, from a node that uses only the published APIs.
    State(InstanceState),
    /// The node has nothing of it.
    Gone,
}

/// A node is lost, or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeLoss {
    pub(crate) node: String,
    /// Of the record of the node by which it was lost; none where it has none.
    pub(crate) revision: Option<Revision>,
    /// That is known by its silence alone.
    pub(crate) silent: bool,
    /// Its lease may have been extended by its witnesses.
    pub(crate) witnessed: bool,
}

/// A node will not have an instance that it was assigned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) id: &'a InstanceId,
    pub(crate) generation: u64,
    /// The placement that is refused; 0 where the node does not say.
    pub(crate) epoch: u64,
    pub(crate) why: &'a str,
}

impl Core {
    /// Applies the report of a node about one of its instances; reports about
    /// other instances are ignored.
    pub(crate) async fn report(&self, node: &str, report: &Report) -> Result<()> {
        let mut report = report.clone();
        // A node gives its instances addresses of its subnet; any other address
        // in a report would lead others astray.
        let outside = |address: &Ipv4Addr| {
            let node = self.node(node);
            node.is_ok_and(|node| !claims::is_within(&node.subnet, *address))
        };
        if let Some(address) = report.address.filter(outside) {
            tracing::warn!(node, instance = %report.id, %address,
                "node reports an instance address outside of its subnet; address ignored");
            report.address = None;
        }
        let report = &report;
        self.change::<Instance>(Writer::AnyServer, &report.id, |now| {
            if let Some(leaving) = now.leaves(node) {
                // Whatever else it reports is of the run that has to end.
                let over = report.told == ReportedState::Gone && report.epoch >= leaving.epoch;
                return Ok(match over {
                    true => confirm_left(now, node),
                    false => WriteDecision::Keep,
                });
            }
            if now.node.as_deref() != Some(node) {
                return Ok(WriteDecision::Keep);
            }
            Ok(apply_report(now, report))
        })
        .await
        .map(drop)
    }

    /// A node that has not been heard from since a restore has an instance which
    /// the records have elsewhere: there it is started when this node confirms
    /// that it is gone.
    pub(crate) async fn found_elsewhere(
        &self,
        node: &str,
        id: &InstanceId,
        epoch: u64,
    ) -> Result<()> {
        self.change::<Instance>(Writer::AnyServer, id, |now| {
            let is_elsewhere = now.node.as_deref() != Some(node) && now.leaves(node).is_none();
            let matters = now.restored && now.spec.placement.runs == RunPolicy::Exclusive;
            if !(is_elsewhere && matters && self.confirms(node)) {
                return Ok(WriteDecision::Keep);
            }
            let mut next = now.record.clone();
            // Of a node that was taken over it may be any number, and after the
            // last one there is no placement.
            let possible = now.epoch.saturating_add(MAX_EPOCHS_BEHIND);
            next.epoch = next.epoch.max(epoch.min(possible));
            next.note_leaving(node.to_owned(), false, RunPolicy::Exclusive);
            Ok(WriteDecision::put(next))
        })
        .await
        .map(drop)
    }

    /// A node refuses an instance: it is rescheduled, and starts elsewhere once
    /// the node has confirmed that nothing of it runs there. A refusal alone
    /// says nothing about that: the node may have it from before.
    pub(crate) async fn refuse(&self, node: &str, refusal: &Refusal<'_>) -> Result<()> {
        self.change::<Instance>(Writer::AnyServer, refusal.id, |now| {
            Ok(refused(now, node, refusal, self.confirms(node)))
        })
        .await
        .map(drop)
    }

    /// The node of an instance is lost, and with it all that ran there: it is
    /// placed elsewhere, unless it may not be started again. Where the node's
    /// lease can be extended, it is placed where that is known.
    ///
    /// Written only as long as the loss holds: the record of the node is the one
    /// by which it was decided, and the node has given no sign of life. One that
    /// is back may have been assigned the instance again.
    pub(crate) async fn fail_over(
        &self,
        loss: &NodeLoss,
        id: &InstanceId,
        why: &StateReason,
    ) -> Result<()> {
        if !self.is_still(loss) {
            return Ok(());
        }
        let deleted = self.tables().instances.get(id).cloned();
        if deleted.is_some_and(|now| now.desired_state == DesiredState::Gone) {
            // Before its record goes: the node may still have it.
            self.remember_deleted(id).await?;
        }
        let node = &*loss.node;
        let witnesses = loss.witnessed.then(|| {
            let tables = self.tables();
            let record = tables.nodes.get(node);
            record.and_then(|node| node.witnesses.clone())
        });
        let remains = Remains {
            witnesses: witnesses.map(Option::unwrap_or_default),
            unleased: loss.silent && self.confirms(node),
        };
        let rule = |now: &Versioned<Instance>| Ok(failed_over(now, node, why, &remains));
        let key = keys::node(node);
        let condition = |change: Transaction| {
            self.is_still(loss).then(|| match loss.revision {
                Some(revision) => change.if_unchanged(&*key, revision),
                None => change.if_absent(&*key),
            })
        };
        let changed = self.change_while::<Instance>(Writer::Leader, id, rule, condition);
        changed.await.map(drop)
    }

    fn is_still(&self, loss: &NodeLoss) -> bool {
        let tables = self.tables();
        let record = tables.nodes.get(&loss.node);
        let same = match record {
            Some(now) => loss.revision == Some(now.revision),
            None => {
                let key = keys::node(&loss.node);
                loss.revision.is_none() && !tables.unreadable.contains_key(&key)
            }
        };
        let is_back = || {
            let lease = record.map_or(Duration::ZERO, |node| self.lease_of(node));
            let live = self.live().node(&loss.node);
            live.is_some_and(|live| live.answers && live.heard.elapsed() <= lease)
        };
        same && !(loss.silent && is_back())
    }

    /// An instance of the calling node, for calls that concern only its own.
    pub(crate) fn own_instance(&self, node: &str, id: &str) -> Result<Arc<Versioned<Instance>>> {
        let found = self.tables().instances.get(id).cloned();
        found
            .filter(|found| found.node.as_deref() == Some(node))
            .ok_or_else(|| Error::not_found(format!("{node} has no instance {id}")))
    }
}

/// What follows from the refusal of a node.
fn refused(
    now: &Instance,
    node: &str,
    refusal: &Refusal<'_>,
    confirms: bool,
) -> WriteDecision<Instance> {
    let is_earlier = refusal.epoch != 0 && refusal.epoch < now.epoch;
    if now.node.as_deref() != Some(node) || now.generation != refusal.generation || is_earlier {
        return WriteDecision::Keep;
    }
    let mut next = now.clone();
    if next.refusals.len() >= MAX_REFUSALS {
        next.refusals.clear();
    }
    let why = sanitize_text(refusal.why);
    next.refusals.insert(node.to_owned(), why.clone());
    if confirms {
        next.leave_node();
    }
    if now.desired_state == DesiredState::Gone {
        return without_node(next);
    }
    let why = StateReason {
        full: format!("{node} refused it: {why}"),
        limited: format!("a node refused it: {why}"),
    };
    reschedule(&mut next, &why);
    if now.desired_state == DesiredState::Stopped {
        set_state_because(&mut next, InstanceState::Stopped, &why);
    }
    WriteDecision::put(next)
}

/// What becomes of an instance that is deleted and that its node has nothing of
/// any more: its record stays until every node where it was before has
/// confirmed the same, as what runs there has its name, and maybe its volumes.
pub(super) fn without_node(mut next: Instance) -> WriteDecision<Instance> {
    (next.node, next.address, next.healthy) = (None, None, None);
    match next.leaving.is_empty() {
        true => WriteDecision::Delete,
        false => WriteDecision::put(next),
    }
}

/// What may still run on a lost node.
#[derive(Debug, Default)]
struct Remains {
    /// What has a lease, as long as all of these extend it.
    witnesses: Option<BTreeSet<String>>,
    /// What has none, until the node confirms that it is gone.
    unleased: bool,
}

/// What follows from the loss of a node, where this may still run.
fn failed_over(
    now: &Instance,
    node: &str,
    why: &StateReason,
    remains: &Remains,
) -> WriteDecision<Instance> {
    let leaves = now.leaves(node);
    let was_unleased = leaves.is_some_and(|from| from.unleased);
    let unleased = remains.unleased && (now.is_available() || was_unleased);
    let witnesses = remains.witnesses.as_ref();
    let witnesses = witnesses.filter(|_| !now.is_available());
    let witnessed = witnesses.is_some();
    let was_assigned = now.may_be_assigned();
    if now.node.as_deref() != Some(node) {
        return match leaves {
            // Of what is deleted nothing is started elsewhere, and the node is
            // sent a withdrawal when it is back.
            Some(_) if now.desired_state == DesiredState::Gone => confirm_left(now, node),
            Some(from) if (witnessed || unleased) && from.lost => WriteDecision::Keep,
            Some(_) if witnessed || unleased => {
                // It was placed while this node was to confirm its end. Now only
                // the witnesses know when the lease there is over.
                let knows = |at: &String| witnesses.is_none_or(|names| names.contains(at));
                let mut next = match now.node.as_ref().is_none_or(knows) {
                    true => now.clone(),
                    false => evict(now, why, true),
                };
                next.leaving
                    .iter_mut()
                    .filter(|from| from.node == node)
                    .for_each(|from| from.lost = true);
                WriteDecision::put(next)
            }
            Some(_) => confirm_left(now, node),
            None => WriteDecision::Keep,
        };
    }
    if now.desired_state == DesiredState::Gone {
        let mut next = now.clone();
        next.leaving.retain(|from| from.node != node);
        return without_node(next);
    }
    let mut next = unassign(now, why);
    next.leaving.retain(|from| from.node != node);
    if (witnessed || unleased) && (was_assigned || leaves.is_some()) {
        next.leaving.extend(leaves.cloned());
        next.note_leaving(node.to_owned(), true, now.spec.placement.runs);
        if let (None, Some(from)) = (leaves, next.leaving.last_mut()) {
            from.generation = now.generation;
        }
    }
    WriteDecision::put(next)
}

/// Nothing of it runs any more on this node.
fn confirm_left(now: &Instance, node: &str) -> WriteDecision<Instance> {
    let mut next = now.clone();
    next.leaving.retain(|from| from.node != node);
    if now.desired_state == DesiredState::Gone && now.node.is_none() && next.leaving.is_empty() {
        return WriteDecision::Delete;
    }
    WriteDecision::put(next)
}

/// Evicted from a node that is there, which has to confirm that it is gone
/// where it can.
pub(crate) fn evict(now: &Instance, why: &StateReason, confirms: bool) -> Instance {
    let mut next = unassign(now, why);
    if confirms {
        next.node.clone_from(&now.node);
        next.leave_node();
    }
    next
}

/// Unassigns it from its node. It is rescheduled if it is to run and may be
/// restarted: an instance that ended by itself, or runs once and has run, is
/// not.
pub(crate) fn unassign(now: &Instance, why: &StateReason) -> Instance {
    let mut next = now.clone();
    let once = next.spec.restart == RestartPolicy::Never;
    reschedule(&mut next, why);
    match now.state {
        InstanceState::Terminated => {
            next.desired_state = DesiredState::Stopped;
            keep_final_state(&mut next, now);
        }
        InstanceState::Crashed if once => {
            next.desired_state = DesiredState::Stopped;
            keep_final_state(&mut next, now);
        }
        InstanceState::Starting | InstanceState::Running if once => {
            next.desired_state = DesiredState::Stopped;
            set_state_because(&mut next, InstanceState::Failed, why);
        }
        _ if now.desired_state == DesiredState::Stopped => {
            set_state_because(&mut next, InstanceState::Stopped, why);
        }
        _ => {}
    }
    next
}

/// The state in which it ended is kept.
fn keep_final_state(next: &mut Instance, now: &Instance) {
    set_state(next, now.state, &now.description);
    next.limited_description
        .clone_from(&now.limited_description);
}

/// Takes it off its node and schedules it again.
pub(crate) fn reschedule(instance: &mut Instance, why: &StateReason) {
    instance.node = None;
    instance.address = None;
    instance.healthy = None;
    set_state_because(instance, InstanceState::Scheduling, why);
}

/// What follows from a report.
fn apply_report(now: &Instance, report: &Report) -> WriteDecision<Instance> {
    if report.told == ReportedState::Gone {
        return on_gone(now, report.epoch);
    }
    let outdated = report.generation.is_some_and(|of| of != now.generation);
    // A node that ends what is to be destroyed has nothing of it any more.
    if now.desired_state == DesiredState::Gone
        && report.told == ReportedState::State(InstanceState::Terminated)
    {
        return without_node(now.clone());
    }
    if outdated || now.desired_state == DesiredState::Gone {
        return WriteDecision::Keep;
    }
    let mut next = now.clone();
    next.address = report.address.or(next.address);
    next.restarts = report.restarts.unwrap_or(next.restarts);
    next.exit_code = report.exit_code.or(next.exit_code);
    next.healthy = report.healthy;
    let reason = sanitize_text(&report.reason);
    let (state, description) = match report.told {
        ReportedState::State(state) => state_from_published(state, now, reason),
        ReportedState::Pod(state) => state_from_pod(state, now, report, reason),
        ReportedState::Gone => return WriteDecision::Keep,
    };
    if state == InstanceState::Running {
        next.refusals.clear();
    }
    if ran_long_enough(now, state, report) {
        next.restarts = 0;
    }
    if (next.state, &next.description) != (state, &description) {
        set_state(&mut next, state, &description);
    }
    // A start that was requested meanwhile is still to be tried.
    let is_of_last_start = report.given_up_at_start == Some(now.starts);
    next.given_up = state == InstanceState::Failed && is_of_last_start;
    match next == *now {
        true => WriteDecision::Keep,
        false => WriteDecision::put(next),
    }
}

fn on_gone(now: &Instance, epoch: u64) -> WriteDecision<Instance> {
    // What is reported of an earlier placement says nothing about this one.
    let is_earlier = epoch != 0 && epoch < now.epoch;
    if now.desired_state == DesiredState::Gone && !is_earlier {
        return without_node(now.clone());
    }
    // A node that follows its assignments has it, or will: this is of one that
    // was taken from it before it was assigned this one. Accepting it would
    // reschedule the instance again and again.
    WriteDecision::Keep
}

/// The state of an instance for which a node reports this by the published
/// APIs. A report that was on its way when another change was requested does
/// not undo that change: the node that reads the state learns from it what is
/// to be done.
fn state_from_published(
    state: InstanceState,
    now: &Instance,
    reason: String,
) -> (InstanceState, String) {
    use InstanceState::{
        Crashed, Failed, Running, Scheduled, Starting, Stopped, Stopping, Terminated,
    };
    match (state, now.desired_state, now.state) {
        (Starting | Running, DesiredState::Stopped, Stopping)
        | (Stopping | Stopped, DesiredState::Running, Starting | Scheduled) => {
            (now.state, now.description.clone())
        }
        (Starting | Running, DesiredState::Stopped, _) => (Stopping, reason),
        (Stopped | Terminated | Crashed | Failed, DesiredState::Stopped, _) => (Stopped, reason),
        // Where there is no state for a crash, the description names it.
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
fn ran_long_enough(now: &Instance, state: InstanceState, report: &Report) -> bool {
    let ended = matches!(
        state,
        InstanceState::Crashed | InstanceState::Failed | InstanceState::Terminated
    );
    let lived = now_ms().saturating_sub(now.changed_at_ms);
    let good = BackoffPolicy::UNITS.good.as_millis();
    report.generation.is_none()
        && ended
        && now.state == InstanceState::Running
        && u128::try_from(lived).is_ok_and(|lived| lived >= good)
}

/// The state of an instance whose pod is in this state.
fn state_from_pod(
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
    // A report sent before the desired state changed is not shown: it would
    // look as if the change had been reverted.
    let asked = || (now.state, now.description.clone());
    match (state, now.desired_state, now.state) {
        (
            PodState::Starting | PodState::Running,
            DesiredState::Stopped,
            InstanceState::Stopping,
        )
        | (
            PodState::Stopping | PodState::Stopped,
            DesiredState::Running,
            InstanceState::Starting | InstanceState::Scheduled,
        ) => return asked(),
        _ => {}
    }
    match state {
        PodState::Created if now.desired_state == DesiredState::Stopped => {
            (InstanceState::Stopped, reason)
        }
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
        PodState::Failed if now.desired_state == DesiredState::Stopped => {
            (InstanceState::Stopped, reason)
        }
        PodState::Failed => (InstanceState::Failed, reason),
        PodState::Destroying => asked(),
    }
}

/// Texts of nodes are stored in records: bounded, without control characters.
fn sanitize_text(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(1024).collect()
}

#[cfg(test)]
mod tests;

//! The task: woken by changes, it brings the fleet up to date, decides for all
//! instances that need a place in one batch, and writes each decision if
//! nothing came between. What finds no place is tried again when the fleet has
//! changed.
//!
//! The write paths of a decision, all through `write_all`, which commits as the
//! leader and only if every record still has the revision of the decision, that
//! of the node too:
//! - A placement is one transaction with the evictions that it causes: an
//!   instance is never evicted for a newcomer that was not placed. Transactions
//!   of one batch run concurrently, in no order: what has to end first on the
//!   node is listed in `after` of the placed record, also if it is evicted by
//!   another transaction.
//! - A failure writes the reason and clears the refusals. Nothing is written
//!   where the record has that reason already and no refusals.
//! - A drained instance is evicted and placed in one write of its record.
//!
//! The fleet counts a decision from planning on, before the write. A write that
//! fails is undone in the cache (`FleetCache::release`), which then follows the
//! tables: the error may also be a lost answer, and then the watch delivers
//! the record. The instances of the transaction are tried again, after a
//! placement with the next tick; `next_batch` drops those that need none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use strata_api::rest::Placement;
use strata_scheduler::{
    Cause, Eviction, InstanceId as Slot, NodeState, Placement as Decided, Plan, Request, drain,
    place,
};
use strata_store::{Revision, StoreError, Transaction};
use strata_tasks::TaskGroup;
use strata_types::instance::{InstanceId, InstanceState};
use strata_types::pod::RestartPolicy;
use strata_types::{Error, Label, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::backoff::Backoffs;
use super::explain;
use super::fleet::{FleetCache, failure_message, needs_placement, slot};
use super::preemption_wait::makes_room;
use crate::core::keys;
use crate::core::{
    AwaitedEviction, Core, DesiredState, Instance, Lead, StateReason, Touched, Versioned, encode,
    evict, set_state_because,
};

/// And without a reason that is known here, this often.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// The most that are decided at once.
const MAX_BATCH: usize = 1024;
/// Instances without a place are tried again at most this often.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Queries the placement task.
#[derive(Clone)]
pub struct PlacementHandle {
    requests: mpsc::Sender<ExplainRequest>,
}

struct ExplainRequest {
    id: InstanceId,
    /// With the names of nodes and of instances of others.
    names: bool,
    answer: oneshot::Sender<Result<Placement>>,
}

impl PlacementHandle {
    /// Why an instance is where it is, and not elsewhere; with the names of
    /// nodes, or counting them.
    pub async fn explain(&self, id: &InstanceId, names: bool) -> Result<Placement> {
        let (answer, answered) = oneshot::channel();
        let request = ExplainRequest {
            id: id.clone(),
            names,
            answer,
        };
        let gone = || Error::unavailable("the server is ending");
        self.requests.send(request).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Starts placement; it decides while this server leads.
pub fn start(core: Core, tasks: impl Into<TaskGroup>) -> PlacementHandle {
    let (requests, asked) = mpsc::channel(64);
    // Requests wait here while placement is restarted.
    let asked = Arc::new(tokio::sync::Mutex::new(asked));
    tasks.into().restart("placement", move || {
        let (core, asked) = (core.clone(), asked.clone());
        async move { run(core, &mut *asked.lock().await).await }
    });
    PlacementHandle { requests }
}

async fn run(core: Core, asked: &mut mpsc::Receiver<ExplainRequest>) {
    let mut task = Task {
        cache: FleetCache::new(&core),
        waiting: BTreeSet::new(),
        unschedulable: HashSet::new(),
        refused: Backoffs::default(),
        core: core.clone(),
    };
    task.waiting.extend(task.all_waiting());
    let mut lead = core.watch_lead();
    let mut again = tokio::time::interval(RETRY_INTERVAL);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut resync = tokio::time::interval(RESYNC_INTERVAL);
    resync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut fleet_changed = true;
    loop {
        tokio::select! {
            touched = core.subscriptions().placement.take() => {
                let nodes = touched.iter().any(|thing| matches!(thing, Touched::Node(_)));
                for thing in touched {
                    fleet_changed |= task.apply_change(thing);
                }
                if nodes && matches!(core.lead(), Lead::Leading(_)) {
                    task.drain().await;
                }
            }
            _ = lead.changed() => fleet_changed = true,
            Some(request) = asked.recv() => task.answer(request),
            // What is measured changes all the time, and wakes no task.
            _ = resync.tick() => fleet_changed = true,
            _ = again.tick() => {
                let due = task.take_retries(std::mem::take(&mut fleet_changed));
                if !due {
                    continue;
                }
                if matches!(core.lead(), Lead::Leading(_)) {
                    task.drain().await;
                }
            }
        }
        if matches!(core.lead(), Lead::Leading(_)) {
            fleet_changed |= !task.decide().await;
        }
    }
}

struct Task {
    core: Core,
    cache: FleetCache,
    /// Instances that need a place.
    waiting: BTreeSet<InstanceId>,
    /// Instances that need one, and there was none.
    unschedulable: HashSet<InstanceId>,
    /// Those that every node refused, and when they are tried again.
    refused: Backoffs,
}

impl Task {
    fn all_waiting(&self) -> Vec<InstanceId> {
        let tables = self.core.tables();
        let all = tables.instances.values();
        all.filter(|one| needs_placement(one))
            .map(|one| one.id.clone())
            .collect()
    }

    /// Takes in a change. The answer is whether there may be more room now.
    fn apply_change(&mut self, thing: Touched) -> bool {
        match thing {
            Touched::Node(name) => {
                let known = self.cache.fleet.node(&name).is_some();
                self.cache.sync_node(&self.core, &name);
                if !known {
                    // It may take what all others refused.
                    self.refused.clear();
                }
                true
            }
            Touched::Instance(id) => {
                let had = self.cache.place_of(&id);
                self.cache.sync_instance(&self.core, &id);
                let left = had.is_some() && self.cache.place_of(&id) != had;
                let record = self.core.tables().instances.get(&id).cloned();
                let waits = record.as_ref().is_some_and(|one| needs_placement(one));
                if record.as_ref().is_none_or(|one| one.is_up()) {
                    self.refused.remove(&id);
                }
                if !waits {
                    self.waiting.remove(&id);
                    self.unschedulable.remove(&id);
                } else if !self.unschedulable.contains(&id) {
                    self.waiting.insert(id);
                } else if record.is_some_and(|one| one.state != InstanceState::Failed) {
                    // A caller requested it again.
                    self.unschedulable.remove(&id);
                    self.refused.remove(&id);
                    self.waiting.insert(id);
                }
                left
            }
        }
    }

    /// Takes those that are to be tried again; whether there is anything to do.
    /// A fleet that changed may have room for all but those that every node
    /// refused: these wait for their time.
    fn take_retries(&mut self, fleet_changed: bool) -> bool {
        let now = Instant::now();
        let all = self.unschedulable.iter();
        let due = all.filter(|id| match self.refused.until(id) {
            Some(until) => until <= now,
            None => fleet_changed,
        });
        let due: Vec<InstanceId> = due.cloned().collect();
        for id in &due {
            self.unschedulable.remove(id);
        }
        let any = !due.is_empty();
        self.waiting.extend(due);
        any || fleet_changed
    }

    /// What instances really use counts, too.
    fn measure(&mut self) {
        for name in self.core.live().take_measured() {
            if let Some(node) = self.cache.fleet.node(&name)
                && let Some(live) = self.core.live().node(&name)
            {
                let _ = self.cache.fleet.measure(node, live.instances);
            }
        }
    }

    /// Decides for all that wait. The answer is whether all could be written;
    /// what could not is tried again later.
    async fn decide(&mut self) -> bool {
        let mut all_written = true;
        while !self.waiting.is_empty() {
            let records = self.next_batch();
            let mut requests: Vec<Request> = Vec::with_capacity(records.len());
            let mut asking = Vec::with_capacity(records.len());
            for record in records {
                if let Some(request) = self.cache.request(&self.core, &record) {
                    requests.push(request);
                    asking.push(record);
                }
            }
            if requests.is_empty() {
                continue;
            }
            self.measure();
            let plan = place(&mut self.cache.fleet, &requests);
            all_written &= self.write_plan(plan, &asking).await;
        }
        all_written
    }

    fn next_batch(&mut self) -> Vec<Arc<Versioned<Instance>>> {
        let mut records = Vec::new();
        while let Some(id) = self.waiting.pop_first() {
            let record = self.core.tables().instances.get(&id).cloned();
            if let Some(record) = record.filter(|one| needs_placement(one)) {
                records.push(record);
            }
            if records.len() == MAX_BATCH {
                break;
            }
        }
        records
    }

    /// Writes what was decided.
    async fn write_plan(&mut self, plan: Plan, asking: &[Arc<Versioned<Instance>>]) -> bool {
        let writes = FuturesUnordered::new();
        for placement in &plan.placements {
            let record = &asking[placement.request];
            let node = self.cache.node_name(placement.node);
            self.cache.placed(record, &node);
            let mut next = record.record.clone();
            next.place_on(&node);
            next.after = self.evictions_awaited(&plan, placement, record);
            let mut leaving = record.leaving.iter();
            let leaving = leaving.find(|from| !record.may_start_beside(from));
            let first = match (leaving, next.after.is_empty()) {
                (Some(leaving), _) => format!(", once it has ended on {}", leaving.node),
                (None, false) => ", once what makes room for it has ended there".into(),
                (None, true) => String::new(),
            };
            let why = StateReason {
                full: format!("on node {node}{first}"),
                limited: String::new(),
            };
            set_state_because(&mut next, InstanceState::Scheduled, &why);
            let evicted = plan.evictions.iter();
            let evicted = evicted.filter(|eviction| eviction.by == slot(&record.id));
            let mut changes = vec![(record.clone(), next)];
            changes.extend(evicted.filter_map(|eviction| self.evicted(eviction, &record.name)));
            let placed = self.planned_on(&node);
            writes.push(write_all(&self.core, changes, Some(placed)));
        }
        for failure in &plan.failures {
            let record = &asking[failure.request];
            self.unschedulable.insert(record.id.clone());
            if !record.refusals.is_empty() {
                self.refused.failed(&record.id, Instant::now());
            }
            let why = unschedulable_reason(&failure.cause, &record.refusals);
            let told = record.state == InstanceState::Failed && record.description == why.full;
            if told && record.refusals.is_empty() {
                continue;
            }
            let mut next = record.record.clone();
            // The reason of a refusal may be gone the next time.
            next.refusals.clear();
            set_state_because(&mut next, InstanceState::Failed, &why);
            writes.push(write_all(&self.core, vec![(record.clone(), next)], None));
        }
        let written: Vec<Vec<_>> = writes.collect().await;
        self.written(written.into_iter().flatten().collect())
    }

    /// What has to end on the node of a placement before it is started there.
    fn evictions_awaited(
        &self,
        plan: &Plan,
        placement: &Decided,
        newcomer: &Instance,
    ) -> Vec<AwaitedEviction> {
        let ids = |slots: Vec<Slot>| {
            let ids = slots.into_iter().filter_map(|slot| self.cache.id_of(slot));
            ids.collect::<BTreeSet<InstanceId>>()
        };
        let on_node = plan.evictions.iter();
        let on_node = on_node.filter(|eviction| eviction.node == placement.node);
        let also_evicted = ids(on_node.map(|eviction| eviction.instance).collect());
        let evicted = ids(placement.after.clone());
        let node = self.cache.node_name(placement.node);
        makes_room(&self.core, &node, newcomer, &evicted, &also_evicted)
    }

    /// How an instance is that makes room for another. It is written together
    /// with the one it makes room for, or not at all.
    fn evicted(
        &self,
        eviction: &Eviction,
        by: &Label,
    ) -> Option<(Arc<Versioned<Instance>>, Instance)> {
        let id = self.cache.id_of(eviction.instance)?;
        let node = self.cache.node_name(eviction.node);
        let record = self.core.tables().instances.get(&id).cloned()?;
        let why = StateReason {
            full: format!("made room on {node} for {by}, which has a higher priority"),
            limited: "made room for an instance with a higher priority".into(),
        };
        // It went by itself meanwhile, or goes.
        let is_there =
            record.node.as_deref() == Some(&*node) && record.desired_state != DesiredState::Gone;
        let next = evict(&record, &why, self.core.confirms(&node));
        is_there.then_some((record, next))
    }

    /// The node of a decision, with the record that it was decided by.
    fn planned_on(&self, node: &str) -> PlannedNode {
        PlannedNode {
            name: node.to_owned(),
            revision: self.cache.revision_of(node),
        }
    }

    /// What was not written is not so, either. The answer is whether all was.
    fn written(&mut self, written: Vec<(InstanceId, Result<(), StoreError>)>) -> bool {
        let mut all = true;
        for (id, result) in written {
            if let Err(error) = result {
                tracing::debug!(%error, instance = %id, "a placement was not written");
                self.cache.release(&self.core, &id);
                // Not at once: the conflict may last for a while.
                self.unschedulable.insert(id);
                all = false;
            }
        }
        if !all {
            self.cache.sync_changed_nodes(&self.core);
        }
        all
    }

    /// Empties nodes that are to be empty, as far as there is room elsewhere.
    async fn drain(&mut self) {
        let nodes: Vec<_> = self.cache.fleet.nodes().collect();
        for node in nodes {
            let draining = self.cache.fleet.state(node) == Ok(NodeState::Draining);
            if !draining
                || self
                    .cache
                    .fleet
                    .instances_on(node)
                    .is_ok_and(|on| on.is_empty())
            {
                continue;
            }
            self.measure();
            let Ok(plan) = drain(&mut self.cache.fleet, node) else {
                continue;
            };
            let from = self.cache.node_name(node);
            for failure in &plan.failures {
                let id = self.cache.id_of(failure.instance);
                tracing::info!(node = from, instance = ?id, why = failure_message(&failure.cause, true), "instance not drained: no other node fits");
            }
            self.move_away(&from, &plan).await;
        }
    }

    async fn move_away(&mut self, from: &str, plan: &Plan) {
        let writes = FuturesUnordered::new();
        for placement in &plan.placements {
            let Some(id) = self.cache.id_of(placement.instance) else {
                continue;
            };
            let Some(record) = self.core.tables().instances.get(&id).cloned() else {
                continue;
            };
            let to = self.cache.node_name(placement.node);
            if record.node.as_deref() != Some(from) {
                self.cache.release(&self.core, &id);
                continue;
            }
            self.cache.placed(&record, &to);
            let runs = matches!(
                record.state,
                InstanceState::Starting | InstanceState::Running
            );
            if record.desired_state == DesiredState::Gone
                || (runs && record.spec.restart == RestartPolicy::Never)
            {
                // It is being deleted, or runs to its end.
                self.cache.release(&self.core, &id);
                continue;
            }
            let drained = StateReason {
                full: format!("{from} was drained"),
                limited: "its node was drained".into(),
            };
            let mut next = evict(&record, &drained, self.core.confirms(from));
            let mut placed = None;
            if next.desired_state == DesiredState::Running {
                let why = StateReason {
                    full: format!("on node {to}; {from} is drained"),
                    limited: "its node is drained".into(),
                };
                set_state_because(&mut next, InstanceState::Scheduled, &why);
                next.place_on(&to);
                placed = Some(self.planned_on(&to));
                let none = BTreeSet::new();
                next.after = makes_room(&self.core, &to, &record, &none, &none);
            }
            writes.push(write_all(&self.core, vec![(record, next)], placed));
        }
        let written: Vec<Vec<_>> = writes.collect().await;
        self.written(written.into_iter().flatten().collect());
    }

    fn answer(&mut self, request: ExplainRequest) {
        self.measure();
        let answer = explain::explain(&self.core, &mut self.cache, &request.id);
        let answer = answer.map(|explained| match request.names {
            true => explained.full,
            false => explained.limited,
        });
        let _ = request.answer.send(answer);
    }
}

/// Why an instance has no place: what speaks against the nodes, and the reasons
/// of those that refused it.
fn unschedulable_reason(cause: &Cause, refusals: &BTreeMap<String, String>) -> StateReason {
    let mut why = StateReason {
        full: failure_message(cause, true),
        limited: failure_message(cause, false),
    };
    for (node, refusal) in refusals {
        why.full
            .push_str(&format!("; {node} refused it: {refusal}"));
        let limited = &mut why.limited;
        limited.push_str(&format!("; a node refused it: {refusal}"));
    }
    for text in [&mut why.full, &mut why.limited] {
        text.truncate(text.floor_char_boundary(4096));
    }
    why
}

/// A node on which something is placed.
struct PlannedNode {
    name: String,
    /// Of the record by which the fleet had it; none when it had none.
    revision: Option<Revision>,
}

/// Writes records together, or none of them: an instance, and those that make
/// room for it. The node that it is placed on still has to be as it was when
/// that was decided: one that was removed, closed or lost since is given
/// nothing. What is on a node without a record is moved at once.
async fn write_all(
    core: &Core,
    changes: Vec<(Arc<Versioned<Instance>>, Instance)>,
    placed: Option<PlannedNode>,
) -> Vec<(InstanceId, Result<(), StoreError>)> {
    let ids: Vec<InstanceId> = changes
        .iter()
        .map(|(before, _)| before.id.clone())
        .collect();
    let mut transaction = Transaction::new();
    if let Some(PlannedNode { name, revision }) = placed {
        let Some(revision) = revision else {
            let why = format!("node {name} has no record");
            let refused = |id| (id, Err(StoreError::Unavailable(why.clone())));
            return ids.into_iter().map(refused).collect();
        };
        transaction = transaction.if_unchanged(keys::node(&name), revision);
    }
    for (before, next) in &changes {
        let key = keys::instance(&next.id);
        match encode(next) {
            Ok(value) => {
                let unchanged = transaction.if_unchanged(&*key, before.revision);
                transaction = unchanged.put(key, value);
            }
            Err(error) => {
                let refused = |id| (id, Err(StoreError::Invalid(error.to_string())));
                return ids.into_iter().map(refused).collect();
            }
        }
    }
    let written = core.commit_as_leader(transaction).await;
    let each = |id| match &written {
        Ok(_) => (id, Ok(())),
        Err(error) => (id, Err(StoreError::Unavailable(error.to_string()))),
    };
    ids.into_iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use strata_store::Memory;
    use strata_types::Role;
    use strata_types::instance::InstanceSpec;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::core::{CoreSettings, NewInstance, NodeFacts, Principal, Range, Registration};

    async fn core(shutdown: &CancellationToken) -> Core {
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(60),
            placement: Default::default(),
            overcommit: Default::default(),
            alone: true,
            bounds: Default::default(),
            events_file: None,
            server_port: None,
        };
        let core = Core::open(Arc::new(Memory::new()), settings, shutdown.clone());
        let core = core.await.unwrap();
        core.set_lead(Lead::Leading(None));
        core
    }

    #[tokio::test]
    async fn nothing_is_placed_on_a_node_that_was_closed_after_the_decision() {
        let shutdown = CancellationToken::new();
        let core = core(&shutdown).await;
        let admin = Principal {
            name: "admin".into(),
            role: Role::Admin,
            projects: None,
        };
        let registration = Registration {
            name: "n1".into(),
            subnet: None,
        };
        core.register_node(&registration).await.unwrap();
        let facts = NodeFacts {
            capacity: Some((4000, 4_000_000_000, 0)),
            follows: Some(true),
            ..NodeFacts::default()
        };
        core.update_node_facts("n1", &facts).await.unwrap();
        let new = NewInstance {
            id: Some("web".parse().unwrap()),
            name: Some("web".parse().unwrap()),
            project: "default".parse().unwrap(),
            workload: None,
            spec: InstanceSpec {
                uri: "x".into(),
                ..InstanceSpec::default()
            },
            fresh_id: None,
            desired_state: None,
        };
        core.create_instance(&admin, new).await.unwrap();
        let mut task = Task {
            cache: FleetCache::new(&core),
            waiting: BTreeSet::new(),
            unschedulable: HashSet::new(),
            refused: Backoffs::default(),
            core: core.clone(),
        };
        task.waiting.extend(task.all_waiting());
        let asking = task.next_batch();
        let request = task.cache.request(&core, &asking[0]).unwrap();
        let plan = place(&mut task.cache.fleet, &[request]);
        assert_eq!(plan.placements.len(), 1);
        core.drain_node(&admin, "n1", true).await.unwrap();
        assert!(!task.write_plan(plan, &asking).await);
        let place = || {
            let tables = core.tables();
            tables.instances[&asking[0].id].node.clone()
        };
        assert_eq!(place(), None);
        // The next decision is made with the node as it is.
        core.drain_node(&admin, "n1", false).await.unwrap();
        task.apply_change(Touched::Node("n1".into()));
        task.waiting.extend(task.all_waiting());
        assert!(task.decide().await);
        assert_eq!(place().as_deref(), Some("n1"));
        shutdown.cancel();
    }
}

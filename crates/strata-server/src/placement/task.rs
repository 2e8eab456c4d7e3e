//! The task: woken by changes, it brings the fleet up to date, decides for all
//! that want a place in one batch, and writes each decision if nothing came
//! between. What finds no place is tried again when the fleet has changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use strata_api::rest::Placement;
use strata_scheduler::{
    Cause, Eviction, InstanceId as Slot, NodeState, Placement as Decided, Plan, Request, drain,
    place,
};
use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, InstanceState};
use strata_types::pod::RestartPolicy;
use strata_types::{Error, Label, Result};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoffs;
use super::explain;
use super::fleet::{Board, slot, wants_a_place, why_not};
use super::room::makes_room;
use crate::core::keys;
use crate::core::{
    Core, Instance, Kept, Lead, MakesRoom, Touched, Wanted, Why, encode, evict, turn_to_because,
};

/// And without a reason that is known here, this often.
const NOW_AND_THEN: Duration = Duration::from_secs(30);
/// The most that are decided at once.
const BATCH: usize = 1024;
/// Instances without a place are tried again at most this often.
const AGAIN: Duration = Duration::from_millis(500);

/// Asks placement.
#[derive(Clone)]
pub struct PlacementHandle {
    questions: mpsc::Sender<Question>,
}

struct Question {
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
        let question = Question {
            id: id.clone(),
            names,
            answer,
        };
        let gone = || Error::unavailable("the server is ending");
        self.questions.send(question).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Starts placement; it decides while this server leads.
pub fn start(core: Core, shutdown: CancellationToken) -> PlacementHandle {
    let (questions, asked) = mpsc::channel(64);
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = run(core, asked) => {}
        }
    });
    PlacementHandle { questions }
}

async fn run(core: Core, mut asked: mpsc::Receiver<Question>) {
    let mut task = Task {
        board: Board::new(&core),
        waiting: BTreeSet::new(),
        hopeless: HashSet::new(),
        refused: Backoffs::default(),
        core: core.clone(),
    };
    task.waiting.extend(task.all_waiting());
    let mut lead = core.watch_lead();
    let mut again = tokio::time::interval(AGAIN);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut now_and_then = tokio::time::interval(NOW_AND_THEN);
    now_and_then.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut fleet_changed = true;
    loop {
        tokio::select! {
            touched = core.subscriptions().placement.take() => {
                let nodes = touched.iter().any(|thing| matches!(thing, Touched::Node(_)));
                for thing in touched {
                    fleet_changed |= task.take_in(thing);
                }
                if nodes && matches!(core.lead(), Lead::Leading(_)) {
                    task.drain().await;
                }
            }
            _ = lead.changed() => fleet_changed = true,
            Some(question) = asked.recv() => task.answer(question),
            // What is measured changes all the time, and wakes nobody.
            _ = now_and_then.tick() => fleet_changed = true,
            _ = again.tick() => {
                let due = task.take_due(std::mem::take(&mut fleet_changed));
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
    board: Board,
    /// In want of a place.
    waiting: BTreeSet<InstanceId>,
    /// In want of one, and there was none.
    hopeless: HashSet<InstanceId>,
    /// Those that every node refused, and when they are tried again.
    refused: Backoffs,
}

impl Task {
    fn all_waiting(&self) -> Vec<InstanceId> {
        let tables = self.core.tables();
        let all = tables.instances.values();
        all.filter(|one| wants_a_place(one))
            .map(|one| one.id.clone())
            .collect()
    }

    /// Takes in a change. The answer is whether there may be more room now.
    fn take_in(&mut self, thing: Touched) -> bool {
        match thing {
            Touched::Node(name) => {
                let known = self.board.fleet.node(&name).is_some();
                self.board.sync_node(&self.core, &name);
                if !known {
                    // It may take what all others refused.
                    self.refused.clear();
                }
                true
            }
            Touched::Instance(id) => {
                let had = self.board.place_of(&id);
                self.board.sync_instance(&self.core, &id);
                let left = had.is_some() && self.board.place_of(&id) != had;
                let record = self.core.tables().instances.get(&id).cloned();
                let waits = record.as_ref().is_some_and(|one| wants_a_place(one));
                if record.as_ref().is_none_or(|one| one.is_up()) {
                    self.refused.remove(&id);
                }
                if !waits {
                    self.waiting.remove(&id);
                    self.hopeless.remove(&id);
                } else if !self.hopeless.contains(&id) {
                    self.waiting.insert(id);
                } else if record.is_some_and(|one| one.state != InstanceState::Failed) {
                    // It was asked for anew.
                    self.hopeless.remove(&id);
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
    fn take_due(&mut self, fleet_changed: bool) -> bool {
        let now = Instant::now();
        let all = self.hopeless.iter();
        let due = all.filter(|id| match self.refused.until(id) {
            Some(until) => until <= now,
            None => fleet_changed,
        });
        let due: Vec<InstanceId> = due.cloned().collect();
        for id in &due {
            self.hopeless.remove(id);
        }
        let any = !due.is_empty();
        self.waiting.extend(due);
        any || fleet_changed
    }

    /// What instances really use counts, too.
    fn measure(&mut self) {
        for name in self.core.live().take_news() {
            if let Some(node) = self.board.fleet.node(&name)
                && let Some(live) = self.core.live().node(&name)
            {
                let _ = self.board.fleet.measure(node, live.instances);
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
                if let Some(request) = self.board.request(&self.core, &record) {
                    requests.push(request);
                    asking.push(record);
                }
            }
            if requests.is_empty() {
                continue;
            }
            self.measure();
            let plan = place(&mut self.board.fleet, &requests);
            all_written &= self.follow(plan, &asking).await;
        }
        all_written
    }

    fn next_batch(&mut self) -> Vec<Arc<Kept<Instance>>> {
        let mut records = Vec::new();
        while let Some(id) = self.waiting.pop_first() {
            let record = self.core.tables().instances.get(&id).cloned();
            if let Some(record) = record.filter(|one| wants_a_place(one)) {
                records.push(record);
            }
            if records.len() == BATCH {
                break;
            }
        }
        records
    }

    /// Writes what was decided.
    async fn follow(&mut self, plan: Plan, asking: &[Arc<Kept<Instance>>]) -> bool {
        let writes = FuturesUnordered::new();
        for placement in &plan.placements {
            let record = &asking[placement.request];
            let node = self.board.node_name(placement.node);
            self.board.placed(record, &node);
            let mut next = record.record.clone();
            next.place_on(&node);
            next.after = self.room_makers(&plan, placement, record);
            let leaving = record.leaving.iter().find(|from| !from.lost);
            let first = match (leaving, next.after.is_empty()) {
                (Some(leaving), _) => format!(", once it has ended on {}", leaving.node),
                (None, false) => ", once what makes room for it has ended there".into(),
                (None, true) => String::new(),
            };
            let why = Why {
                full: format!("on node {node}{first}"),
                limited: String::new(),
            };
            turn_to_because(&mut next, InstanceState::Scheduled, &why);
            let evicted = plan.evictions.iter();
            let evicted = evicted.filter(|eviction| eviction.by == slot(&record.id));
            let mut changes = vec![(record.clone(), next)];
            changes.extend(evicted.filter_map(|eviction| self.evicted(eviction, &record.name)));
            writes.push(write_all(&self.core, changes));
        }
        for failure in &plan.failures {
            let record = &asking[failure.request];
            self.hopeless.insert(record.id.clone());
            if !record.refusals.is_empty() {
                self.refused.failed(&record.id, Instant::now());
            }
            let why = unschedulable(&failure.cause, &record.refusals);
            let told = record.state == InstanceState::Failed && record.description == why.full;
            if told && record.refusals.is_empty() {
                continue;
            }
            let mut next = record.record.clone();
            // What was in the way there may be gone the next time.
            next.refusals.clear();
            turn_to_because(&mut next, InstanceState::Failed, &why);
            writes.push(write_all(&self.core, vec![(record.clone(), next)]));
        }
        let written: Vec<Vec<_>> = writes.collect().await;
        self.written(written.into_iter().flatten().collect())
    }

    /// What has to end on the node of a placement before it is started there.
    fn room_makers(&self, plan: &Plan, placement: &Decided, newcomer: &Instance) -> Vec<MakesRoom> {
        let ids = |slots: Vec<Slot>| {
            let ids = slots.into_iter().filter_map(|slot| self.board.id_of(slot));
            ids.collect::<BTreeSet<InstanceId>>()
        };
        let on_node = plan.evictions.iter();
        let on_node = on_node.filter(|eviction| eviction.node == placement.node);
        let also_evicted = ids(on_node.map(|eviction| eviction.instance).collect());
        let evicted = ids(placement.after.clone());
        let node = self.board.node_name(placement.node);
        makes_room(&self.core, &node, newcomer, &evicted, &also_evicted)
    }

    /// How an instance is that makes room for another. It is written together
    /// with the one it makes room for, or not at all.
    fn evicted(&self, eviction: &Eviction, by: &Label) -> Option<(Arc<Kept<Instance>>, Instance)> {
        let id = self.board.id_of(eviction.instance)?;
        let node = self.board.node_name(eviction.node);
        let record = self.core.tables().instances.get(&id).cloned()?;
        let why = Why {
            full: format!("made room on {node} for {by}, which has a higher priority"),
            limited: "made room for an instance with a higher priority".into(),
        };
        // It went by itself meanwhile, or goes.
        let is_there = record.node.as_deref() == Some(&*node) && record.wanted != Wanted::Gone;
        let next = evict(&record, &why, self.core.confirms(&node));
        is_there.then_some((record, next))
    }

    /// What was not written is not so, either. The answer is whether all was.
    fn written(&mut self, written: Vec<(InstanceId, Result<(), StoreError>)>) -> bool {
        let mut all = true;
        for (id, result) in written {
            if let Err(error) = result {
                tracing::debug!(%error, instance = %id, "a placement was not written");
                self.board.take_back(&self.core, &id);
                // Not at once: whatever is in the way may stay there a while.
                self.hopeless.insert(id);
                all = false;
            }
        }
        all
    }

    /// Empties nodes that are to be empty, as far as there is room elsewhere.
    async fn drain(&mut self) {
        let nodes: Vec<_> = self.board.fleet.nodes().collect();
        for node in nodes {
            let draining = self.board.fleet.state(node) == Ok(NodeState::Draining);
            if !draining
                || self
                    .board
                    .fleet
                    .instances_on(node)
                    .is_ok_and(|on| on.is_empty())
            {
                continue;
            }
            self.measure();
            let Ok(plan) = drain(&mut self.board.fleet, node) else {
                continue;
            };
            let from = self.board.node_name(node);
            for failure in &plan.failures {
                let id = self.board.id_of(failure.instance);
                tracing::info!(node = from, instance = ?id, why = why_not(&failure.cause, true), "stays for now");
            }
            self.move_away(&from, &plan).await;
        }
    }

    async fn move_away(&mut self, from: &str, plan: &Plan) {
        let writes = FuturesUnordered::new();
        for placement in &plan.placements {
            let Some(id) = self.board.id_of(placement.instance) else {
                continue;
            };
            let Some(record) = self.core.tables().instances.get(&id).cloned() else {
                continue;
            };
            let to = self.board.node_name(placement.node);
            if record.node.as_deref() != Some(from) {
                self.board.take_back(&self.core, &id);
                continue;
            }
            self.board.placed(&record, &to);
            let runs = matches!(
                record.state,
                InstanceState::Starting | InstanceState::Running
            );
            if record.wanted == Wanted::Gone
                || (runs && record.spec.restart == RestartPolicy::Never)
            {
                // It goes by itself, or is let come to its end.
                self.board.take_back(&self.core, &id);
                continue;
            }
            let drained = Why {
                full: format!("{from} was drained"),
                limited: "its node was drained".into(),
            };
            let mut next = evict(&record, &drained, self.core.confirms(from));
            if next.wanted == Wanted::Running {
                let why = Why {
                    full: format!("on node {to}; {from} is drained"),
                    limited: "its node is drained".into(),
                };
                turn_to_because(&mut next, InstanceState::Scheduled, &why);
                next.place_on(&to);
                let none = BTreeSet::new();
                next.after = makes_room(&self.core, &to, &record, &none, &none);
            }
            writes.push(write_all(&self.core, vec![(record, next)]));
        }
        let written: Vec<Vec<_>> = writes.collect().await;
        self.written(written.into_iter().flatten().collect());
    }

    fn answer(&mut self, question: Question) {
        self.measure();
        let answer = explain::explain(&self.core, &mut self.board, &question.id);
        let answer = answer.map(|explained| match question.names {
            true => explained.full,
            false => explained.limited,
        });
        let _ = question.answer.send(answer);
    }
}

/// Why an instance has no place: what speaks against the nodes, and what those
/// that refused it said.
fn unschedulable(cause: &Cause, refusals: &BTreeMap<String, String>) -> Why {
    let mut why = Why {
        full: why_not(cause, true),
        limited: why_not(cause, false),
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

/// Writes records together, or none of them: an instance, and those that make
/// room for it.
async fn write_all(
    core: &Core,
    changes: Vec<(Arc<Kept<Instance>>, Instance)>,
) -> Vec<(InstanceId, Result<(), StoreError>)> {
    let ids: Vec<InstanceId> = changes
        .iter()
        .map(|(before, _)| before.id.clone())
        .collect();
    let mut transaction = Transaction::new();
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

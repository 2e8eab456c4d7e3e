//! The task: woken by changes, it brings the fleet up to date, decides for all
//! that want a place in one batch, and writes each decision if nothing came
//! between. What finds no place is tried again when the fleet has changed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use strata_api::rest::Placement;
use strata_scheduler::{NodeState, Plan, Request, drain, place};
use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, InstanceState};
use strata_types::pod::RestartPolicy;
use strata_types::{Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::explain;
use super::fleet::{Board, slot, wants_a_place, why_not};
use crate::core::keys;
use crate::core::{Core, Instance, Kept, Lead, Touched, Wanted, encode, turn_to, uproot};

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
    answer: oneshot::Sender<Result<Placement>>,
}

impl PlacementHandle {
    /// Why an instance is where it is, and not elsewhere.
    pub async fn explain(&self, id: &InstanceId) -> Result<Placement> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            id: id.clone(),
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
            _ = again.tick(), if fleet_changed => {
                fleet_changed = false;
                task.waiting.extend(task.hopeless.drain());
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
                self.board.sync_node(&self.core, &name);
                true
            }
            Touched::Instance(id) => {
                self.board.sync_instance(&self.core, &id);
                let record = self.core.tables().instances.get(&id).cloned();
                let waits = record.as_ref().is_some_and(|one| wants_a_place(one));
                if !waits {
                    self.waiting.remove(&id);
                    self.hopeless.remove(&id);
                } else if !self.hopeless.contains(&id) {
                    self.waiting.insert(id);
                } else if record.is_some_and(|one| one.state != InstanceState::Failed) {
                    // It was asked for anew.
                    self.hopeless.remove(&id);
                    self.waiting.insert(id);
                }
                !waits
            }
        }
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
                if let Some(request) = self.board.request(&record) {
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
        for eviction in &plan.evictions {
            let Some(id) = self.board.id_of(eviction.instance) else {
                continue;
            };
            let by = asking.iter().find(|one| slot(&one.id) == eviction.by);
            let by = by.map_or_else(String::new, |one| format!(" for {}", one.name));
            let node = self.board.node_name(eviction.node);
            let why = format!("made room on {node}{by}, which has a higher priority");
            if let Err(error) = self.core.move_off(&node, &id, &why).await {
                tracing::warn!(%error, instance = %id, "an instance could not be moved off");
                self.board.take_back(&self.core, &id);
            }
        }
        let writes = FuturesUnordered::new();
        for placement in &plan.placements {
            let record = &asking[placement.request];
            let node = self.board.node_name(placement.node);
            self.board.placed(record, &node);
            let mut next = record.record.clone();
            next.node = Some(node.clone());
            turn_to(
                &mut next,
                InstanceState::Scheduled,
                &format!("on node {node}"),
            );
            writes.push(write(&self.core, record, next));
        }
        for failure in &plan.failures {
            let record = &asking[failure.request];
            self.hopeless.insert(record.id.clone());
            let mut why = why_not(&failure.cause);
            for (node, refusal) in &record.refusals {
                why = format!("{why}; {node} refused it: {refusal}");
            }
            why.truncate(why.floor_char_boundary(4096));
            let told = record.state == InstanceState::Failed && record.description == why;
            if told && record.refusals.is_empty() {
                continue;
            }
            let mut next = record.record.clone();
            // What was in the way there may be gone the next time.
            next.refusals.clear();
            turn_to(&mut next, InstanceState::Failed, &why);
            writes.push(write(&self.core, record, next));
        }
        self.written(writes.collect().await)
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
                tracing::info!(node = from, instance = ?id, why = why_not(&failure.cause), "stays for now");
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
            let mut next = uproot(&record, &format!("{from} was drained"));
            if next.wanted == Wanted::Running {
                let why = format!("on node {to}; {from} is drained");
                turn_to(&mut next, InstanceState::Scheduled, &why);
                next.node = Some(to);
            }
            let core = self.core.clone();
            writes.push(async move { write(&core, &record, next).await });
        }
        self.written(writes.collect().await);
    }

    fn answer(&mut self, question: Question) {
        self.measure();
        let answer = explain::explain(&self.core, &mut self.board, &question.id);
        let _ = question.answer.send(answer);
    }
}

async fn write(
    core: &Core,
    before: &Kept<Instance>,
    next: Instance,
) -> (InstanceId, Result<(), StoreError>) {
    let id = next.id.clone();
    let key = keys::instance(&id);
    let value = match encode(&next) {
        Ok(value) => value,
        Err(error) => return (id, Err(StoreError::Invalid(error.to_string()))),
    };
    let transaction = Transaction::new()
        .if_unchanged(&*key, before.revision)
        .put(key, value);
    let written = core.commit_as_leader(transaction).await.map(drop);
    (id, written)
}

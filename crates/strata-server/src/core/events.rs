//! What happened, for people: the latest of it is kept in memory, and told on
//! as it comes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use strata_types::Label;
use tokio::sync::broadcast;

use super::clusters::{Cluster, Work};
use super::machines::Machine;
use super::now_ms;
use super::record::{Instance, Node, NodeCondition};
use super::tables::{Changed, Turn};

/// How many are remembered.
const REMEMBERED: usize = 4096;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one with each, from 1 when the server starts.
    pub number: u64,
    /// Unix milliseconds.
    pub at_ms: i64,
    /// `instance`, `workload`, `node` or `project`.
    pub kind: &'static str,
    /// Of what.
    pub name: String,
    /// Its id, where it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Label>,
    /// In words.
    pub message: String,
}

/// What happened lately.
#[derive(Debug)]
pub struct Events {
    kept: Mutex<Kept>,
    told: broadcast::Sender<Event>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    latest: VecDeque<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            told: broadcast::Sender::new(REMEMBERED),
        }
    }
}

impl Events {
    fn guard(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered, oldest first, and what comes after it.
    pub fn follow(&self) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let kept = self.guard();
        (kept.latest.iter().cloned().collect(), self.told.subscribe())
    }

    /// Notes what a change means, if it means something to people.
    pub(super) fn note(&self, changed: &Changed) {
        let (kind, name, id, project, message) = match changed {
            Changed::Instance(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let Some(message) = instance(turn) else {
                    return;
                };
                let id = one.id.to_string();
                (
                    "instance",
                    one.name.to_string(),
                    id,
                    Some(one.project.clone()),
                    message,
                )
            }
            Changed::Workload(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let id = one.id.to_string();
                (
                    "workload",
                    one.name.to_string(),
                    id,
                    Some(one.project.clone()),
                    verb(turn).into(),
                )
            }
            Changed::Node(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let Some(message) = node(turn) else {
                    return;
                };
                ("node", one.name.clone(), String::new(), None, message)
            }
            Changed::Machine(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let Some(message) = machine(turn) else {
                    return;
                };
                ("machine", one.id.to_string(), String::new(), None, message)
            }
            Changed::Cluster(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let Some(message) = cluster(turn) else {
                    return;
                };
                let id = one.id.clone();
                ("cluster", one.name.to_string(), id, None, message)
            }
            Changed::Project(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let name = one.name.to_string();
                (
                    "project",
                    name,
                    String::new(),
                    Some(one.name.clone()),
                    verb(turn).into(),
                )
            }
        };
        let mut kept = self.guard();
        kept.next += 1;
        let event = Event {
            number: kept.next,
            at_ms: now_ms(),
            kind,
            name,
            id,
            project,
            message,
        };
        if kept.latest.len() == REMEMBERED {
            kept.latest.pop_front();
        }
        kept.latest.push_back(event.clone());
        let _ = self.told.send(event);
    }
}

fn verb<T>(turn: &Turn<T>) -> &'static str {
    match (&turn.before, &turn.after) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "changed",
    }
}

fn instance(turn: &Turn<Instance>) -> Option<String> {
    let Some(now) = &turn.after else {
        return Some("TERMINATED".into());
    };
    let told = |one: &Instance| {
        (
            one.state,
            one.description.clone(),
            one.generation,
            one.healthy,
        )
    };
    if turn
        .before
        .as_ref()
        .is_some_and(|before| told(before) == told(now))
    {
        return None;
    }
    Some(match now.description.as_str() {
        "" => now.state.to_string(),
        why => format!("{}: {why}", now.state),
    })
}

fn cluster(turn: &Turn<Cluster>) -> Option<String> {
    let (Some(before), Some(after)) = (&turn.before, &turn.after) else {
        return Some(verb(turn).into());
    };
    if let Some(failure) = &after.failure
        && before.failure != after.failure
    {
        return Some(format!("{} failed: {}", failure.what, failure.why));
    }
    let told = match after.work {
        _ if before.work == after.work => return None,
        Work::Idle => "nothing is under way any more".into(),
        Work::Creating => "is being built".into(),
        Work::Scaling => "its pools change".into(),
        Work::Healing => "members that died are replaced".into(),
        Work::Upgrading { to } => format!("goes to {to}"),
        Work::Restoring => "goes back to a snapshot".into(),
        Work::Deleting => "is being deleted".into(),
    };
    Some(told)
}

fn machine(turn: &Turn<Machine>) -> Option<String> {
    let Some(now) = &turn.after else {
        return Some("removed".into());
    };
    let Some(before) = &turn.before else {
        return Some(format!("added, of {}", now.spec.provider));
    };
    if now.failure != before.failure
        && let Some(failure) = &now.failure
    {
        return Some(format!("{} failed: {}", failure.phase, failure.why));
    }
    (before.phase != now.phase).then(|| now.phase.to_string())
}

fn node(turn: &Turn<Node>) -> Option<String> {
    let Some(now) = &turn.after else {
        return Some("left".into());
    };
    let Some(before) = &turn.before else {
        return Some(format!("registered with {}", now.subnet));
    };
    if before.condition != now.condition {
        return Some(match now.condition {
            NodeCondition::Ready => "ready".into(),
            NodeCondition::Lost => format!("lost: {}", now.description),
            NodeCondition::Registered => "registered".into(),
        });
    }
    if before.draining != now.draining {
        return Some(
            if now.draining {
                "draining"
            } else {
                "open for instances"
            }
            .into(),
        );
    }
    (before.own_labels != now.own_labels).then(|| "labelled".into())
}

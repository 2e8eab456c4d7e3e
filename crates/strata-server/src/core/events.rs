//! What happened, for people: the latest of it is kept in memory, once, and
//! told on as it comes. A watcher holds its position in the ring and nothing
//! of what is there, so one that does not read costs nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use strata_types::Label;
use tokio::sync::watch;

use super::clusters::{Cluster, Work};
use super::event_repeats::Repeats;
use super::machines::Machine;
use super::now_ms;
use super::record::{Instance, Node, NodeCondition};
use super::tables::{Changed, Turn};

/// How many are remembered.
const REMEMBERED: usize = 4096;
/// How many a watcher looks at before it lets others have the ring.
const SCANNED_AT_ONCE: usize = 256;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one with each, and is larger than all from before the server
    /// started.
    pub number: u64,
    /// Unix milliseconds.
    pub at_ms: i64,
    /// `instance`, `workload`, `node`, `project`, `machine`, `cluster`, or
    /// `server` for this server itself.
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
    /// The same for callers limited to projects, where it differs.
    #[serde(skip)]
    pub limited_message: Option<String>,
    /// How often it happened.
    pub count: u64,
    /// When it last did, in Unix milliseconds.
    pub last_at_ms: i64,
}

/// An event that is remembered, and its text, which is made once for each
/// audience: callers that are limited to projects may be told less.
#[derive(Debug)]
pub struct Remembered {
    /// The event.
    pub event: Event,
    text: OnceLock<Box<str>>,
    limited_text: OnceLock<Box<str>>,
}

impl Remembered {
    fn new(event: Event) -> Self {
        Self {
            event,
            text: OnceLock::new(),
            limited_text: OnceLock::new(),
        }
    }

    /// Its text for callers that are limited to projects, or for the others,
    /// as `render` makes it the first time. What `render` makes must depend on
    /// nothing else of the caller.
    pub fn text(&self, limited: bool, render: impl FnOnce(&Event) -> String) -> &str {
        let text = if limited {
            &self.limited_text
        } else {
            &self.text
        };
        text.get_or_init(|| render(&self.event).into())
    }
}

/// What comes after a position in the ring.
#[derive(Debug)]
pub enum Next {
    /// This one; it is the new position.
    Event(Arc<Remembered>),
    /// None that is wanted, up to this position. There may be more.
    Skipped(u64),
    /// Nothing yet.
    End,
    /// Some are not remembered any more; what is left begins after this
    /// position.
    Overtaken(u64),
}

/// What happened lately.
#[derive(Debug)]
pub struct Events {
    kept: Mutex<Kept>,
    /// The number of the last event.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    latest: VecDeque<Arc<Remembered>>,
    repeats: Repeats,
}

impl Kept {
    /// Counts the event of this number once more; whether it is remembered.
    /// Whoever watches was told of it before, and is not told again.
    fn count_again(&mut self, number: u64) -> bool {
        let oldest = self.latest.front().map(|one| one.event.number);
        let place = oldest.and_then(|oldest| usize::try_from(number.checked_sub(oldest)?).ok());
        let Some(one) = place.and_then(|place| self.latest.get_mut(place)) else {
            return false;
        };
        let mut event = one.event.clone();
        event.count += 1;
        event.last_at_ms = now_ms();
        *one = Arc::new(Remembered::new(event));
        true
    }
}

impl Default for Events {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            last: watch::Sender::new(0),
        }
    }
}

impl Events {
    /// None yet; the next one has a number that no earlier run of the server
    /// has reached, so that the position of a watcher stays good.
    pub(super) fn from_now() -> Self {
        let events = Self::default();
        let ms = u64::try_from(now_ms()).unwrap_or(0);
        events.guard().next = ms.saturating_mul(1000);
        events
    }

    /// Says that what happened before is not remembered.
    pub(super) fn note_start(&self) {
        let mut kept = self.guard();
        kept.next += 1;
        let event = Event {
            number: kept.next,
            at_ms: now_ms(),
            kind: "server",
            name: "server".to_owned(),
            id: String::new(),
            project: None,
            message: "started: events from before are not kept".to_owned(),
            limited_message: None,
            count: 1,
            last_at_ms: now_ms(),
        };
        self.push(kept, event);
    }

    fn guard(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered, oldest first.
    pub fn all(&self) -> Vec<Arc<Remembered>> {
        self.guard().latest.iter().cloned().collect()
    }

    /// Wakes whoever waits at the end of the ring.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The first event after `position` that is wanted.
    pub fn after(&self, position: u64, wanted: impl Fn(&Event) -> bool) -> Next {
        let kept = self.guard();
        let Some(oldest) = kept.latest.front().map(|one| one.event.number) else {
            return Next::End;
        };
        if position.saturating_add(1) < oldest {
            return Next::Overtaken(oldest - 1);
        }
        // Numbers have no gaps.
        let from = usize::try_from(position + 1 - oldest).unwrap_or(usize::MAX);
        let mut looked = position;
        for one in kept.latest.iter().skip(from).take(SCANNED_AT_ONCE) {
            if wanted(&one.event) {
                return Next::Event(one.clone());
            }
            looked = one.event.number;
        }
        match looked == position {
            true => Next::End,
            false => Next::Skipped(looked),
        }
    }

    /// Notes what a change means, if it means something to people.
    pub(super) fn note(&self, changed: &Changed) {
        let mut limited_message = None;
        let (kind, name, id, project, message) = match changed {
            Changed::Instance(turn) => {
                let Some(one) = turn.after.as_ref().or(turn.before.as_ref()) else {
                    return;
                };
                let Some(message) = instance(turn) else {
                    return;
                };
                limited_message = turn.after.as_ref().and_then(|now| limited(now));
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
        if let Changed::Instance(turn) = changed {
            let next = kept.next + 1;
            let repeated = kept.repeats.find(turn, &message, next);
            if repeated.is_some_and(|number| kept.count_again(number)) {
                return;
            }
        }
        kept.next += 1;
        let at_ms = now_ms();
        let event = Event {
            number: kept.next,
            at_ms,
            count: 1,
            last_at_ms: at_ms,
            kind,
            name,
            id,
            project,
            message,
            limited_message,
        };
        self.push(kept, event);
    }

    fn push(&self, mut kept: MutexGuard<'_, Kept>, event: Event) {
        if kept.latest.len() == REMEMBERED {
            kept.latest.pop_front();
        }
        let number = event.number;
        kept.latest.push_back(Arc::new(Remembered::new(event)));
        drop(kept);
        self.last.send_replace(number);
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
    Some(in_words(now, &now.description))
}

fn in_words(now: &Instance, description: &str) -> String {
    match description {
        "" => now.state.to_string(),
        why => format!("{}: {why}", now.state),
    }
}

/// What callers limited to projects are told of an instance.
fn limited(now: &Instance) -> Option<String> {
    let description = now.limited_description.as_deref()?;
    Some(in_words(now, description))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn remember(events: &Events, many: u64) {
        for _ in 0..many {
            let mut kept = events.guard();
            kept.next += 1;
            let event = Event {
                number: kept.next,
                at_ms: 0,
                kind: if kept.next.is_multiple_of(2) {
                    "even"
                } else {
                    "odd"
                },
                name: String::new(),
                id: String::new(),
                project: None,
                message: String::new(),
                limited_message: None,
                count: 1,
                last_at_ms: 0,
            };
            events.push(kept, event);
        }
    }

    #[test]
    fn watcher_goes_through_the_ring_by_its_position_alone() {
        let events = Events::default();
        assert!(matches!(events.after(0, |_| true), Next::End));
        remember(&events, 10);
        let Next::Event(first) = events.after(0, |one| one.kind == "even") else {
            panic!("there is one");
        };
        assert_eq!(first.event.number, 2);
        assert!(matches!(events.after(2, |_| false), Next::Skipped(10)));
        assert!(matches!(events.after(10, |_| true), Next::End));
        // A position of an earlier run of the server.
        assert!(matches!(events.after(1_000_000, |_| true), Next::End));
    }

    #[test]
    fn watcher_that_was_overtaken_is_told_where_to_go_on() {
        let events = Events::default();
        let kept = u64::try_from(REMEMBERED).unwrap();
        remember(&events, kept + 5);
        assert!(matches!(events.after(3, |_| true), Next::Overtaken(5)));
        let Next::Event(next) = events.after(5, |_| true) else {
            panic!("there is one");
        };
        assert_eq!(next.event.number, 6);
    }

    /// An instance in this state, for this reason.
    fn instance(state: &str, description: &str) -> Arc<super::super::Kept<Instance>> {
        let record = serde_json::json!({
            "id": "web", "name": "web", "project": "default",
            "spec": { "uri": "oci:/x" }, "wanted": "running", "generation": 1,
            "state": state, "description": description, "createdAtMs": 0, "changedAtMs": 0,
        });
        Arc::new(super::super::Kept {
            record: serde_json::from_value(record).unwrap(),
            revision: 1,
        })
    }

    #[test]
    fn refusals_of_an_instance_are_counted_and_not_repeated() {
        let events = Events::default();
        let states = [
            ("SCHEDULED", "on node n1"),
            ("SCHEDULING", "n1 refused it: port 80 is taken"),
            ("FAILED", "no node fits"),
        ];
        let mut before = None;
        let mut turn = |state: &str, why: &str| {
            let after = instance(state, why);
            let before = before.replace(after.clone());
            let after = Some(after);
            events.note(&Changed::Instance(Turn { before, after }));
        };
        turn("SCHEDULING", "");
        for _ in 0..1000 {
            for (state, why) in states {
                turn(state, why);
            }
        }
        let counts: Vec<u64> = events.all().iter().map(|one| one.event.count).collect();
        assert_eq!(counts, [1, 1000, 1000, 1000]);
        // Once it ran, the same is news.
        turn("RUNNING", "");
        turn("SCHEDULED", "on node n1");
        assert_eq!(events.all().len(), 6);
        assert_eq!(events.all()[5].event.count, 1);
    }

    #[test]
    fn text_is_made_once_for_each_audience() {
        let events = Events::default();
        remember(&events, 1);
        let one = &events.all()[0];
        assert_eq!(one.text(false, |_| "all".into()), "all");
        assert_eq!(one.text(true, |_| "less".into()), "less");
        assert_eq!(one.text(false, |_| "again".into()), "all");
    }
}

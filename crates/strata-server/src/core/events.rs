//! What happened, for people: the latest of it is kept in memory, once, and
//! reported on as it comes; `event_log` has the same on disk. A watcher holds its position in the ring and nothing
//! of what is there, so one that does not read costs nothing.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use strata_types::Label;
use tokio::sync::watch;

use super::clusters::{Cluster, Work};
use super::event_repeats::Repeats;
use super::machines::Machine;
use super::now_ms;
use super::record::{Instance, Node, NodeCondition};
use super::tables::{RecordChange, TableChange};

/// How many are remembered.
pub(super) const REMEMBERED: usize = 4096;
/// How many events a watcher reads before it releases the ring for others.
const SCAN_BATCH: usize = 256;

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
    pub name: String,
    /// Its id, where it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The project that owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Label>,
    /// The message, for people.
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
/// audience: callers that are limited to projects may be sent less.
#[derive(Debug)]
pub struct LoggedEvent {
    pub event: Event,
    text: OnceLock<Box<str>>,
    limited_text: OnceLock<Box<str>>,
}

impl LoggedEvent {
    pub(super) fn new(event: Event) -> Self {
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
    Event(Arc<LoggedEvent>),
    /// None that matches, up to this position. There may be more.
    Skipped(u64),
    End,
    /// Some are not remembered any more; what is left begins after this
    /// position.
    Overtaken(u64),
}

#[derive(Debug)]
pub struct Events {
    ring: Mutex<EventRing>,
    /// The number of the last event.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct EventRing {
    next: u64,
    /// By number. Between two runs of a server numbers have a gap.
    latest: VecDeque<Arc<LoggedEvent>>,
    repeats: Repeats,
    /// Numbers of those that are new, or were counted again, since they were
    /// last stored; none where they are not stored.
    changed: Option<BTreeSet<u64>>,
}

impl EventRing {
    /// Counts the event of this number once more; whether it is still kept.
    /// Watchers received it before, and do not receive it again.
    fn count_again(&mut self, number: u64) -> bool {
        let place = self.place_of(number);
        let found = self.latest.get_mut(place);
        let Some(one) = found.filter(|one| one.event.number == number) else {
            return false;
        };
        let mut event = one.event.clone();
        event.count += 1;
        event.last_at_ms = now_ms();
        *one = Arc::new(LoggedEvent::new(event));
        self.note_changed(number);
        true
    }

    /// Where the first event of this number or a larger one is.
    fn place_of(&self, number: u64) -> usize {
        self.latest.partition_point(|one| one.event.number < number)
    }

    fn note_changed(&mut self, number: u64) {
        if let Some(changed) = &mut self.changed {
            changed.insert(number);
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self {
            ring: Mutex::default(),
            last: watch::Sender::new(0),
        }
    }
}

impl Events {
    /// With those of earlier runs of the server, the oldest first. The next
    /// one has a number that no earlier run has reached, also when the last of
    /// its events were lost, so that the position of a watcher stays good.
    pub(super) fn after_earlier(earlier: Vec<Event>, written_down: bool) -> Self {
        let events = Self::default();
        let ms = u64::try_from(now_ms()).unwrap_or(0);
        let last = earlier.last().map_or(0, |event| event.number);
        let mut ring = events.guard();
        ring.next = ms.saturating_mul(1000).max(last);
        ring.latest = earlier
            .into_iter()
            .map(|event| Arc::new(LoggedEvent::new(event)))
            .collect();
        ring.changed = written_down.then(BTreeSet::new);
        drop(ring);
        events
    }

    /// What is new, or was counted again, since this was last called.
    pub(super) fn take_changed(&self) -> Vec<Arc<LoggedEvent>> {
        let mut ring = self.guard();
        let numbers = ring.changed.as_mut().map(std::mem::take);
        let numbers = numbers.unwrap_or_default().into_iter();
        let found = numbers.filter_map(|number| {
            let one = ring.latest.get(ring.place_of(number))?;
            (one.event.number == number).then(|| one.clone())
        });
        found.collect()
    }

    /// Marks where this run of the server begins.
    pub(super) fn record_start(&self) {
        let mut ring = self.guard();
        ring.next += 1;
        let event = Event {
            number: ring.next,
            at_ms: now_ms(),
            kind: "server",
            name: "server".to_owned(),
            id: String::new(),
            project: None,
            message: "started".to_owned(),
            limited_message: None,
            count: 1,
            last_at_ms: now_ms(),
        };
        self.push(ring, event);
    }

    fn guard(&self) -> MutexGuard<'_, EventRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered, oldest first.
    pub fn all(&self) -> Vec<Arc<LoggedEvent>> {
        self.guard().latest.iter().cloned().collect()
    }

    /// Wakes readers that wait at the end of the ring.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The first event after `position` that matches.
    pub fn after(&self, position: u64, accepts: impl Fn(&Event) -> bool) -> Next {
        let ring = self.guard();
        let Some(oldest) = ring.latest.front().map(|one| one.event.number) else {
            return Next::End;
        };
        if position.saturating_add(1) < oldest {
            return Next::Overtaken(oldest - 1);
        }
        let from = ring.place_of(position.saturating_add(1));
        let mut looked = position;
        for one in ring.latest.iter().skip(from).take(SCAN_BATCH) {
            if accepts(&one.event) {
                return Next::Event(one.clone());
            }
            looked = one.event.number;
        }
        match looked == position {
            true => Next::End,
            false => Next::Skipped(looked),
        }
    }

    /// Whether one of those that are remembered is of an instance with this id or
    /// name, in a project that is seen.
    pub(super) fn knew_instance(&self, id: &str, sees: impl Fn(&Label) -> bool) -> bool {
        let ring = self.guard();
        ring.latest.iter().rev().any(|one| {
            let event = &one.event;
            let named = event.id == id || event.name == id;
            named && event.kind == "instance" && event.project.as_ref().is_some_and(&sees)
        })
    }

    /// Notes what a change means, if it means something to people.
    pub(super) fn note(&self, changed: &TableChange) {
        let mut limited_message = None;
        let (kind, name, id, project, message) = match changed {
            TableChange::Instance(change) => {
                let Some(one) = change.after.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let Some(message) = instance(change) else {
                    return;
                };
                limited_message = change.after.as_ref().and_then(|now| limited(now));
                let id = one.id.to_string();
                (
                    "instance",
                    one.name.to_string(),
                    id,
                    Some(one.project.clone()),
                    message,
                )
            }
            TableChange::Workload(change) => {
                let Some(one) = change.after.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let id = one.id.to_string();
                (
                    "workload",
                    one.name.to_string(),
                    id,
                    Some(one.project.clone()),
                    verb(change).into(),
                )
            }
            TableChange::Node(change) => {
                let Some(one) = change.after.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let Some(message) = node(change) else {
                    return;
                };
                ("node", one.name.clone(), String::new(), None, message)
            }
            TableChange::Machine(change) => {
                let Some(one) = change.after.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let Some(message) = machine(change) else {
                    return;
                };
                ("machine", one.id.to_string(), String::new(), None, message)
            }
            TableChange::Cluster(change) => {
                let Some(one) = change.after.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let Some(message) = cluster(change) else {
                    return;
                };
                let id = one.id.clone();
                ("cluster", one.name.to_string(), id, None, message)
            }
            TableChange::Project(change) => {
                let Some(one) = change.after.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let name = one.name.to_string();
                (
                    "project",
                    name,
                    String::new(),
                    Some(one.name.clone()),
                    verb(change).into(),
                )
            }
        };
        let mut ring = self.guard();
        if let TableChange::Instance(change) = changed {
            let next = ring.next + 1;
            let repeated = ring.repeats.find(change, &message, next);
            if repeated.is_some_and(|number| ring.count_again(number)) {
                return;
            }
        }
        ring.next += 1;
        let at_ms = now_ms();
        let event = Event {
            number: ring.next,
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
        self.push(ring, event);
    }

    fn push(&self, mut ring: MutexGuard<'_, EventRing>, event: Event) {
        if ring.latest.len() == REMEMBERED {
            ring.latest.pop_front();
        }
        let number = event.number;
        ring.note_changed(number);
        ring.latest.push_back(Arc::new(LoggedEvent::new(event)));
        drop(ring);
        self.last.send_replace(number);
    }
}

fn verb<T>(change: &RecordChange<T>) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "changed",
    }
}

fn instance(change: &RecordChange<Instance>) -> Option<String> {
    let Some(now) = &change.after else {
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
    if change
        .before
        .as_ref()
        .is_some_and(|before| told(before) == told(now))
    {
        return None;
    }
    Some(describe(now, &now.description))
}

fn describe(now: &Instance, description: &str) -> String {
    match description {
        "" => now.state.to_string(),
        why => format!("{}: {why}", now.state),
    }
}

/// What callers limited to projects are shown of an instance.
fn limited(now: &Instance) -> Option<String> {
    let description = now.limited_description.as_deref()?;
    Some(describe(now, description))
}

fn cluster(change: &RecordChange<Cluster>) -> Option<String> {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return Some(verb(change).into());
    };
    if let Some(failure) = &after.failure
        && before.failure != after.failure
    {
        return Some(format!("{} failed: {}", failure.what, failure.why));
    }
    let told = match after.work {
        _ if before.work == after.work => return None,
        Work::Idle => "idle".into(),
        Work::Creating => "being created".into(),
        Work::Scaling => "being scaled".into(),
        Work::Healing => "replacing failed machines".into(),
        Work::Upgrading { to } => format!("being upgraded to {to}"),
        Work::Restoring => "being restored from a snapshot".into(),
        Work::Deleting => "being deleted".into(),
    };
    Some(told)
}

fn machine(change: &RecordChange<Machine>) -> Option<String> {
    let Some(now) = &change.after else {
        return Some("removed from the inventory".into());
    };
    let Some(before) = &change.before else {
        return Some(format!(
            "added to the inventory (provider {})",
            now.spec.provider
        ));
    };
    if now.failure != before.failure
        && let Some(failure) = &now.failure
    {
        return Some(format!("{} failed: {}", failure.phase, failure.why));
    }
    (before.phase != now.phase).then(|| now.phase.to_string())
}

fn node(change: &RecordChange<Node>) -> Option<String> {
    let Some(now) = &change.after else {
        return Some("removed".into());
    };
    let Some(before) = &change.before else {
        return Some(format!("registered with subnet {}", now.subnet));
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
    (before.own_labels != now.own_labels).then(|| "labels changed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remember(events: &Events, many: u64) {
        for _ in 0..many {
            let mut ring = events.guard();
            ring.next += 1;
            let event = Event {
                number: ring.next,
                at_ms: 0,
                kind: if ring.next.is_multiple_of(2) {
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
            events.push(ring, event);
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
    fn watcher_of_an_earlier_run_goes_on_where_it_was() {
        let earlier = Events::default();
        remember(&earlier, 3);
        let earlier: Vec<Event> = earlier.all().iter().map(|one| one.event.clone()).collect();
        let events = Events::after_earlier(earlier.clone(), true);
        events.record_start();
        let Next::Event(next) = events.after(2, |_| true) else {
            panic!("there is one");
        };
        assert_eq!(next.event, earlier[2]);
        let Next::Event(start) = events.after(3, |_| true) else {
            panic!("there is one");
        };
        assert_eq!(start.event.kind, "server");
        // One that was lost with the host has a number in the gap.
        let Next::Event(same) = events.after(5, |_| true) else {
            panic!("there is one");
        };
        assert_eq!(same.event, start.event);
        let numbers = |events: Vec<Arc<LoggedEvent>>| -> Vec<u64> {
            events.iter().map(|one| one.event.number).collect()
        };
        assert_eq!(numbers(events.take_changed()), [start.event.number]);
        assert!(events.take_changed().is_empty());
        assert!(events.guard().count_again(2));
        assert!(!events.guard().count_again(5));
        assert_eq!(numbers(events.take_changed()), [2]);
    }

    #[test]
    fn overtaken_event_watcher_gets_the_next_position() {
        let events = Events::default();
        let ring = u64::try_from(REMEMBERED).unwrap();
        remember(&events, ring + 5);
        assert!(matches!(events.after(3, |_| true), Next::Overtaken(5)));
        let Next::Event(next) = events.after(5, |_| true) else {
            panic!("there is one");
        };
        assert_eq!(next.event.number, 6);
    }

    /// An instance in this state, for this reason.
    fn instance(state: &str, description: &str) -> Arc<super::super::Versioned<Instance>> {
        let record = serde_json::json!({
            "id": "web", "name": "web", "project": "default",
            "spec": { "uri": "oci:/x" }, "wanted": "running", "generation": 1,
            "state": state, "description": description, "createdAtMs": 0, "changedAtMs": 0,
        });
        Arc::new(super::super::Versioned {
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
        let mut change = |state: &str, why: &str| {
            let after = instance(state, why);
            let before = before.replace(after.clone());
            let after = Some(after);
            events.note(&TableChange::Instance(RecordChange { before, after }));
        };
        change("SCHEDULING", "");
        for _ in 0..1000 {
            for (state, why) in states {
                change(state, why);
            }
        }
        let counts: Vec<u64> = events.all().iter().map(|one| one.event.count).collect();
        assert_eq!(counts, [1, 1000, 1000, 1000]);
        // Once it ran, the same is news.
        change("RUNNING", "");
        change("SCHEDULED", "on node n1");
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

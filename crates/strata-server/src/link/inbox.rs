//! What a node said and the server has not dealt with yet. Dealing with it
//! takes commits, which wait for the store; listening does not wait for them.
//!
//! A report replaces an earlier one of the same instance and generation that
//! still waits: the later one says all that counts, as in the node's own
//! outbox. So what waits is bounded by what the node has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use strata_api::strata::v1::{InstanceReport, NodeLoad, NodeMessage, node_message};
use tokio::sync::Notify;

/// More than any node has to say. One that says more begins anew.
const LARGEST: usize = 65_536;

/// The messages of one node.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    messages: BTreeMap<u64, NodeMessage>,
    /// Where the report of an instance and generation waits.
    reports: HashMap<(String, u64), u64>,
    load: Option<NodeLoad>,
    closed: bool,
}

/// What the server is to deal with next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Message(NodeMessage),
    /// The latest; those before it do not count any more.
    Load(NodeLoad),
    /// The node hung up.
    Closed,
}

/// More waits than a node can have to say.
#[derive(Debug)]
pub(super) struct InboxFull;

fn key(report: &InstanceReport) -> (String, u64) {
    (report.id.clone(), report.generation)
}

impl Inbox {
    fn guard(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much the node uses.
    pub(super) fn load(&self, load: NodeLoad) {
        self.guard().load = Some(load);
        self.news.notify_one();
    }

    /// Anything else it says.
    pub(super) fn put(&self, message: NodeMessage) -> Result<(), InboxFull> {
        let mut waiting = self.guard();
        let number = waiting.next;
        if let Some(node_message::Message::Report(report)) = &message.message {
            let key = key(report);
            if let Some(earlier) = waiting.reports.get(&key).copied() {
                waiting.messages.insert(earlier, message);
                return Ok(());
            }
            if waiting.messages.len() < LARGEST {
                waiting.reports.insert(key, number);
            }
        }
        if waiting.messages.len() >= LARGEST {
            return Err(InboxFull);
        }
        waiting.next += 1;
        waiting.messages.insert(number, message);
        drop(waiting);
        self.news.notify_one();
        Ok(())
    }

    /// The node says no more.
    pub(super) fn close(&self) {
        self.guard().closed = true;
        self.news.notify_one();
    }

    /// What is to be dealt with next, in the order it came; loads between.
    /// Cancel safe.
    pub(super) async fn next(&self) -> Next {
        loop {
            let news = self.news.notified();
            if let Some(next) = self.take() {
                return next;
            }
            news.await;
        }
    }

    /// Reports that come next, each of another instance than those before it:
    /// they can be dealt with side by side.
    pub(super) fn take_reports(&self, first: InstanceReport, most: usize) -> Vec<InstanceReport> {
        let mut waiting = self.guard();
        let mut reports = vec![first];
        while reports.len() < most {
            let Some(front) = waiting.messages.first_entry() else {
                break;
            };
            let Some(node_message::Message::Report(report)) = &front.get().message else {
                break;
            };
            if reports.iter().any(|one| one.id == report.id) {
                break;
            }
            let (key, report) = (key(report), report.clone());
            front.remove();
            waiting.reports.remove(&key);
            reports.push(report);
        }
        reports
    }

    fn take(&self) -> Option<Next> {
        let mut waiting = self.guard();
        if let Some(load) = waiting.load.take() {
            return Some(Next::Load(load));
        }
        let Some((_, message)) = waiting.messages.pop_first() else {
            return waiting.closed.then_some(Next::Closed);
        };
        if let Some(node_message::Message::Report(report)) = &message.message {
            waiting.reports.remove(&key(report));
        }
        Some(Next::Message(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(id: &str, generation: u64, reason: &str) -> NodeMessage {
        NodeMessage {
            message: Some(node_message::Message::Report(InstanceReport {
                id: id.into(),
                generation,
                reason: reason.into(),
                ..InstanceReport::default()
            })),
        }
    }

    #[tokio::test]
    async fn later_report_takes_the_place_of_the_one_that_waits() {
        let inbox = Inbox::default();
        for message in [
            report("a", 1, "first"),
            report("b", 1, "b"),
            report("a", 1, "second"),
            report("a", 2, "another generation"),
        ] {
            inbox.put(message).unwrap();
        }
        inbox.close();
        for wanted in [
            report("a", 1, "second"),
            report("b", 1, "b"),
            report("a", 2, "another generation"),
        ] {
            assert_eq!(inbox.next().await, Next::Message(wanted));
        }
        assert_eq!(inbox.next().await, Next::Closed);
        // What was taken is not in the way of what comes next.
        inbox.put(report("a", 1, "third")).unwrap();
        let third = Next::Message(report("a", 1, "third"));
        assert_eq!(inbox.next().await, third);
    }

    #[tokio::test]
    async fn latest_load_counts_and_others_are_dropped() {
        let inbox = Inbox::default();
        for _ in 0..1000 {
            inbox.load(NodeLoad::default());
        }
        assert_eq!(inbox.next().await, Next::Load(NodeLoad::default()));
        assert!(inbox.take().is_none());
    }

    #[test]
    fn reports_of_different_instances_are_taken_together() {
        let inbox = Inbox::default();
        for id in ["a", "b", "c"] {
            inbox.put(report(id, 1, "")).unwrap();
        }
        inbox.put(report("a", 2, "")).unwrap();
        let Some(Next::Message(NodeMessage {
            message: Some(node_message::Message::Report(first)),
        })) = inbox.take()
        else {
            panic!("no report");
        };
        let taken = inbox.take_reports(first, 32).into_iter();
        let ids: Vec<_> = taken.map(|one| (one.id, one.generation)).collect();
        let expected = ["a", "b", "c"].map(|id| (id.to_owned(), 1));
        assert_eq!(ids, expected, "the second of a has to wait");
        assert!(matches!(inbox.take(), Some(Next::Message(_))));
        assert_eq!(inbox.take(), None);
    }

    #[test]
    fn node_that_says_more_than_it_can_have_is_refused() {
        let inbox = Inbox::default();
        let told = |n: usize| inbox.put(report(&n.to_string(), 1, ""));
        assert!((0..LARGEST).all(|n| told(n).is_ok()));
        assert!(told(LARGEST).is_err());
        assert!(told(7).is_ok(), "it replaces one that waits");
    }
}

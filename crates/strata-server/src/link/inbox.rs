//! Messages of a node that the server has not handled yet. Handling takes
//! commits, which wait for the store; receiving does not wait for them.
//!
//! A report replaces an earlier one of the same instance and generation that
//! still waits: the later one has all that counts, as in the node's own outbox.
//! So what waits is bounded by what the node has; and for one that was taken
//! over and makes up instances and pages of reasons, by its size.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use strata_api::strata::v1::{InstanceReport, NodeLoad, NodeMessage, node_message};
use tokio::sync::Notify;

/// More than any node has to report. The link of a node that sends more ends.
const MAX_REPORTS: usize = 65_536;
/// The same in bytes, as they came: several times what the reports of as many
/// instances take.
const MAX_REPORT_BYTES: usize = 32 << 20;
/// The longest text of a message that is kept; records have less of it.
const MAX_TEXT_LENGTH: usize = 4096;
/// The longest id of an instance, and of a control plane.
const MAX_ID_LENGTH: usize = 256;

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
    /// How large the messages are together.
    bytes: usize,
    load: Option<NodeLoad>,
    closed: bool,
}

impl Waiting {
    fn insert(&mut self, number: u64, message: NodeMessage) {
        self.bytes += message.encoded_len();
        if let Some(earlier) = self.messages.insert(number, message) {
            self.bytes -= earlier.encoded_len();
        }
    }

    fn pop_first(&mut self) -> Option<NodeMessage> {
        let (_, message) = self.messages.pop_first()?;
        self.bytes -= message.encoded_len();
        if let Some(node_message::Message::Report(report)) = &message.message {
            self.reports.remove(&key(report));
        }
        Some(message)
    }
}

/// Cuts texts to what is kept of them. False: the message is of no instance
/// that there can be.
fn trim(message: &mut NodeMessage) -> bool {
    let cut = |text: &mut String, most: usize| {
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
            text.shrink_to_fit();
        }
    };
    match &mut message.message {
        Some(node_message::Message::Report(report)) => {
            cut(&mut report.reason, MAX_TEXT_LENGTH);
            cut(&mut report.address, MAX_ID_LENGTH);
            cut(&mut report.control_plane, MAX_ID_LENGTH);
            report.id.len() <= MAX_ID_LENGTH
        }
        Some(node_message::Message::Refusal(refusal)) => {
            cut(&mut refusal.reason, MAX_TEXT_LENGTH);
            refusal.id.len() <= MAX_ID_LENGTH
        }
        // It is the first message, and is not accepted again.
        Some(node_message::Message::Hello(_)) => false,
        _ => true,
    }
}

/// What the server is to deal with next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Message(NodeMessage),
    /// The latest; those before it do not count any more.
    Load(NodeLoad),
    /// The node closed the stream.
    Closed,
}

/// More waits than a node can have to report.
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

    /// Any other message.
    pub(super) fn put(&self, mut message: NodeMessage) -> Result<(), InboxFull> {
        if !trim(&mut message) {
            return Ok(());
        }
        let mut waiting = self.guard();
        if waiting.bytes >= MAX_REPORT_BYTES {
            return Err(InboxFull);
        }
        let number = waiting.next;
        if let Some(node_message::Message::Report(report)) = &message.message {
            let key = key(report);
            if let Some(earlier) = waiting.reports.get(&key).copied() {
                waiting.insert(earlier, message);
                return Ok(());
            }
        }
        if waiting.messages.len() >= MAX_REPORTS {
            return Err(InboxFull);
        }
        if let Some(node_message::Message::Report(report)) = &message.message {
            waiting.reports.insert(key(report), number);
        }
        waiting.next += 1;
        waiting.insert(number, message);
        drop(waiting);
        self.news.notify_one();
        Ok(())
    }

    /// The node sends no more.
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
            let front = waiting.messages.first_key_value();
            let Some(node_message::Message::Report(report)) =
                front.and_then(|(_, message)| message.message.as_ref())
            else {
                break;
            };
            if reports.iter().any(|one| one.id == report.id) {
                break;
            }
            let taken = waiting.pop_first().and_then(|taken| taken.message);
            if let Some(node_message::Message::Report(report)) = taken {
                reports.push(report);
            }
        }
        reports
    }

    fn take(&self) -> Option<Next> {
        let mut waiting = self.guard();
        if let Some(load) = waiting.load.take() {
            return Some(Next::Load(load));
        }
        match waiting.pop_first() {
            Some(message) => Some(Next::Message(message)),
            None => waiting.closed.then_some(Next::Closed),
        }
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
        for expected in [
            report("a", 1, "second"),
            report("b", 1, "b"),
            report("a", 2, "another generation"),
        ] {
            assert_eq!(inbox.next().await, Next::Message(expected));
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
    fn inbox_refuses_more_reports_than_the_limit() {
        let inbox = Inbox::default();
        let told = |n: usize| inbox.put(report(&n.to_string(), 1, ""));
        assert!((0..MAX_REPORTS).all(|n| told(n).is_ok()));
        assert!(told(MAX_REPORTS).is_err());
        assert!(told(7).is_ok(), "it replaces one that waits");
    }

    #[test]
    fn inbox_truncates_and_bounds_long_reports() {
        let inbox = Inbox::default();
        let page = "ä".repeat(1 << 19);
        inbox.put(report("a", 1, &page)).unwrap();
        inbox.put(report(&page, 1, "")).unwrap();
        assert_eq!(inbox.guard().messages.len(), 1, "that is no id");
        assert!(inbox.guard().bytes < 2 * MAX_TEXT_LENGTH);
        let put = |n: usize| inbox.put(report(&n.to_string(), 1, &page)).is_ok();
        let taken = (0..MAX_REPORTS).take_while(|n| put(*n)).count();
        assert!((1000..MAX_REPORTS / 4).contains(&taken), "{taken}");
        assert!(
            !put(7),
            "nor does it replace those that wait by longer ones"
        );
        assert!(inbox.guard().bytes <= MAX_REPORT_BYTES + 2 * MAX_TEXT_LENGTH);
        while inbox.take().is_some() {}
        assert_eq!(inbox.guard().bytes, 0);
        assert!(inbox.guard().reports.is_empty());
    }
}

//! A watch on etcd, one stream each.
//!
//! etcd reports changes in answers that may hold several revisions, or only a
//! part of one; here each item is one whole revision. A silent stream is
//! checked for progress: a connection may be dead, or its member cut off from
//! the others, without either end noticing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::{Request, Streaming};

use super::Inner;
use super::status::fault;
use crate::{Change, Changes, Revision, StoreError, Watch};
use strata_etcd::WatchClient;
use strata_etcd::etcdserverpb::watch_request::RequestUnion;
use strata_etcd::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use strata_etcd::mvccpb::Event;
use strata_etcd::mvccpb::event::EventType;

/// An answer is at most about as large as a request may be, but for revisions
/// that cannot be sent in parts.
const MAX_ANSWER: usize = 16 << 20;

pub(super) async fn begin(
    inner: Arc<Inner>,
    prefix: &str,
    after: Revision,
) -> Result<Watch, StoreError> {
    let (key, range_end) = inner.prefix.range(prefix);
    // From the revision itself, not from the one after: then etcd reports when
    // it has compacted anything after it. What is sent of the revision itself
    // is dropped.
    let create = RequestUnion::CreateRequest(WatchCreateRequest {
        key,
        range_end,
        start_revision: after.max(1).cast_signed(),
        fragment: true,
    });
    let (requests, receiver) = mpsc::channel(4);
    // There is room for it.
    let _ = requests.try_send(request(create));
    let open = |channel| async {
        let mut call = Request::new(ReceiverStream::new(receiver));
        // A member that is cut off from the others ends the stream.
        let yes = MetadataValue::from_static("true");
        call.metadata_mut().insert("hasleader", yes);
        let client = WatchClient::new(channel).max_decoding_message_size(MAX_ANSWER);
        let mut client = client;
        let mut answers = client.watch(call).await?.into_inner();
        let first = answers.message().await?;
        Ok((answers, first))
    };
    let opened = inner.members.write(open).await;
    let (answers, first) = opened.map_err(|status| fault(&status))?;
    let mut follower = Follower {
        inner,
        requests,
        answers,
        after,
        partial: Vec::new(),
        ready: VecDeque::new(),
        ended: false,
    };
    match first {
        Some(first) => follower.take(first)?,
        None => return Err(over("it ended at once")),
    }
    Ok(Box::pin(stream::unfold(follower, |mut follower| async {
        let item = follower.next().await?;
        if let Err(error) = &item {
            tracing::debug!(%error, "etcd watch ended");
            follower.ended = true;
            if matches!(error, StoreError::Unavailable(_)) {
                follower.inner.members.doubt();
            }
        }
        Some((item, follower))
    })))
}

struct Follower {
    inner: Arc<Inner>,
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    after: Revision,
    // Events of a revision of which more may follow.
    partial: Vec<Event>,
    ready: VecDeque<Changes>,
    ended: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Changes, StoreError>> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(changes) = self.ready.pop_front() {
                return Some(Ok(changes));
            }
            let answer = match self.answer().await {
                Ok(answer) => self.take(answer),
                Err(error) => Err(error),
            };
            if let Err(error) = answer {
                return Some(Err(error));
            }
        }
    }

    /// The next answer; requests one when none comes by itself.
    async fn answer(&mut self) -> Result<WatchResponse, StoreError> {
        let quiet: Duration = self.inner.quiet;
        if let Ok(answer) = tokio::time::timeout(quiet, self.answers.message()).await {
            return received(answer);
        }
        let ask = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // No room means that etcd does not read requests.
        let _ = self.requests.try_send(request(ask));
        match tokio::time::timeout(quiet, self.answers.message()).await {
            Ok(answer) => received(answer),
            Err(_) => Err(over("it does not answer")),
        }
    }

    fn take(&mut self, answer: WatchResponse) -> Result<(), StoreError> {
        if answer.compact_revision != 0 {
            return Err(StoreError::Compacted {
                oldest: answer.compact_revision.unsigned_abs(),
            });
        }
        if answer.canceled {
            return Err(over(&answer.cancel_reason));
        }
        let whole = !answer.fragment;
        for event in answer.events {
            if self.partial.first().map(revision) != Some(revision(&event)) {
                self.complete()?;
            }
            self.partial.push(event);
        }
        if whole {
            self.complete()?;
        }
        Ok(())
    }

    /// All of one revision is there.
    fn complete(&mut self) -> Result<(), StoreError> {
        let events = std::mem::take(&mut self.partial);
        let Some(revision) = events.first().map(revision) else {
            return Ok(());
        };
        if revision <= self.after {
            return Ok(());
        }
        self.after = revision;
        let changes = events.into_iter().map(|event| self.change(event));
        let mut changes: Vec<_> = changes.collect::<Result<_, _>>()?;
        changes.sort_by(|a, b| a.key().cmp(b.key()));
        self.ready.push_back(Changes { revision, changes });
        Ok(())
    }

    fn change(&self, event: Event) -> Result<Change, StoreError> {
        let deleted = event.r#type() == EventType::Delete;
        let found = event.kv.unwrap_or_default();
        if deleted {
            let key = self.inner.prefix.own(found.key)?;
            return Ok(Change::Deleted { key });
        }
        self.inner.prefix.entry(found).map(Change::Put)
    }
}

fn revision(event: &Event) -> Revision {
    let found = event.kv.as_ref();
    found.map_or(0, |it| it.mod_revision.unsigned_abs())
}

fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest {
        request_union: Some(union),
    }
}

fn received(
    answer: Result<Option<WatchResponse>, tonic::Status>,
) -> Result<WatchResponse, StoreError> {
    match answer {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(over("it was closed")),
        Err(status) => Err(fault(&status)),
    }
}

fn over(why: &str) -> StoreError {
    StoreError::Unavailable(format!("the watch on etcd: {why}"))
}

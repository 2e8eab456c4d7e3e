//! `/audit/`: the audit log of this server. Reading it is itself written
//! there, once for a request, however long it follows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse;
use futures_util::stream;
use strata_audit::{AuditLog, Entry, Filter, Follower, Page};
use strata_identity::policy::ADMIN;
use strata_types::Error;

use super::extract::{Auth, Parameters};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::{RestState, answer, watch};

/// How often a follower checks whether there is more.
const EXPORT_INTERVAL: Duration = Duration::from_millis(500);
/// How many entries a follower holds.
const BATCH_SIZE: usize = 64;
/// How long a reading may wait for those before it: a log is up to a gibibyte,
/// and one reading at a time goes through it.
const READ_SLOT_TIMEOUT: Duration = Duration::from_secs(10);
/// One reading at a time.
static READING: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);

pub(super) fn routes() -> Noun {
    Noun::new("audit", "The audit log: who called what, and the outcome.").routes([route::get(
        "/audit", ADMIN, list,
    )
    .named("listAuditEntries", "List audit log entries")
    .about("The entries of the audit log of this server, oldest first.")
    .parameters(&[
        "after",
        "audit tail",
        "principal",
        "call",
        "audit object",
        "audit project",
        "refused",
        "sessions",
    ])
    .returns_watchable_list::<Entry>()])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[
        "limit",
        "offset",
        "after",
        "tail",
        "principal",
        "call",
        "object",
        "project",
        "refused",
        "sessions",
        "watch",
    ])?;
    principal.require_all_projects()?;
    let filter = Filter {
        after: parameters.number("after", 0, u64::MAX >> 1)?.unwrap_or(0),
        principal: parameters.text("principal")?.map(str::to_owned),
        call: parameters.text("call")?.map(str::to_owned),
        object: parameters.text("object")?.map(str::to_owned),
        project: parameters.text("project")?.map(str::to_owned),
        refused: parameters.flag("refused")?,
        sessions: parameters.flag("sessions")?,
    };
    let (limit, offset) = parameters.pagination()?;
    let tail = parameters.number("tail", 1, 1000)?;
    let tail = tail.and_then(|tail| usize::try_from(tail).ok());
    let Some(log) = state.audit.clone() else {
        return Err(Error::unavailable("this server keeps no audit log").into());
    };
    if parameters.flag("watch")? {
        return follow(&state, log, filter, tail).await;
    }
    let page = read(log, move |log| match tail {
        None => Page::read(log.directory(), &filter, offset, limit),
        Some(tail) => Page::latest(log.directory(), &filter, tail),
    });
    let page = page.await?;
    match tail {
        None => answer::list(page.total, page.entries.iter()),
        Some(_) => {
            let some = page.entries.iter().skip(offset).take(limit);
            answer::list(page.entries.len(), some)
        }
    }
}

async fn read<T: Send + 'static>(
    log: Arc<AuditLog>,
    read: impl FnOnce(&AuditLog) -> std::io::Result<T> + Send + 'static,
) -> Answer<T> {
    let busy = || Error::unavailable("others read the audit log").with_hint("try again later");
    let turn = tokio::time::timeout(READ_SLOT_TIMEOUT, READING.acquire()).await;
    // Held by the reading itself, which goes on when the caller leaves.
    let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        read(&log)
    });
    let cannot = |why: &dyn std::fmt::Display| {
        Error::internal(format!("the audit log cannot be read: {why}"))
    };
    let done = done.await.map_err(|error| cannot(&error))?;
    Ok(done.map_err(|error| cannot(&error))?)
}

/// A follower, and what it has read ahead.
struct Follow {
    log: Arc<AuditLog>,
    filter: Filter,
    ahead: VecDeque<sse::Event>,
    follower: Option<Follower>,
    last: u64,
}

impl Follow {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                return Some(event);
            }
            while self.log.last_number() <= self.last {
                tokio::time::sleep(EXPORT_INTERVAL).await;
            }
            let mut follower = self.follower.take()?;
            let read = read(self.log.clone(), move |_| {
                let entries = follower.next(BATCH_SIZE)?;
                Ok((entries, follower))
            });
            let (entries, follower) = read.await.ok()?;
            self.follower = Some(follower);
            match entries.last() {
                Some(last) => self.last = last.number,
                // Reported of before it can be read.
                None => tokio::time::sleep(EXPORT_INTERVAL).await,
            }
            let matching = entries.iter().filter(|entry| self.filter.accept(entry));
            self.ahead.extend(matching.filter_map(put));
        }
    }
}

fn put(entry: &Entry) -> Option<sse::Event> {
    let text = answer::text(entry).ok()?;
    let text = String::from_utf8(text).ok()?;
    let id = entry.number.to_string();
    Some(sse::Event::default().event("put").id(id).data(text))
}

/// What there is, `synced`, and what follows. Without `tail` and `after`
/// nothing of what there is.
async fn follow(
    state: &RestState,
    log: Arc<AuditLog>,
    filter: Filter,
    tail: Option<usize>,
) -> Answer {
    let mut ahead = VecDeque::new();
    let last = match (tail, filter.after) {
        (None, 0) => log.last_number(),
        (None, after) => after,
        (Some(tail), _) => {
            let matching = filter.clone();
            let page = read(log.clone(), move |log| {
                Page::latest(log.directory(), &matching, tail)
            });
            let page = page.await?;
            ahead.extend(page.entries.iter().filter_map(put));
            page.last
        }
    };
    ahead.push_back(sse::Event::default().event("synced").data("{}"));
    let follow = Follow {
        follower: Some(Follower::after(log.directory(), last)),
        log,
        filter,
        ahead,
        last,
    };
    let events = stream::unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((event, follow))
    });
    Ok(watch::answer(state, events))
}

//! `/event/`: what happened lately, the oldest first.

use axum::extract::State;
use axum::response::sse;
use futures_util::stream;
use strata_api::rest;
use tokio::sync::watch::Receiver;

use super::extract::{Asker, Parameters};
use super::refusal::Answer;
use super::view::moment;
use super::{RestState, answer, watch};
use crate::core::{Core, Event, Next, Page, Remembered, Who};
use strata_types::Label;

const KINDS: [&str; 7] = [
    "instance", "workload", "node", "project", "machine", "cluster", "server",
];

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "project", "kind", "after", "watch"])?;
    let those = Those {
        who,
        project: parameters.label("project")?,
        kind: parameters.one_of("kind", &KINDS, |word| word)?,
        after: parameters.number("after", 0, u64::MAX >> 1)?.unwrap_or(0),
    };
    let (limit, offset) = parameters.piece()?;
    if parameters.flag("watch")? {
        return Ok(follow(&state, those));
    }
    let all = state.core.events().all();
    let all = all.iter().map(|one| &one.event);
    let page = Page::of(all.filter(|one| those.accept(one)), offset, limit);
    let limited = those.who.is_limited();
    answer::list(
        page.total,
        page.items.into_iter().map(|one| tell(one, limited)),
    )
}

/// Which events.
struct Those {
    who: Who,
    project: Option<Label>,
    kind: Option<&'static str>,
    after: u64,
}

impl Those {
    fn accept(&self, event: &Event) -> bool {
        let seen = |project: &Label| self.who.sees(project);
        // What is of no project (nodes, machines, clusters) is not shown to
        // callers who are limited to some.
        event.project.as_ref().map_or(!self.who.is_limited(), seen)
            && (self.project.is_none() || self.project == event.project)
            && self.kind.is_none_or(|kind| kind == event.kind)
            && event.number > self.after
    }
}

fn tell(event: &Event, limited: bool) -> rest::Event {
    let message = event.limited_message.as_ref().filter(|_| limited);
    rest::Event {
        number: event.number,
        at: moment(event.at_ms),
        kind: event.kind.to_owned(),
        name: event.name.clone(),
        id: Some(event.id.clone()).filter(|id| !id.is_empty()),
        project: event.project.as_ref().map(Label::to_string),
        message: message.unwrap_or(&event.message).clone(),
        count: (event.count > 1).then_some(event.count),
        last_at: (event.count > 1).then(|| moment(event.last_at_ms)),
    }
}

/// A watcher: where it is in the ring, and what it was told besides.
struct Follow {
    core: Core,
    those: Those,
    position: u64,
    /// All that was remembered has been told.
    synced: bool,
    last: Receiver<u64>,
}

impl Follow {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            // Marked before the look, so what comes between wakes at once.
            self.last.borrow_and_update();
            let events = self.core.events();
            match events.after(self.position, |event| self.those.accept(event)) {
                Next::Event(one) => {
                    self.position = one.event.number;
                    return Some(self.put(&one));
                }
                Next::Skipped(position) => self.position = position,
                Next::Overtaken(position) => {
                    self.position = position;
                    if std::mem::take(&mut self.synced) {
                        return Some(sse::Event::default().event("resync").data("{}"));
                    }
                }
                Next::End if !self.synced => {
                    self.synced = true;
                    return Some(sse::Event::default().event("synced").data("{}"));
                }
                Next::End => self.last.changed().await.ok()?,
            }
        }
    }

    fn put(&self, one: &Remembered) -> sse::Event {
        let limited = self.those.who.is_limited();
        let text = one.text(limited, |event| {
            let text = answer::text(&tell(event, limited)).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        });
        let id = one.event.number.to_string();
        sse::Event::default().event("put").id(id).data(text)
    }
}

fn follow(state: &RestState, those: Those) -> axum::response::Response {
    let follow = Follow {
        core: state.core.clone(),
        position: those.after,
        those,
        synced: false,
        last: state.core.events().subscribe(),
    };
    let events = stream::unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((event, follow))
    });
    watch::answer(state, events)
}

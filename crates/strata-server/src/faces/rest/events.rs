//! `/event/`: what happened lately, the oldest first.

use std::collections::VecDeque;

use axum::extract::State;
use axum::response::sse;
use futures_util::stream;
use strata_api::rest;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::extract::{Asker, Parameters};
use super::refusal::Answer;
use super::view::moment;
use super::{RestState, answer, watch};
use crate::core::{Core, Event, Page, Who};
use strata_types::Label;

const KINDS: [&str; 6] = [
    "instance", "workload", "node", "project", "machine", "cluster",
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
    let (all, _) = state.core.events().follow();
    let page = Page::of(all.iter().filter(|one| those.accept(one)), offset, limit);
    answer::list(page.total, page.items.into_iter().map(tell))
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
        event.project.as_ref().is_none_or(seen)
            && (self.project.is_none() || self.project == event.project)
            && self.kind.is_none_or(|kind| kind == event.kind)
            && event.number > self.after
    }
}

fn tell(event: &Event) -> rest::Event {
    rest::Event {
        number: event.number,
        at: moment(event.at_ms),
        kind: event.kind.to_owned(),
        name: event.name.clone(),
        id: Some(event.id.clone()).filter(|id| !id.is_empty()),
        project: event.project.as_ref().map(Label::to_string),
        message: event.message.clone(),
    }
}

struct Follow {
    core: Core,
    those: Those,
    ready: VecDeque<sse::Event>,
    coming: Receiver<Event>,
}

impl Follow {
    fn put(&mut self, event: &Event) {
        if self.those.accept(event) {
            self.those.after = event.number;
            let text = answer::text(&tell(event)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let id = event.number.to_string();
            let told = sse::Event::default().event("put").id(id).data(text);
            self.ready.push_back(told);
        }
    }

    /// What is remembered and was not told yet.
    fn catch_up(&mut self) {
        let (all, coming) = self.core.events().follow();
        self.coming = coming;
        for event in &all {
            self.put(event);
        }
        let synced = sse::Event::default().event("synced").data("{}");
        self.ready.push_back(synced);
    }

    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.coming.recv().await {
                Ok(event) => self.put(&event),
                Err(RecvError::Lagged(_)) => {
                    let resync = sse::Event::default().event("resync").data("{}");
                    self.ready.push_back(resync);
                    self.catch_up();
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

fn follow(state: &RestState, those: Those) -> axum::response::Response {
    let (_, coming) = state.core.events().follow();
    let mut follow = Follow {
        core: state.core.clone(),
        those,
        ready: VecDeque::new(),
        coming,
    };
    follow.catch_up();
    let events = stream::unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((event, follow))
    });
    watch::answer(state, events)
}

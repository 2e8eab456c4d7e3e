//! `/event/`: what happened lately, the oldest first.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::sse;
use futures_util::stream;
use strata_api::rest;
use strata_identity::policy::READ;
use tokio::sync::watch::Receiver;

use super::extract::{Auth, Parameters};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::view::timestamp;
use super::{RestState, answer, watch};
use crate::core::{Core, Event, LoggedEvent, Next, Page, Principal};
use strata_types::Label;

const KINDS: [&str; 7] = [
    "instance", "workload", "node", "project", "machine", "cluster", "server",
];

pub(super) fn routes() -> Noun {
    Noun::new("event", "Recent events.")
        .in_projects()
        .routes([route::get("/event", READ, list)
            .named("listEvents", "List events")
            .about("Recent events, oldest first.")
            .parameters(&["project", "kind", "after"])
            .returns_watchable_list::<rest::Event>()])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "project", "kind", "after", "watch"])?;
    let those = EventSelector {
        begin: begin_of_projects(&state.core, &principal),
        principal,
        project: parameters.label("project")?,
        kind: parameters.one_of("kind", &KINDS, |word| word)?,
        after: parameters.number("after", 0, u64::MAX >> 1)?.unwrap_or(0),
    };
    let (limit, offset) = parameters.pagination()?;
    if parameters.flag("watch")? {
        return Ok(follow(&state, those));
    }
    let all = state.core.events().all();
    let all = all.iter().map(|one| &one.event);
    let page = Page::of(all.filter(|one| those.accept(one)), offset, limit);
    let limited = those.principal.is_limited();
    answer::list(
        page.total,
        page.items.into_iter().map(|one| render(one, limited)),
    )
}

/// When the projects of a limited caller began: what happened before was of
/// deleted projects of the same names.
fn begin_of_projects(core: &Core, principal: &Principal) -> HashMap<Label, i64> {
    let begin = |name: &Label| {
        let project = core.projects().get(name).ok();
        let at = project.map_or(0, |view| view.project.succeeds_at_ms);
        (name.clone(), at)
    };
    principal.projects.iter().flatten().map(begin).collect()
}

struct EventSelector {
    principal: Principal,
    begin: HashMap<Label, i64>,
    project: Option<Label>,
    kind: Option<&'static str>,
    after: u64,
}

impl EventSelector {
    fn accept(&self, event: &Event) -> bool {
        let facts = |project: &Label| {
            let begin = self.begin.get(project).copied().unwrap_or(0);
            self.principal.sees(project) && event.at_ms > begin
        };
        // What is of no project (nodes, machines, clusters) is not shown to
        // callers who are limited to some.
        event
            .project
            .as_ref()
            .map_or(!self.principal.is_limited(), facts)
            && (self.project.is_none() || self.project == event.project)
            && self.kind.is_none_or(|kind| kind == event.kind)
            && event.number > self.after
    }
}

fn render(event: &Event, limited: bool) -> rest::Event {
    let message = event.limited_message.as_ref().filter(|_| limited);
    rest::Event {
        number: event.number,
        at: timestamp(event.at_ms),
        kind: event.kind.to_owned(),
        name: event.name.clone(),
        id: Some(event.id.clone()).filter(|id| !id.is_empty()),
        project: event.project.as_ref().map(Label::to_string),
        message: message.unwrap_or(&event.message).clone(),
        count: (event.count > 1).then_some(event.count),
        last_at: (event.count > 1).then(|| timestamp(event.last_at_ms)),
    }
}

/// A watcher: where it is in the ring, and what it was sent besides.
struct Follow {
    core: Core,
    those: EventSelector,
    position: u64,
    /// All that was remembered has been sent.
    synced: bool,
    last: Receiver<u64>,
}

impl Follow {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            // Marked before the read, so what comes between wakes at once.
            self.last.borrow_and_update();
            self.those.begin = begin_of_projects(&self.core, &self.those.principal);
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

    fn put(&self, one: &LoggedEvent) -> sse::Event {
        let limited = self.those.principal.is_limited();
        let text = one.text(limited, |event| {
            let text = answer::text(&render(event, limited)).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        });
        let id = one.event.number.to_string();
        sse::Event::default().event("put").id(id).data(text)
    }
}

fn follow(state: &RestState, those: EventSelector) -> axum::response::Response {
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

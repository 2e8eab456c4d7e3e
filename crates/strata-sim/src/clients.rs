//! Callers of the API, each with instances of its own: what was acknowledged to
//! them has to be so when everything is at rest. A request without an answer is
//! sent again with its idempotency key, to whichever server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::chance::Chance;
use crate::env::Env;
use crate::server::SimServer;

/// How soon a request is sent again.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a request that was given up may still have its effect. Until then
/// nothing else is requested of the same instance.
const IN_FLIGHT: Duration = Duration::from_secs(20);
/// How old what a server shows may be, and what a request takes.
const STALENESS: Duration = Duration::from_secs(25);
const MAX_INSTANCES: usize = 5;

/// What was last acknowledged of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    Runs,
    Stopped,
    Gone,
    /// A server did not know it that may not have seen that it was created.
    Unknown,
}

/// A caller.
pub(crate) struct Client {
    at: usize,
    env: Arc<Env>,
    chance: Chance,
    servers: Vec<Arc<SimServer>>,
    nodes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    made: usize,
    requests: usize,
    instances: BTreeMap<String, Known>,
    draining: Option<usize>,
    /// When a request was last given up.
    gave_up_at: Option<Instant>,
}

struct Known {
    is: Acknowledged,
    created_at: Instant,
    /// Nothing is requested of it before.
    rests_until: Instant,
    changes: usize,
}

enum Answer {
    /// With the id of what is shown.
    Done(String),
    Refused,
    Missing,
}

impl Client {
    pub(crate) fn new(
        env: &Arc<Env>,
        servers: &[Arc<SimServer>],
        nodes: usize,
        at: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            at,
            env: env.clone(),
            chance: Chance::of(env.seed, &format!("client {at}")),
            servers: servers.to_vec(),
            nodes,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was acknowledged.
    pub(crate) fn acknowledged(&self) -> BTreeMap<String, Acknowledged> {
        let state = self.state();
        let all = state.instances.iter();
        all.map(|(id, known)| (id.clone(), known.is)).collect()
    }

    /// Sends requests until it is stopped, and the last to its end.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let pause = self.chance.millis(50..=2500);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            self.act().await;
        }
        let draining = self.state().draining.take();
        if let Some(node) = draining {
            self.drain(node, false).await;
        }
    }

    async fn act(&self) {
        let now = Instant::now();
        let (count, ready): (usize, Vec<(String, Acknowledged)>) = {
            let state = self.state();
            let there = state.instances.iter();
            let there = there.filter(|(_, known)| known.is != Acknowledged::Gone);
            let there: Vec<_> = there.collect();
            let ready = there.iter().filter(|(_, known)| known.rests_until <= now);
            let ready = ready.map(|(id, known)| ((*id).clone(), known.is));
            (there.len(), ready.collect())
        };
        let creates = count < MAX_INSTANCES && (ready.is_empty() || self.chance.one_in(3));
        if creates {
            return self.create().await;
        }
        if self.at == 0 && self.chance.one_in(8) {
            let draining = self.state().draining.take();
            match draining {
                Some(node) => self.drain(node, false).await,
                None => {
                    let node = self.chance.index(self.nodes);
                    self.state().draining = Some(node);
                    self.drain(node, true).await;
                }
            }
            return;
        }
        let Some((id, is)) = self.chance.pick(&ready) else {
            return;
        };
        let path = format!("/instance/{id}");
        let changes = {
            let mut state = self.state();
            let known = state.instances.get_mut(id);
            known.map_or(0, |known| {
                known.changes += 1;
                known.changes
            })
        };
        match self.chance.below(4) {
            0 => {
                let answer = self.request(id, "DELETE", &path, None).await;
                match answer {
                    Answer::Done(_) => self.set(id, Acknowledged::Gone),
                    Answer::Missing if self.is_new(id) => self.set(id, Acknowledged::Unknown),
                    Answer::Missing => self.set(id, Acknowledged::Gone),
                    Answer::Refused => {}
                }
            }
            1 => {
                let body = json!({ "environment": [format!("CHANGE={changes}")] });
                self.request(id, "PATCH", &path, Some(body)).await;
            }
            _ => {
                let (status, next) = match is {
                    Acknowledged::Runs => ("STOPPED", Acknowledged::Stopped),
                    _ => ("RUNNING", Acknowledged::Runs),
                };
                let body = json!({ "status": status });
                if let Answer::Done(_) = self.request(id, "PATCH", &path, Some(body)).await {
                    self.set(id, next);
                }
            }
        }
    }

    async fn create(&self) {
        let id = {
            let mut state = self.state();
            state.made += 1;
            format!("i{}-{}", self.at + 1, state.made)
        };
        let runs = match self.chance.one_in(5) {
            true => "available",
            false => "exclusive",
        };
        let mut body = json!({
            "uri": "docker.io/library/nginx:1.27",
            "restart": "always", "stopGraceSeconds": 1 + self.chance.below(5),
            "placement": { "runs": runs },
        });
        // Without an id the key alone keeps it from being created twice.
        if !self.chance.one_in(3) {
            body["id"] = Value::from(id.as_str());
            body["name"] = Value::from(id.as_str());
        }
        let began = Instant::now();
        let answer = self.request(&id, "PUT", "/instance/", Some(body)).await;
        if let Answer::Done(id) = answer {
            let mut state = self.state();
            let gave_up_at = state.gave_up_at.filter(|at| *at >= began);
            let known = Known {
                is: Acknowledged::Runs,
                created_at: Instant::now(),
                rests_until: gave_up_at.map_or(began, |at| at + IN_FLIGHT),
                changes: 0,
            };
            state.instances.insert(id, known);
        }
    }

    async fn drain(&self, node: usize, draining: bool) {
        let path = format!("/node/n{}", node + 1);
        let body = json!({ "draining": draining });
        self.request("", "PATCH", &path, Some(body)).await;
    }

    /// Whether a server may answer by what it knew before this was created.
    fn is_new(&self, id: &str) -> bool {
        let state = self.state();
        let known = state.instances.get(id);
        known.is_some_and(|known| known.created_at.elapsed() < STALENESS)
    }

    fn set(&self, id: &str, is: Acknowledged) {
        if let Some(known) = self.state().instances.get_mut(id) {
            known.is = is;
        }
    }

    /// Sends a request until it is answered.
    async fn request(&self, id: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let number = {
            let mut state = self.state();
            state.requests += 1;
            state.requests
        };
        let key = format!("key-{}-{number}", self.at + 1);
        let text = body.map_or_else(String::new, |body| body.to_string());
        let client = self.at + 1;
        self.env
            .note(format_args!("c{client} {method} {path} {text}"));
        loop {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", "application/json")
                .header("idempotency-key", &key)
                .body(Body::from(text.clone()));
            let Some(server) = self.chance.pick(&self.servers) else {
                return Answer::Missing;
            };
            let answer = match request {
                Ok(request) => server.request(request).await,
                Err(_) => return Answer::Missing,
            };
            let status = answer.as_ref().map_or(0, |(status, _)| *status);
            let place = server.place();
            self.env
                .note(format_args!("c{client} {number} {place} answers {status}"));
            match (status, answer) {
                // A server that does not have the record yet repeats the answer
                // without it.
                (200..=299, Some((_, text))) if text.is_empty() && method == "PUT" => {}
                (200..=299, Some((_, text))) => {
                    let shown: Value = serde_json::from_str(&text).unwrap_or_default();
                    let id = shown["id"].as_str().unwrap_or_default();
                    return Answer::Done(id.to_owned());
                }
                (404, _) => return Answer::Missing,
                // Another request with this key is under way, or too many.
                (409 | 425 | 429, Some((_, text))) if text.contains("dempotency") => {}
                (400..=499, Some((_, text))) => {
                    self.env
                        .note(format_args!("c{client} {number} refused: {text}"));
                    return Answer::Refused;
                }
                _ => {
                    let now = Instant::now();
                    let mut state = self.state();
                    state.gave_up_at = Some(now);
                    if let Some(known) = state.instances.get_mut(id) {
                        known.rests_until = now + IN_FLIGHT;
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

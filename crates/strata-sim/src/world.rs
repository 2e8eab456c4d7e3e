//! One run: a store, servers, nodes and callers; faults for a while, and then
//! none, until everything is as was requested.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::Value;
use strata_store::{Listing, Store as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::SimNode;
use crate::chance::Chance;
use crate::checks::Checks;
use crate::clients::{Acknowledged, Client};
use crate::env::Env;
use crate::faults::{self, Fault, Kind};
use crate::host::SimHost;
use crate::net::{Network, Place};
use crate::server::{ServerSettings, SimServer};
use crate::store::Engine;

/// How long faults begin: short, so that several come at once.
const FAULTS_BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take until everything is as requested once nothing is wrong
/// any more: above what is held back after a mass loss.
const REST_TIMEOUT: Duration = Duration::from_secs(600);
/// Instances that run, stop, or end do so within this time where nothing moves.
const REST_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A run.
pub(crate) struct World {
    env: Arc<Env>,
    net: Arc<Network>,
    engine: Arc<Engine>,
    checks: Arc<Checks>,
    servers: Vec<Arc<SimServer>>,
    nodes: Vec<Arc<SimNode>>,
    clients: Vec<Arc<Client>>,
    faults: Vec<Fault>,
}

impl World {
    /// The world of a seed.
    pub(crate) fn new(env: &Arc<Env>) -> Self {
        let chance = Chance::of(env.seed, "world");
        let servers = 1 + chance.index(3);
        let settings = ServerSettings {
            alone: servers == 1,
            lease: Duration::from_secs(*chance.pick(&[3, 5, 10]).unwrap_or(&5)),
        };
        let nodes = 3;
        let checks = Checks::new(env, servers > 1);
        let net = Network::new(env);
        let engine = Engine::new(env, &checks);
        let server = |at| SimServer::new(env, &net, &engine, at, settings.clone());
        let servers: Vec<_> = (0..servers).map(server).collect();
        let node = |at| SimNode::new(env, &net, &servers, SimHost::new(env, &checks, at));
        let nodes: Vec<_> = (0..nodes).map(node).collect();
        let client = |at| Client::new(env, &servers, nodes.len(), at);
        let clients = (0..2).map(client).collect();
        let chance = Chance::of(env.seed, "faults");
        let faults = faults::choose(&chance, servers.len(), nodes.len(), FAULTS_BEGIN_WITHIN);
        env.note(format_args!(
            "{} servers, {} nodes, lease {:?}",
            servers.len(),
            nodes.len(),
            settings.lease
        ));
        Self {
            env: env.clone(),
            net,
            engine,
            checks,
            servers,
            nodes,
            clients,
            faults,
        }
    }

    /// The faults that it has.
    pub(crate) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Runs it, without the faults of these numbers.
    pub(crate) async fn run(self: Arc<Self>, without: &[usize]) {
        self.servers.iter().for_each(SimServer::start);
        self.nodes.iter().for_each(|node| node.start());
        let stop = CancellationToken::new();
        let outside = self.env.outside();
        let mut clients = Vec::new();
        for client in &self.clients {
            let (done, ended) = tokio::sync::oneshot::channel();
            let running = client.clone().run(stop.clone());
            outside.spawn("client", async move {
                running.await;
                let _ = done.send(());
            });
            clients.push(ended);
        }
        let mut last = FAULTS_BEGIN_WITHIN;
        for (number, fault) in self.faults.iter().enumerate() {
            if without.contains(&number) {
                continue;
            }
            last = last.max(fault.at + fault.lasts);
            let (world, fault) = (self.clone(), fault.clone());
            outside.spawn("fault", async move {
                tokio::time::sleep(fault.at).await;
                world.env.note(format_args!("fault {number} {fault}"));
                world.cause(&fault).await;
                world.env.note(format_args!("fault {number} over"));
            });
        }
        let end = Instant::now() + last + Duration::from_secs(1);
        while Instant::now() < end && self.env.violations().is_empty() {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        self.heal();
        stop.cancel();
        let rest = async {
            for client in clients {
                drop(client.await);
            }
            self.until_at_rest().await;
        };
        if tokio::time::timeout(REST_TIMEOUT, rest).await.is_err()
            && self.env.violations().is_empty()
        {
            let why = self.why_not_at_rest().await;
            self.env
                .violated(format!("not as requested at rest: {}", why.join("; ")));
        }
    }

    async fn cause(&self, fault: &Fault) {
        let lasts = fault.lasts;
        match &fault.kind {
            Kind::KillAgent(at) => {
                self.nodes[*at].kill();
                tokio::time::sleep(lasts).await;
                self.nodes[*at].start();
            }
            Kind::PauseAgent(at) => {
                let process = self.nodes[*at].process();
                process.pause();
                tokio::time::sleep(lasts).await;
                process.resume();
            }
            Kind::PowerCut(at) => {
                self.nodes[*at].set_power(false);
                tokio::time::sleep(lasts).await;
                self.nodes[*at].set_power(true);
                self.nodes[*at].start();
            }
            Kind::CrashUnit(at) => {
                let node = &self.nodes[*at];
                let agent = node.process();
                node.host.crash((!agent.is_dead()).then_some(&agent));
            }
            Kind::FullDisk(at) => {
                self.nodes[*at].disk.set_full(true);
                tokio::time::sleep(lasts).await;
                self.nodes[*at].disk.set_full(false);
            }
            Kind::KillServer(at) => {
                self.servers[*at].kill();
                tokio::time::sleep(lasts).await;
                self.servers[*at].start();
            }
            Kind::StopServer(at) => {
                self.servers[*at].stop().await;
                tokio::time::sleep(lasts).await;
                self.servers[*at].start();
            }
            Kind::PauseServer(at) => {
                let process = self.servers[*at].process();
                process.pause();
                tokio::time::sleep(lasts).await;
                process.resume();
            }
            Kind::Clock(at, ms) => {
                self.servers[*at].process().set_ahead(*ms);
                tokio::time::sleep(lasts).await;
                self.servers[*at].process().set_ahead(0);
            }
            Kind::Cut(from, to) => {
                self.net.cut(*from, *to);
                tokio::time::sleep(lasts).await;
                self.net.mend(*from, *to);
            }
            Kind::Isolate(place) => {
                let others = self.places();
                let others = others.iter().filter(|other| *other != place);
                let others: Vec<_> = others.copied().collect();
                for other in &others {
                    self.net.cut(*place, *other);
                    self.net.cut(*other, *place);
                }
                tokio::time::sleep(lasts).await;
                for other in &others {
                    self.net.mend(*place, *other);
                    self.net.mend(*other, *place);
                }
            }
            Kind::ResetConnections(place) => self.net.reset(*place),
            Kind::SlowStore(ms) => {
                self.engine.set_slow(*ms);
                tokio::time::sleep(lasts).await;
                self.engine.set_slow(0);
            }
            Kind::LoseAnswers => {
                self.engine.set_loses_answers(true);
                tokio::time::sleep(lasts).await;
                self.engine.set_loses_answers(false);
            }
            Kind::BreakWatches => self.engine.memory.break_watches(),
            Kind::Compact => {
                self.engine.memory.forget();
                self.engine.memory.break_watches();
            }
            Kind::EndLease => self.engine.end_a_lease().await,
        }
    }

    fn places(&self) -> Vec<Place> {
        let mut all = vec![Place::Store, Place::Client];
        all.extend((0..self.servers.len()).map(Place::Server));
        all.extend((0..self.nodes.len()).map(Place::Node));
        all
    }

    /// Whatever ended is started: faults that overlap may leave that behind.
    fn heal(&self) {
        self.env.note(format_args!("everything is healed"));
        for server in &self.servers {
            server.process().resume();
            server.start();
        }
        for node in &self.nodes {
            node.process().resume();
            node.set_power(true);
            node.start();
        }
    }

    async fn until_at_rest(&self) {
        let mut before = Vec::new();
        loop {
            tokio::time::sleep(REST_CHECK_INTERVAL).await;
            let why = self.why_not_at_rest().await;
            if why.is_empty() || !self.env.violations().is_empty() {
                return;
            }
            if why != before {
                self.env
                    .note(format_args!("not at rest: {}", why.join("; ")));
                before = why;
            }
        }
    }

    /// What is not as was requested.
    async fn why_not_at_rest(&self) -> Vec<String> {
        let mut why = Vec::new();
        let Ok(listing) = self.engine.memory.list("instance/").await else {
            return vec!["the store has no listing".to_owned()];
        };
        let mut records = BTreeMap::new();
        for entry in &listing.entries {
            let record: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            let id = record["id"].as_str().unwrap_or_default().to_owned();
            records.insert(id, record);
        }
        let mut runs = self.checks.runs();
        for client in &self.clients {
            for (id, is) in client.acknowledged() {
                let record = records.remove(&id);
                let runs = runs.remove(&id).unwrap_or_default();
                let wrong = match (is, record) {
                    (Acknowledged::Unknown, Some(_)) => false,
                    (Acknowledged::Unknown, None) => !runs.is_empty(),
                    (Acknowledged::Gone, None) => !runs.is_empty(),
                    (Acknowledged::Gone, Some(_)) | (_, None) => true,
                    (Acknowledged::Stopped, Some(record)) => {
                        !runs.is_empty() || record["wanted"] != "stopped"
                    }
                    (Acknowledged::Runs, Some(record)) => {
                        let on: Vec<String> =
                            runs.iter().map(|at| Place::Node(*at).to_string()).collect();
                        let node = record["node"].as_str().unwrap_or_default();
                        on != [node] || record["state"] != "RUNNING"
                    }
                };
                if wrong {
                    why.push(format!("{id} was acknowledged {is:?} and runs on {runs:?}"));
                }
            }
        }
        for (id, _) in records {
            why.push(format!("{id} was never acknowledged"));
        }
        for (id, on) in runs {
            why.push(format!("{id} runs on {on:?}"));
        }
        if why.is_empty() {
            why = self.outdated_tables(&listing).await;
        }
        why
    }

    /// The servers whose tables are not as the store is.
    async fn outdated_tables(&self, listing: &Listing) -> Vec<String> {
        let pairs = |all: &[Value], state: &str| -> BTreeMap<String, String> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let pair = |one: &Value| (text(&one["id"]), text(&one[state]));
            all.iter().map(pair).collect()
        };
        let stored = listing.entries.iter();
        let stored = stored.map(|entry| serde_json::from_slice(&entry.value).unwrap_or_default());
        let stored = pairs(&stored.collect::<Vec<Value>>(), "state");
        let mut why = Vec::new();
        for server in &self.servers {
            let request = Request::builder().uri("/instance?limit=1000");
            let Ok(request) = request.body(Body::empty()) else {
                continue;
            };
            let shown = match server.request(request).await {
                Some((200, text)) => serde_json::from_str(&text).unwrap_or_default(),
                _ => Vec::new(),
            };
            let shown = pairs(&shown, "status");
            if shown != stored {
                let place = server.place();
                why.push(format!("{place} shows {shown:?}, the store has {stored:?}"));
            }
        }
        why
    }
}

//! What must always hold, looked at whenever something happens: by the ledger
//! of what runs where, and by every transaction of the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use strata_store::{Entry, Revision, Transaction, Write};

use crate::env::Env;
use crate::net::Place;

/// The address of a server, by which the store knows it.
pub(crate) fn address(server: usize) -> String {
    format!("https://s{}.sim:7700", server + 1)
}

/// What is known of what runs and of what is stored.
pub(crate) struct Checks {
    env: Arc<Env>,
    /// There is a leader among several servers.
    has_leader: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where each instance runs, and whether it must run once.
    runs: BTreeMap<String, Vec<(usize, bool)>>,
    /// The node and the epoch of each instance.
    placed: BTreeMap<String, (Option<String>, u64)>,
    /// The key of each instance by its name.
    names: BTreeMap<String, String>,
    /// The name of each node by its subnet.
    subnets: BTreeMap<String, String>,
}

impl Checks {
    pub(crate) fn new(env: &Arc<Env>, has_leader: bool) -> Arc<Self> {
        Arc::new(Self {
            env: env.clone(),
            has_leader,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instance runs on a host from now on.
    pub(crate) fn started(&self, instance: &str, host: usize, exclusive: bool) {
        let place = Place::Node(host);
        self.env.note(format_args!(
            "{place} runs {instance} exclusive={exclusive}"
        ));
        let mut state = self.state();
        let runs = state.runs.entry(instance.to_owned()).or_default();
        let twice = runs.iter().find(|(_, other)| exclusive && *other);
        let twice = twice.map(|(other, _)| *other);
        runs.push((host, exclusive));
        drop(state);
        if let Some(other) = twice {
            let other = Place::Node(other);
            self.env.violated(format!(
                "instance {instance} runs on {other} and on {place}"
            ));
        }
    }

    /// It does no more.
    pub(crate) fn ended(&self, instance: &str, host: usize) {
        let place = Place::Node(host);
        self.env.note(format_args!("{place} ends {instance}"));
        let mut state = self.state();
        if let Some(runs) = state.runs.get_mut(instance) {
            if let Some(at) = runs.iter().position(|(on, _)| *on == host) {
                runs.remove(at);
            }
            if runs.is_empty() {
                state.runs.remove(instance);
            }
        }
    }

    /// Where each instance runs.
    pub(crate) fn runs(&self) -> BTreeMap<String, Vec<usize>> {
        let hosts = |runs: &Vec<(usize, bool)>| runs.iter().map(|(host, _)| *host).collect();
        let state = self.state();
        let all = state.runs.iter();
        all.map(|(id, runs)| (id.clone(), hosts(runs))).collect()
    }

    /// A server wrote something.
    pub(crate) fn committed(
        &self,
        by: Place,
        revision: Revision,
        transaction: &Transaction,
        leader: Option<&Entry>,
    ) {
        let leads = match by {
            Place::Server(at) => leader.is_some_and(|entry| entry.value == address(at)),
            _ => false,
        };
        for write in &transaction.writes {
            let (key, value) = match write {
                Write::Put { key, value, .. } => (key, Some(value)),
                Write::Delete { key } => (key, None),
            };
            let read = value.and_then(|value| serde_json::from_slice::<Value>(value).ok());
            let bytes: &[u8] = value.map_or(&[], |value| &value[..]);
            let size = bytes.len();
            self.env.note(format_args!("{by} r{revision} {key} {size}"));
            if key.starts_with("instance/") {
                self.instance(by, leads, key, read.as_ref());
            } else if key.starts_with("node/") {
                self.node(key, read.as_ref());
            }
        }
    }

    fn instance(&self, by: Place, leads: bool, key: &str, record: Option<&Value>) {
        let Some(record) = record else {
            let mut state = self.state();
            state.placed.remove(key);
            state.names.retain(|_, of| of != key);
            return;
        };
        let node = record["node"].as_str().map(str::to_owned);
        let epoch = record["epoch"].as_u64().unwrap_or(0);
        let name = format!("{}/{}", record["project"], record["name"]);
        self.env.note(format_args!(
            "  {} {} {} {node:?} {epoch}",
            record["name"], record["wanted"], record["state"]
        ));
        let mut state = self.state();
        let before = state.placed.insert(key.to_owned(), (node.clone(), epoch));
        let (before, before_epoch) = before.unwrap_or_default();
        let other = state.names.insert(name.clone(), key.to_owned());
        drop(state);
        if let Some(other) = other.filter(|other| other != key) {
            self.env
                .violated(format!("{key} and {other} are both called {name}"));
        }
        if epoch < before_epoch {
            self.env.violated(format!(
                "{key} went back from epoch {before_epoch} to {epoch}"
            ));
        }
        if self.has_leader && node.is_some() && node != before && !leads {
            self.env
                .violated(format!("{by} placed {key} on {node:?} and does not lead"));
        }
    }

    fn node(&self, key: &str, record: Option<&Value>) {
        let mut state = self.state();
        state.subnets.retain(|_, of| of != key);
        let Some(subnet) = record.and_then(|record| record["subnet"].as_str()) else {
            return;
        };
        if subnet.is_empty() {
            return;
        }
        let other = state.subnets.insert(subnet.to_owned(), key.to_owned());
        drop(state);
        if let Some(other) = other {
            self.env
                .violated(format!("{key} and {other} both have {subnet}"));
        }
    }
}

//! The rules of the control plane over stored records.
//!
//! Whoever wants something writes a record and wakes nobody by hand: every
//! server watches the store, takes each change into its tables, and tells
//! those who wait for it: placement, the links to nodes, whoever watches an
//! instance. So a change is acted on the same way whether it was made here or
//! by another server.

mod accepted;
mod bounds;
mod caller;
mod certificates;
mod claims;
#[cfg(test)]
mod cluster_size_tests;
mod clusters;
mod commit;
mod defaults;
mod dirty;
mod event_repeats;
mod events;
mod follow;
mod freshness;
mod idempotency;
mod instances;
pub(crate) mod keys;
mod live;
mod lookup;
mod machines;
mod nesting;
mod node_keys;
mod node_labels;
mod node_report;
mod nodes;
mod pace;
mod projects;
mod published_nodes;
mod record;
#[cfg(test)]
mod record_kinds_tests;
mod reports;
mod roots;
mod schedules;
mod schema;
mod secrets;
mod subnets;
mod subscriptions;
mod tables;
mod take_over;
mod unreadable;
mod update;
mod workloads;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use strata_store::{Condition, Revision, Store};
use strata_types::Result;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use accepted::{AcceptedChange, ClusterChange, PoolChange};
pub use bounds::StoreBounds;
pub use caller::Who;
pub use certificates::{Certificate, RevocationRecord, Revoke};
pub use clusters::{Admission, Cluster, ClusterFailure, HeldDrain, Work};
pub use defaults::{DEFAULT_CPU, DEFAULT_DISK, DEFAULT_MEMORY, Defaulted, Defaults};
pub use events::{Event, Events, Next, Remembered};
pub use freshness::MOST_STALE;
pub use instances::{Filter, InstanceWatch, NewInstance, Page};
pub use live::{Live, NodeLive, UnknownInstance};
pub(crate) use machines::capabilities_of;
pub use machines::{HypervisorState, Machine};
pub(crate) use nesting::{Hosts, host_of};
pub use node_labels::{LabelGrant, LabelTrust};
pub use node_report::NodeReport;
pub use nodes::{NodeChange, Registration, Seen};
pub use projects::ProjectView;
pub use record::{
    DEFAULT_PROJECT, Instance, Leaving, MakesRoom, Node, NodeCondition, NodePhase,
    OverlayEncryption, Project, ProjectSettings, ProjectUse, Quota, Wanted, Workload,
};
pub use roots::Dependents;
pub use secrets::{LARGEST_SECRET, Secret};
pub use subnets::Range;
pub use subscriptions::Update;
pub use tables::{Changed, Kept, Turn};
pub use unreadable::Unreadable;
pub use update::{Change, Precondition};
pub use workloads::NewWorkload;

pub(crate) use dirty::Dirty;
use follow::Announce;
pub(crate) use follow::public;
pub(crate) use idempotency::{Claimed, Given, operation_key};
pub(crate) use node_keys::check_binding;
pub(crate) use node_labels::check as check_labels;
pub(crate) use record::{decode, encode, encode_over};
pub(crate) use reports::{Report, Told, evict};
pub(crate) use subscriptions::{Subscriptions, TakeOver, Touched};
pub(crate) use tables::Tables;
pub(crate) use update::{Why, turn_to_because};

/// What the configuration says about the control plane.
#[derive(Clone, Debug)]
pub struct CoreSettings {
    /// The addresses of all instances together.
    pub range: Range,
    /// Without a sign of life for so long, a node is lost.
    pub lease: Duration,
    /// Placement.
    pub placement: strata_scheduler::Settings,
    /// How much more than it has a node may promise.
    pub overcommit: strata_scheduler::Overcommit,
    /// No other server shares the store.
    pub alone: bool,
    /// How much callers may put into the store.
    pub bounds: StoreBounds,
}

/// The core. Cheap to clone.
#[derive(Clone)]
pub struct Core(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: CoreSettings,
    tables: RwLock<Tables>,
    applied: watch::Sender<Revision>,
    freshness: freshness::Freshness,
    /// Of the control plane whose records these are; none until it has one.
    identity: Mutex<Option<String>>,
    pub(crate) live: Live,
    pub(crate) events: Events,
    pub(crate) subscriptions: Subscriptions,
    admissions: projects::Admissions,
    /// As far as the range has grown.
    range: watch::Sender<Range>,
    /// Subnets that are about to be given to nodes.
    held_subnets: Mutex<HashSet<String>>,
    /// The key of the node in this process, if there is one.
    local_node_key: OnceLock<String>,
    answers: idempotency::Answers,
    /// Holds while this server leads; part of what reconcilers commit.
    pub(crate) lead: watch::Sender<Lead>,
    /// Until when the lead lasts without being renewed; none for ever.
    lead_until: Mutex<Option<Instant>>,
}

/// Whether this server leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// It does, as long as this holds; always when none.
    Leading(Option<Condition>),
    /// Another does, reached there, as far as is known.
    Following(Option<String>),
}

impl Core {
    /// Reads all records and follows what happens to them until `shutdown`.
    pub async fn open(
        store: Arc<dyn Store>,
        settings: CoreSettings,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        schema::check_schema(store.as_ref()).await?;
        let range = watch::Sender::new(settings.range);
        let core = Self(Arc::new(Inner {
            store,
            settings,
            tables: RwLock::default(),
            applied: watch::Sender::new(0),
            freshness: freshness::Freshness::default(),
            identity: Mutex::new(None),
            live: Live::default(),
            events: Events::from_now(),
            subscriptions: Subscriptions::default(),
            admissions: projects::Admissions::default(),
            range,
            held_subnets: Mutex::default(),
            local_node_key: OnceLock::new(),
            answers: idempotency::Answers::default(),
            lead: watch::Sender::new(Lead::Following(None)),
            lead_until: Mutex::new(None),
        }));
        let from = core.load(Announce::No).await?;
        core.events().note_start();
        if !core.settings().alone {
            tokio::spawn(core.clone().stay_fresh(shutdown.clone()));
        }
        tokio::spawn(core.clone().follow(from, shutdown));
        core.ensure_default_project().await?;
        Ok(core)
    }

    pub(crate) fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0.store)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.0.store.as_ref()
    }

    pub(crate) fn tables(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of all instances together, as far as they are in use.
    pub(crate) fn range(&self) -> Range {
        *self.0.range.borrow()
    }

    /// Follows how that grows.
    pub(crate) fn watch_range(&self) -> watch::Receiver<Range> {
        self.0.range.subscribe()
    }

    /// What the configuration says.
    pub fn settings(&self) -> &CoreSettings {
        &self.0.settings
    }

    /// What is measured.
    pub fn live(&self) -> &Live {
        &self.0.live
    }

    /// What happened.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.0.subscriptions
    }

    /// Whether this server leads.
    pub fn lead(&self) -> Lead {
        self.0.lead.borrow().clone()
    }

    /// Follows whether this server leads.
    pub fn watch_lead(&self) -> watch::Receiver<Lead> {
        self.0.lead.subscribe()
    }

    /// Says until when the lead lasts unless it is renewed.
    pub fn renew_lead(&self, until: Instant) {
        let lasts = self.0.lead_until.lock();
        *lasts.unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Whether this server leads for certain: what it holds has not run out
    /// since it was last renewed, also when nobody got to say so.
    pub fn leads_now(&self) -> bool {
        let until = *self
            .0
            .lead_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        matches!(&*self.0.lead.borrow(), Lead::Leading(_))
            && until.is_none_or(|until| Instant::now() < until)
    }

    /// Grows with each change of the leader; 0 where there is one server only.
    pub(crate) fn term(&self) -> u64 {
        match &*self.0.lead.borrow() {
            Lead::Leading(Some(Condition::Unchanged(_, revision))) => *revision,
            _ => 0,
        }
    }

    /// Where all servers are reached that share the store; none where this is
    /// the only one.
    pub(crate) async fn servers(&self) -> Vec<String> {
        if self.0.settings.alone {
            return Vec::new();
        }
        match self.0.store.list(keys::SERVERS).await {
            Ok(listing) => {
                let address = |key: &str| Some(key.strip_prefix(keys::SERVERS)?.to_owned());
                let entries = listing.entries.iter();
                entries.filter_map(|entry| address(&entry.key)).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "the servers cannot be listed");
                Vec::new()
            }
        }
    }

    /// Says whether this server leads.
    pub fn set_lead(&self, lead: Lead) {
        self.0.lead.send_if_modified(|now| {
            let changed = *now != lead;
            *now = lead;
            changed
        });
    }
}

/// Unix milliseconds now.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

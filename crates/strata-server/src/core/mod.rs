//! The rules of the control plane over stored records.
//!
//! A command writes a record and wakes no task by hand: every server watches
//! the store, takes each change into its tables, and notifies those who wait
//! for it: placement, the links to nodes, watchers of an instance. So a change
//! is acted on the same way whether it was made here or by another server.

mod accepted;
mod audit_anchor;
mod boot_instant;
mod bounds;
mod caller;
mod certificates;
mod claims;
#[cfg(test)]
mod cluster_size_tests;
mod clusters;
mod commit;
mod defaults;
mod departed;
mod dirty;
mod event_log;
mod event_repeats;
mod events;
mod failover;
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
mod placement_rules;
mod projects;
mod published_nodes;
mod record;
#[cfg(test)]
mod record_kinds_tests;
mod reports;
mod resource;
mod returning;
mod ring;
mod roots;
mod schedules;
mod schema;
mod secrets;
mod served_at;
mod store_watch;
mod stored_bytes;
mod subnets;
mod subscriptions;
mod tables;
mod take_over;
mod unreadable;
mod update;
mod volume_names;
mod workloads;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use strata_store::{Condition, Revision, Store};
use strata_tasks::TaskGroup;
use strata_types::Result;
use tokio::sync::watch;
use tokio::time::Instant;

pub use accepted::{AcceptedChange, ClusterChange, PoolChange};
pub use boot_instant::BootInstant;
pub use bounds::StoreBounds;
pub use caller::Principal;
pub use certificates::{Certificate, Certificates, RevocationRecord, Revoke};
pub use clusters::{AccessGrant, Cluster, ClusterFailure, HeldDrain, Work};
pub use defaults::{DEFAULT_CPU, DEFAULT_DISK, DEFAULT_MEMORY, Defaulted};
pub use events::{Event, Events, LoggedEvent, Next};
pub use freshness::MAX_STALENESS;
pub use instances::{Filter, InstanceWatch, NewInstance, Page};
pub use live::{Live, NodeLive, UnknownInstance};
pub(crate) use machines::capabilities_of;
pub use machines::{HypervisorState, Machine};
pub(crate) use nesting::{Hosts, host_of};
pub use node_labels::{LabelGrant, LabelTrust};
pub use node_report::NodeReport;
pub use nodes::{NodeChange, NodeFacts, Registration};
pub use projects::{ProjectView, Projects};
pub use record::{
    AwaitedEviction, DEFAULT_PROJECT, Instance, Node, NodeCondition, NodePhase, OverlayEncryption,
    PendingRelease, Project, ProjectSettings, Workload,
};
pub use roots::Dependents;
pub use schedules::Schedules;
pub use secrets::{MAX_SECRET_BYTES, Secret, Secrets};
pub use strata_types::instance::DesiredState;
pub use strata_types::project::{ProjectUse, Quota};
pub use subnets::Range;
pub use subscriptions::Update;
pub use tables::{RecordChange, TableChange, Versioned};
pub use unreadable::Unreadable;
pub use update::{InstanceUpdate, Precondition};
pub use workloads::{NewWorkload, Workloads};

pub(crate) use dirty::Dirty;
pub(crate) use failover::Moved;
pub(crate) use idempotency::{
    ChangedRecord, ClaimOutcome, Effect, StoredResponse, expect_effect, operation_key,
};
pub(crate) use node_keys::check_binding;
pub(crate) use node_labels::check as check_labels;
pub(crate) use placement_rules::placement_rules;
pub(crate) use record::{decode, encode, encode_over};
pub(crate) use reports::{NodeLoss, Refusal, Report, ReportedState, evict};
pub(crate) use resource::Resource;
use store_watch::Publish;
pub(crate) use store_watch::public;
pub(crate) use subscriptions::{Subscriptions, TakeOver, Touched};
pub(crate) use tables::Tables;
pub(crate) use update::{StateReason, set_state_because};
#[cfg(test)]
pub(crate) use volume_names::own_volume;

/// What the configuration says about the control plane.
#[derive(Clone, Debug)]
pub struct CoreSettings {
    /// The addresses of all instances together.
    pub range: Range,
    /// Without a sign of life for so long, a node is lost.
    pub lease: Duration,
    pub placement: strata_scheduler::Settings,
    /// How much more than it has a node may promise.
    pub overcommit: strata_scheduler::Overcommit,
    /// No other server shares the store.
    pub alone: bool,
    /// How much callers may put into the store.
    pub bounds: StoreBounds,
    /// Where the latest events are kept over a restart; none for memory alone.
    pub events_file: Option<PathBuf>,
    /// The port that this server listens on; none where there is none yet.
    pub server_port: Option<u16>,
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
    quota_reservations: projects::QuotaReservations,
    /// As far as the range has grown.
    range: watch::Sender<Range>,
    /// Subnets that are about to be given to nodes.
    held_subnets: Mutex<HashSet<String>>,
    /// The key of the node in this process, if there is one.
    local_node_key: OnceLock<String>,
    answers: idempotency::ResponseBudget,
    /// Holds while this server leads; part of what reconcilers commit.
    pub(crate) lead: watch::Sender<Lead>,
    /// When the last renewal of the lead was requested, and for how long it
    /// lasts from then; none without end.
    lead_until: Mutex<Option<(BootInstant, Duration)>>,
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
    /// Reads all records and follows what happens to them until the group is
    /// stopped.
    pub async fn open(
        store: Arc<dyn Store>,
        settings: CoreSettings,
        tasks: impl Into<TaskGroup>,
    ) -> Result<Self> {
        schema::check_schema(store.as_ref()).await?;
        let tasks = tasks.into();
        let range = watch::Sender::new(settings.range);
        let events_file = settings.events_file.clone();
        let core = Self(Arc::new(Inner {
            store,
            settings,
            tables: RwLock::default(),
            applied: watch::Sender::new(0),
            freshness: freshness::Freshness::default(),
            identity: Mutex::new(None),
            live: Live::default(),
            events: event_log::open(events_file.as_deref()),
            subscriptions: Subscriptions::default(),
            quota_reservations: projects::QuotaReservations::default(),
            range,
            held_subnets: Mutex::default(),
            local_node_key: OnceLock::new(),
            answers: idempotency::ResponseBudget::default(),
            lead: watch::Sender::new(Lead::Following(None)),
            lead_until: Mutex::new(None),
        }));
        let from = core.load(Publish::No).await?;
        core.events().record_start();
        if !core.settings().alone {
            let core = core.clone();
            tasks.restart("table-freshness", move || core.clone().stay_fresh());
        }
        if let Some(path) = events_file {
            let (core, shutdown) = (core.clone(), tasks.shutdown().clone());
            tasks.restart_until_done("event-log", move || {
                let log = event_log::EventLog::new(path.clone());
                core.clone().keep_events(log, shutdown.clone())
            });
        }
        let (following, mut from) = (core.clone(), Some(from));
        // A change that made it panic may be half in the tables: they are read
        // again.
        tasks.restart("store-follower", move || {
            following.clone().follow_store(from.take())
        });
        core.projects().ensure_default().await?;
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

    pub fn live(&self) -> &Live {
        &self.0.live
    }

    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Whether there was an instance with this id or name, as far as the events
    /// of this server go back.
    pub(crate) fn had_instance(&self, principal: &Principal, id: &str) -> bool {
        let events = self.events();
        events.knew_instance(id, |project| principal.sees(project))
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

    /// Sets until when the lead lasts unless it is renewed.
    pub fn renew_lead(&self, until: Instant) {
        let lasts = until.saturating_duration_since(Instant::now());
        self.renew_lead_from(BootInstant::now(), lasts);
    }

    /// Sets for how long the lead lasts from when its renewal was requested,
    /// unless it is renewed again.
    pub(crate) fn renew_lead_from(&self, requested: BootInstant, lasts: Duration) {
        let until = self.0.lead_until.lock();
        *until.unwrap_or_else(PoisonError::into_inner) = Some((requested, lasts));
    }

    /// Whether this server leads for certain: its lease has not run out since
    /// it was last renewed, also when the end was not noticed yet. After a pause
    /// that was longer, of this process or of its host, it does not before the
    /// store has confirmed the next renewal.
    pub fn leads_now(&self) -> bool {
        let until = *self
            .0
            .lead_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        matches!(&*self.0.lead.borrow(), Lead::Leading(_))
            && until.is_none_or(|(requested, lasts)| requested.elapsed() < lasts)
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
                tracing::warn!(%error, "servers of the control plane cannot be listed");
                Vec::new()
            }
        }
    }

    /// Sets whether this server leads.
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

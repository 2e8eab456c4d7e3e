//! The rules of the control plane over stored records.
//!
//! Whoever wants something writes a record and wakes nobody by hand: every
//! server watches the store, takes each change into its tables, and tells
//! those who wait for it: placement, the links to nodes, whoever watches an
//! instance. So a change is acted on the same way whether it was made here or
//! by another server.

mod caller;
mod clusters;
mod commit;
mod dirty;
mod events;
mod follow;
mod idempotency;
mod instances;
pub(crate) mod keys;
mod live;
mod machines;
mod nodes;
mod projects;
mod record;
mod reports;
mod schedules;
mod subnets;
mod subscriptions;
mod tables;
mod update;
mod workloads;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use strata_store::{Condition, Revision, Store};
use strata_types::Result;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use caller::Who;
pub use clusters::{Admission, Cluster, ClusterFailure, Work};
pub use events::{Event, Events};
pub use instances::{Filter, InstanceWatch, NewInstance, Page};
pub use live::{Live, NodeLive};
pub(crate) use machines::capabilities_of;
pub use machines::{HypervisorState, Machine};
pub use nodes::{NodeChange, Registration, Seen};
pub use projects::ProjectView;
pub use record::{
    DEFAULT_PROJECT, Instance, Node, NodeCondition, Project, ProjectUse, Quota, Wanted, Workload,
};
pub use subnets::Range;
pub use subscriptions::Update;
pub use tables::{Changed, Kept, Turn};
pub use update::{Change, Precondition};
pub use workloads::NewWorkload;

pub(crate) use dirty::Dirty;
pub(crate) use follow::public;
pub(crate) use idempotency::{Claimed, Given};
pub(crate) use record::encode;
pub(crate) use reports::{Report, Told, uproot};
pub(crate) use subscriptions::{Subscriptions, Touched};
use tables::Tables;
pub(crate) use update::turn_to;

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
}

/// The core. Cheap to clone.
#[derive(Clone)]
pub struct Core(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: CoreSettings,
    tables: RwLock<Tables>,
    applied: watch::Sender<Revision>,
    pub(crate) live: Live,
    pub(crate) events: Events,
    pub(crate) subscriptions: Subscriptions,
    admissions: projects::Admissions,
    /// Subnets that are about to be given to nodes.
    held_subnets: Mutex<HashSet<String>>,
    answers: idempotency::Answers,
    /// Holds while this server leads; part of what reconcilers commit.
    pub(crate) lead: watch::Sender<Lead>,
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
        follow::check_schema(store.as_ref()).await?;
        let core = Self(Arc::new(Inner {
            store,
            settings,
            tables: RwLock::default(),
            applied: watch::Sender::new(0),
            live: Live::default(),
            events: Events::default(),
            subscriptions: Subscriptions::default(),
            admissions: projects::Admissions::default(),
            held_subnets: Mutex::default(),
            answers: idempotency::Answers::default(),
            lead: watch::Sender::new(Lead::Following(None)),
        }));
        let from = core.load().await?;
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

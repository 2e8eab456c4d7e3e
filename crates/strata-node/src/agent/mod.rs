//! The node's agent: follows what a server assigns to this node, does it, and
//! reports the result.
//!
//! ```text
//! connect.rs   one server after the other ─▶ follow.rs   one conversation
//!    what is to be:  Assignment ─▶ instances.rs ─▶ plan.rs (pure) ─▶ work.rs ─▶ units
//!    what is:        events of units ─▶ outbox.rs ─▶ report.rs ─▶ Report
//!    without a word: lease.rs (pure) ─▶ everything that may run elsewhere is stopped,
//!                    by the daemon, or by the shim, which holds the lease
//!    the way back:   tunnel.rs, the node's own faces for the server
//! ```
//!
//! What was assigned is on disk (`state.rs`); which unit is which instance's is
//! in the unit's own record (`ask.rs`). The node does nothing on its own that a
//! server has not requested, but for the end of its lease.

mod assigned_spec;
mod boot;
mod connect;
mod follow;
mod hello;
mod host;
mod instances;
mod lease;
mod liveness;
mod measure;
mod node_host;
mod outbox;
mod ownership;
mod peers;
mod plan;
mod report;
mod restore;
mod revoked;
mod runtime;
mod state;
mod trust;
mod tunnel;
mod uplink;
mod witness;
mod witness_message;
mod work;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use strata_cell::Lease;
use strata_client::Address;
use strata_identity::{LiveIdentity, LiveTrust};
use strata_tasks::TaskGroup;
use strata_transport::AuthLayer;
use strata_types::{Error, Label, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Node;
use crate::blocking::blocking;
pub use assigned_spec::{AssignedSpec, GENERATION, INSTANCE, SecretValues, UnitName, UnitType};
use boot::KernelClock;
pub use boot::{BootClock, SharedClock};
pub use host::{Host, HostNetwork, Meter, UnitHost, UnitStatus};
use instances::Instances;
use liveness::Liveness;
use node_host::NodeHost;
pub(crate) use restore::{RecoveredUnit, restore};
pub use revoked::StoredRevocations;
use runtime::UnitRuntime;
use state::AssignmentStore;
pub use state::StateFiles;
pub use trust::StoredTrust;
use uplink::GrpcUplink;
pub use uplink::{ServerConnection, ServerMessages, Uplink};
use witness::Witness;

/// More servers than that are not remembered.
const MAX_SERVERS: usize = 16;
/// Where what was assigned is kept, below the node's directory.
pub(crate) const DIR: &str = "assignments";

/// What an agent needs to know.
#[derive(Clone)]
pub struct AgentConfig {
    /// Where what the server revokes is kept; none beside the server itself,
    /// whose list the gate has.
    pub revocations: Option<StoredRevocations>,
    /// The servers, at least one; they are tried in this order.
    pub servers: Vec<Address>,
    /// The roots one of which must have signed a server's certificate.
    pub trust: Arc<LiveTrust>,
    /// Where the roots that the server names are kept; none beside the server
    /// itself.
    pub stored_trust: Option<StoredTrust>,
    /// The node's certificate, renewed meanwhile.
    pub identity: Arc<LiveIdentity>,
    /// What the configuration says of this node, for placement.
    pub labels: BTreeMap<String, String>,
    /// Where other nodes send what is for its instances; the address the
    /// server sees when none.
    pub address: Option<Ipv4Addr>,
    /// The node's own faces, which the server calls through the tunnel.
    pub app: axum::Router,
    /// Decides about those calls.
    pub gate: AuthLayer,
    /// How long what no server knows rests before it is destroyed.
    pub orphan_grace: Duration,
    /// Where the connection to the server is handled: a runtime that serves
    /// nothing else, so that heartbeats are sent and answers received in time
    /// whatever load this daemon has.
    pub runtime: Handle,
}

/// What an agent runs on. The simulation has its own of each.
pub struct AgentParts {
    pub servers: Vec<Address>,
    pub revocations: Option<StoredRevocations>,
    pub stored_trust: Option<StoredTrust>,
    /// A server runs in this process.
    pub beside_server: bool,
    pub orphan_grace: Duration,
    /// Where the connection to the server is handled.
    pub runtime: Handle,
    /// Where the agent keeps what was assigned.
    pub files: Arc<dyn StateFiles>,
    pub clock: SharedClock,
    pub host: Arc<dyn Host>,
    pub units: Arc<dyn UnitHost>,
    pub uplink: Arc<dyn Uplink>,
    /// Whether it is a witness for others.
    pub witnesses: bool,
}

/// What the tasks of an agent share.
struct AgentContext {
    host: Arc<dyn Host>,
    uplink: Arc<dyn Uplink>,
    servers: Vec<Address>,
    revocations: Option<StoredRevocations>,
    stored_trust: Option<StoredTrust>,
    instances: Instances,
    liveness: Liveness,
    /// What may run elsewhere is being stopped.
    fenced: Notify,
    /// How often that was so.
    fences: AtomicU64,
    /// The server waits for word that the lease is held.
    lease_asked: AtomicBool,
    /// Of the peers that were last named.
    peers_version: AtomicU64,
    /// This node as a witness for others.
    witness: Witness,
    closing: CancellationToken,
}

/// The agent of a node.
#[derive(Debug)]
pub struct Agent;

impl Agent {
    /// Starts to follow, until the group is stopped. What runs goes on when it
    /// ends.
    pub fn start(node: &Node, config: AgentConfig, tasks: &TaskGroup) -> Result<()> {
        let host = NodeHost {
            node: node.clone(),
            labels: config.labels,
            address: config.address,
        };
        let uplink = GrpcUplink {
            trust: config.trust,
            identity: config.identity,
            images: node.images.clone(),
            app: config.app,
            gate: config.gate,
        };
        let parts = AgentParts {
            servers: config.servers,
            beside_server: config.revocations.is_none(),
            revocations: config.revocations,
            stored_trust: config.stored_trust,
            orphan_grace: config.orphan_grace,
            runtime: config.runtime,
            files: store(&node.config.data_dir.join("node"))?.files,
            clock: Arc::new(KernelClock),
            host: Arc::new(host),
            units: Arc::new(UnitRuntime::of(node)),
            uplink: Arc::new(uplink),
            witnesses: true,
        };
        Self::start_on(parts, tasks)
    }

    /// The same on any host and any way to servers.
    pub fn start_on(parts: AgentParts, tasks: &TaskGroup) -> Result<()> {
        if parts.servers.is_empty() {
            return Err(Error::invalid("servers", "is empty"));
        }
        let store = AssignmentStore::over(parts.files);
        let (runtime, clock) = (parts.runtime, parts.clock);
        let found = parts.host.adopt_lease();
        let witness = Witness::open(store.clone(), clock.clone(), parts.witnesses);
        let context = Arc::new(AgentContext {
            instances: Instances::open(parts.units, store.clone(), parts.orphan_grace, tasks),
            liveness: Liveness::open(store, clock, found, parts.beside_server),
            fenced: Notify::new(),
            fences: AtomicU64::default(),
            lease_asked: AtomicBool::default(),
            peers_version: AtomicU64::default(),
            witness,
            host: parts.host,
            uplink: parts.uplink,
            servers: parts.servers,
            revocations: parts.revocations,
            stored_trust: parts.stored_trust,
            closing: tasks.shutdown().clone(),
        });
        let talking = context.clone();
        // While it waits for its restart, the shim holds the lease.
        tasks.on(runtime).restart_until_done("agent-link", move || {
            let talking = talking.clone();
            async move { talking.talk().await }
        });
        let mut first = true;
        tasks.restart("agent-unit-events", move || {
            let (context, missed) = (context.clone(), !std::mem::take(&mut first));
            async move { context.listen(missed).await }
        });
        Ok(())
    }
}

impl AgentContext {
    /// The servers of the configuration, then those that a server named.
    fn known_servers(&self) -> Vec<Address> {
        let mut known = self.servers.clone();
        let (named, _) = self.liveness.servers();
        for server in named.iter().filter_map(|text| text.parse().ok()) {
            if !known.contains(&server) && known.len() < MAX_SERVERS {
                known.push(server);
            }
        }
        known
    }

    /// Connects to servers, and counts how long none answered.
    async fn talk(&self) {
        let is_free = || !self.liveness.hears_server() && !self.instances.has_new();
        let witness = async {
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = self.witness.serve(is_free, || self.liveness.lease()) => {}
            }
        };
        tokio::join!(
            connect::run(self),
            self.fence(),
            self.be_witnessed(),
            witness
        );
    }

    /// Receives events of units; what was missed is reported again.
    async fn listen(&self, missed: bool) {
        if missed {
            self.instances.report_all();
        }
        let listen = |kind| self.instances.clone().listen(kind);
        tokio::join!(listen(UnitType::Pod), listen(UnitType::Vm));
    }

    /// Stops what may run elsewhere, when no server answered for too long.
    async fn fence(&self) {
        let mut stopped = false;
        let mut held = None;
        loop {
            let peers = self.host.network().has_peers();
            self.hold_lease(peers, &mut held).await;
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = self.liveness.look_again() => {}
            }
            let mut newly = false;
            let due = self.liveness.stop_if_due(peers, |lease| {
                newly = self.instances.fence(lease::grace(lease));
            });
            // Also while it lasts: a server that took longer than the lease to
            // welcome this node has assigned what is fenced now, and would not
            // assign it again.
            if due && (newly || !stopped) {
                tracing::error!(
                    "lease expired without a heartbeat: instances that may be rescheduled are stopped"
                );
                // Not for each look: a connection that begins while this lasts
                // goes on.
                self.fences.fetch_add(1, Ordering::Relaxed);
                self.fenced.notify_waiters();
            }
            stopped = due;
        }
    }
}

impl AgentContext {
    /// Has the shim hold the lease as it is now, and confirms it to a server
    /// that waits for it: from then on that server may start elsewhere what
    /// runs here, once the lease has ended.
    async fn hold_lease(&self, peers: bool, held: &mut Option<Lease>) {
        // Before the version: peers that come between the two are answered
        // here, and those that come later query again.
        let asked = self.lease_asked.swap(false, Ordering::AcqRel);
        // First: whatever is read after it is as new as these peers, or newer,
        // and reports about older ones do not count.
        let version = self.peers_version.load(Ordering::Acquire);
        let lease = self.liveness.deadline(peers);
        if *held != Some(lease) {
            *held = match self.host.set_lease(lease).await {
                Ok(()) => Some(lease),
                Err(error) => {
                    tracing::error!(%error, "lease not set in the shim");
                    None
                }
            };
        }
        let has_end = matches!(held, Some(Lease::Until(_)));
        if asked && has_end && self.liveness.is_written() {
            tracing::debug!("lease renewed in the shim");
            self.instances.0.outbox.lease_held(version);
        } else if asked {
            self.lease_asked.store(true, Ordering::Release);
        }
    }
}

/// The servers that were named by the one that was last followed, for a node
/// with this data directory.
pub fn named_servers(data_dir: &Path) -> Vec<Address> {
    let Ok(store) = store(&data_dir.join("node")) else {
        return Vec::new();
    };
    let named = blocking(|| store.server()).servers;
    named.iter().filter_map(|text| text.parse().ok()).collect()
}

fn store(node_dir: &Path) -> Result<AssignmentStore> {
    blocking(|| AssignmentStore::open(node_dir.join(DIR)))
}

/// The units of what was assigned before the daemon started.
pub(crate) struct RecoveredUnits {
    /// Those that must not be started until a server requests it: while the
    /// machine was down they may have been started elsewhere.
    pub(crate) held: Vec<Label>,
    /// Those that the lease holds for.
    pub(crate) fenced: Vec<UnitName>,
}

pub(crate) fn found(node_dir: &Path, has_peers: bool) -> Result<RecoveredUnits> {
    let store = store(node_dir)?;
    let waived = store
        .server()
        .is_waived_in(&KernelClock.boot_id(), has_peers);
    let assigned = blocking(|| store.assigned());
    let exclusive = assigned.iter().filter(|one| !one.available);
    let fenced: Vec<UnitName> = exclusive.map(|one| one.unit_spec.unit()).collect();
    let held = match waived {
        true => Vec::new(),
        false => fenced.iter().map(|unit| unit.name.clone()).collect(),
    };
    Ok(RecoveredUnits { held, fenced })
}

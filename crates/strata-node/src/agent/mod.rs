//! The node's agent: follows what a server assigns to this node, does it, and
//! tells how it goes.
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
//! server has not said, but for the end of its lease.

mod ask;
mod connect;
mod follow;
mod hello;
mod hosting;
mod instances;
mod lease;
mod liveness;
mod measure;
mod outbox;
mod ownership;
mod peers;
mod plan;
mod report;
mod restore;
mod revoked;
mod state;
mod trust;
mod tunnel;
mod witness;
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
use strata_transport::Gate;
use strata_types::{Error, Label, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Node;
use crate::blocking::blocking;
pub(crate) use ask::{Ask, Kind, UnitName};
use hosting::Hosting;
use instances::Instances;
use liveness::Liveness;
pub(crate) use restore::{FoundUnit, restore};
pub use revoked::KeptRevocations;
use state::Kept;
pub use trust::KeptTrust;
use witness::Witness;

/// Where what was assigned is kept, below the node's folder.
pub(crate) const FOLDER: &str = "assignments";

/// What an agent needs to know.
#[derive(Clone)]
pub struct AgentConfig {
    /// Where what the server revokes is kept; none beside the server itself,
    /// whose list the gate has.
    pub revocations: Option<KeptRevocations>,
    /// The servers, at least one; they are tried in this order.
    pub servers: Vec<Address>,
    /// The roots one of which must have signed a server's certificate.
    pub trust: Arc<LiveTrust>,
    /// Where the roots that the server names are kept; none beside the server
    /// itself.
    pub kept_trust: Option<KeptTrust>,
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
    pub gate: Gate,
    /// How long what no server knows rests before it is destroyed.
    pub orphan_grace: Duration,
    /// Where the conversation with the server takes place: a runtime that
    /// serves nobody else, so that heartbeats are sent and heard in time
    /// whatever this daemon is asked for.
    pub runtime: Handle,
}

/// What the tasks of an agent share.
struct Parts {
    node: Node,
    config: Arc<AgentConfig>,
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
    /// Where everything takes place that the server asks for.
    work: Handle,
    closing: CancellationToken,
}

/// A running agent. Dropping it changes nothing.
#[derive(Debug)]
pub struct Agent {
    tasks: [JoinHandle<()>; 2],
}

impl Agent {
    /// Starts to follow, until `shutdown`. What runs goes on when it ends.
    pub fn start(node: &Node, config: AgentConfig, shutdown: CancellationToken) -> Result<Self> {
        if config.servers.is_empty() {
            return Err(Error::invalid("servers", "is empty"));
        }
        let kept = kept(&node.config.data_dir.join("node"))?;
        let hosting = Hosting {
            pods: node.pods.clone(),
            vms: node.vms.clone(),
        };
        let runtime = config.runtime.clone();
        let beside_server = config.revocations.is_none();
        let found = blocking(|| node.keeper.adopt_lease());
        let witness = Witness::open(kept.clone());
        let parts = Arc::new(Parts {
            instances: Instances::open(
                hosting,
                kept.clone(),
                config.orphan_grace,
                shutdown.clone(),
            ),
            liveness: Liveness::open(kept, found, beside_server),
            fenced: Notify::new(),
            fences: AtomicU64::default(),
            lease_asked: AtomicBool::default(),
            peers_version: AtomicU64::default(),
            witness,
            node: node.clone(),
            config: Arc::new(config),
            work: Handle::current(),
            closing: shutdown,
        });
        let talking = parts.clone();
        Ok(Self {
            tasks: [
                runtime.spawn(async move { talking.talk().await }),
                tokio::spawn(async move { parts.listen().await }),
            ],
        })
    }

    /// Waits until it has ended.
    pub async fn ended(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "the agent ended by a bug");
            }
        }
    }
}

impl Parts {
    /// Speaks with servers, and counts how long none was heard.
    async fn talk(&self) {
        let is_free = || !self.liveness.hears_server() && !self.instances.has_new();
        let witness = async {
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = self.witness.serve(is_free) => {}
            }
        };
        tokio::join!(
            connect::run(self),
            self.fence(),
            self.be_witnessed(),
            witness
        );
    }

    /// Hears of what happens to units.
    async fn listen(&self) {
        let listen = |kind| self.instances.clone().listen(kind);
        tokio::join!(listen(Kind::Pod), listen(Kind::Vm));
    }

    /// Stops what may run elsewhere, when no server was heard of for too long.
    async fn fence(&self) {
        let mut stopped = false;
        let mut held = None;
        loop {
            let peers = self.node.network.has_peers();
            self.hold_lease(peers, &mut held).await;
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = self.liveness.look_again() => {}
            }
            let due = self.liveness.stop_if_due(peers, |lease| {
                self.instances.fence(lease::grace(lease));
            });
            if due && !stopped {
                tracing::error!("no server was heard of; what may run elsewhere is stopped");
                // Once: a conversation that begins while this lasts goes on.
                self.fences.fetch_add(1, Ordering::Relaxed);
                self.fenced.notify_waiters();
            }
            stopped = due;
        }
    }
}

impl Parts {
    /// Has the shim hold the lease as it is now, and says so to a server that
    /// waits for it: from then on that may start elsewhere what runs here, once
    /// the lease has ended.
    async fn hold_lease(&self, peers: bool, held: &mut Option<Lease>) {
        // Before the version: peers that come between the two are answered here,
        // and those that come later ask again.
        let asked = self.lease_asked.swap(false, Ordering::AcqRel);
        // First: whatever is read after it is as new as these peers, or newer,
        // and what is said of older ones does not count.
        let version = self.peers_version.load(Ordering::Acquire);
        let lease = self.liveness.deadline(peers);
        if *held != Some(lease) {
            let keeper = self.node.keeper.clone();
            let set = tokio::task::spawn_blocking(move || keeper.set_lease(lease)).await;
            *held = match set {
                Ok(Ok(())) => Some(lease),
                Ok(Err(error)) => {
                    tracing::error!(%error, "the shim does not hold the lease");
                    None
                }
                Err(error) => {
                    tracing::error!(%error, "the lease was not set by a bug");
                    None
                }
            };
        }
        let has_end = matches!(held, Some(Lease::Until(_)));
        if asked && has_end && self.liveness.is_written() {
            tracing::debug!("the lease is held");
            self.instances.0.outbox.lease_held(version);
        } else if asked {
            self.lease_asked.store(true, Ordering::Release);
        }
    }
}

/// The servers that were named by the one that was last followed, for a node
/// with this data directory.
pub fn named_servers(data_dir: &Path) -> Vec<Address> {
    let Ok(kept) = kept(&data_dir.join("node")) else {
        return Vec::new();
    };
    let named = blocking(|| kept.server()).servers;
    named.iter().filter_map(|text| text.parse().ok()).collect()
}

fn kept(node_folder: &Path) -> Result<Kept> {
    blocking(|| Kept::open(node_folder.join(FOLDER)))
}

/// The units of what was assigned before the daemon started.
pub(crate) struct Found {
    /// Those that must not be started until a server says so: while the machine
    /// was down they may have been started elsewhere.
    pub(crate) held: Vec<Label>,
    /// Those that the lease holds for.
    pub(crate) fenced: Vec<UnitName>,
}

/// Finds them.
pub(crate) fn found(node_folder: &Path, has_peers: bool) -> Result<Found> {
    let kept = kept(node_folder)?;
    let waived = kept.server().is_waived(has_peers);
    let assigned = blocking(|| kept.assigned());
    let exclusive = assigned.iter().filter(|one| !one.available);
    let fenced: Vec<UnitName> = exclusive.map(|one| one.ask.unit()).collect();
    let held = match waived {
        true => Vec::new(),
        false => fenced.iter().map(|unit| unit.name.clone()).collect(),
    };
    Ok(Found { held, fenced })
}

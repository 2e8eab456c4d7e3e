//! The node's agent: follows what a server assigns to this node, does it, and
//! tells how it goes.
//!
//! ```text
//! connect.rs   one server after the other ─▶ follow.rs   one conversation
//!    what is to be:  Assignment ─▶ instances.rs ─▶ plan.rs (pure) ─▶ work.rs ─▶ units
//!    what is:        events of units ─▶ outbox.rs ─▶ report.rs ─▶ Report
//!    without a word: lease.rs (pure) ─▶ everything that may run elsewhere is stopped
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
mod plan;
mod report;
mod state;
mod tunnel;
mod work;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use strata_client::Address;
use strata_identity::LiveIdentity;
use strata_transport::Gate;
use strata_types::{Error, Label, Result};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Node;
use crate::blocking::blocking;
use ask::Kind;
use hosting::Hosting;
use instances::Instances;
use liveness::Liveness;
use state::Kept;

/// Where what was assigned is kept, below the node's folder.
pub(crate) const FOLDER: &str = "assignments";

/// What an agent needs to know.
#[derive(Clone)]
pub struct AgentConfig {
    /// The servers, at least one; they are tried in this order.
    pub servers: Vec<Address>,
    /// The CA that must have signed a server's certificate.
    pub ca_pem: String,
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
}

/// What the tasks of an agent share.
struct Parts {
    node: Node,
    config: Arc<AgentConfig>,
    instances: Instances,
    liveness: Liveness,
    /// What may run elsewhere is being stopped.
    fenced: Notify,
    closing: CancellationToken,
}

/// A running agent. Dropping it changes nothing.
#[derive(Debug)]
pub struct Agent {
    task: JoinHandle<()>,
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
        let parts = Parts {
            instances: Instances::open(hosting, kept.clone(), shutdown.clone()),
            liveness: Liveness::open(kept),
            fenced: Notify::new(),
            node: node.clone(),
            config: Arc::new(config),
            closing: shutdown,
        };
        Ok(Self {
            task: tokio::spawn(parts.run()),
        })
    }

    /// Waits until it has ended.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the agent ended by a bug");
        }
    }
}

impl Parts {
    async fn run(self) {
        let listen = |kind| self.instances.clone().listen(kind);
        tokio::join!(
            listen(Kind::Pod),
            listen(Kind::Vm),
            connect::run(&self),
            self.fence(),
        );
    }

    /// Stops what may run elsewhere, when no server was heard of for too long.
    async fn fence(&self) {
        let mut stopped = false;
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = self.liveness.look_again() => {}
            }
            let peers = self.node.network.has_peers();
            let due = self.liveness.stop_if_due(peers, |lease| {
                self.instances.fence(lease::grace(lease));
            });
            if due && !stopped {
                tracing::error!("no server was heard of; what may run elsewhere is stopped");
            }
            if due {
                self.fenced.notify_waiters();
            }
            stopped = due;
        }
    }
}

fn kept(node_folder: &Path) -> Result<Kept> {
    blocking(|| Kept::open(node_folder.join(FOLDER)))
}

/// The names of units that must not be started until a server says so: while
/// the machine was down they may have been started elsewhere.
pub(crate) fn held(node_folder: &Path, has_peers: bool) -> Result<Vec<Label>> {
    let kept = kept(node_folder)?;
    if !has_peers || kept.server().farewell {
        return Ok(Vec::new());
    }
    let assigned = blocking(|| kept.assigned()).into_iter();
    Ok(assigned.map(|one| one.ask.unit().name).collect())
}

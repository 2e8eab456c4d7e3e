//! The agent of a simulated host: that of the product, over links with faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use strata_api::strata::v1;
use strata_client::{Address, Error};
use strata_identity::{CertificateId, Validity};
use strata_node::Agent;
use strata_node::simulation::{AgentParts, ServerConnection, ServerMessages, Uplink};
use strata_server::link::LinkPeer;
use strata_tasks::{Stage, Tasks};
use strata_transport::FollowedTerm;
use strata_types::Role;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::checks::address;
use crate::env::Env;
use crate::files::Disk;
use crate::host::{SimHost, SimUnits};
use crate::net::{Network, Place};
use crate::process::Process;
use crate::server::SimServer;

/// How long what no server knows rests before it is destroyed.
const ORPHAN_GRACE: Duration = Duration::from_secs(3600);

/// A node: a host, its disk, and an agent while one runs.
pub(crate) struct SimNode {
    pub(crate) at: usize,
    pub(crate) host: Arc<SimHost>,
    pub(crate) disk: Arc<Disk>,
    env: Arc<Env>,
    net: Arc<Network>,
    servers: Vec<Arc<SimServer>>,
    state: Mutex<(Arc<Process>, bool)>,
}

impl SimNode {
    pub(crate) fn new(
        env: &Arc<Env>,
        net: &Arc<Network>,
        servers: &[Arc<SimServer>],
        host: Arc<SimHost>,
    ) -> Arc<Self> {
        let none = Process::new(env);
        none.kill();
        Arc::new(Self {
            at: host.at,
            host,
            disk: Arc::default(),
            env: env.clone(),
            net: net.clone(),
            servers: servers.to_vec(),
            state: Mutex::new((none, true)),
        })
    }

    fn state(&self) -> MutexGuard<'_, (Arc<Process>, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn place(&self) -> Place {
        Place::Node(self.at)
    }

    pub(crate) fn process(&self) -> Arc<Process> {
        self.state().0.clone()
    }

    /// Starts the agent, unless it runs or the host is off.
    pub(crate) fn start(&self) {
        let process = {
            let mut state = self.state();
            if !state.0.is_dead() || !state.1 {
                return;
            }
            state.0 = Process::new(&self.env);
            state.0.clone()
        };
        self.env
            .note(format_args!("agent of {} starts", self.place()));
        self.host.recover();
        let servers = self.servers.iter();
        let servers = servers.filter_map(|server| address(server.at).parse().ok());
        let parts = AgentParts {
            servers: servers.collect(),
            revocations: None,
            stored_trust: None,
            beside_server: false,
            orphan_grace: ORPHAN_GRACE,
            runtime: Handle::current(),
            files: self.disk.clone(),
            clock: self.host.clone(),
            host: self.host.clone(),
            units: Arc::new(SimUnits(self.host.clone())),
            uplink: Arc::new(SimUplink {
                at: self.at,
                env: self.env.clone(),
                net: self.net.clone(),
                servers: self.servers.clone(),
            }),
            witnesses: false,
        };
        let tasks = Tasks::default().group(Stage::Agent);
        if let Err(error) = process.within(|| Agent::start_on(parts, &tasks)) {
            self.env
                .violated(format!("agent of {} does not start: {error}", self.place()));
        }
    }

    /// Kills the agent. What runs goes on.
    pub(crate) fn kill(&self) {
        self.process().kill();
        self.net.reset(self.place());
    }

    /// The power is cut, or back.
    pub(crate) fn set_power(&self, on: bool) {
        {
            let mut state = self.state();
            if std::mem::replace(&mut state.1, on) == on {
                return;
            }
        }
        if on {
            self.net.set_off(self.place(), false);
            self.net.reset(self.place());
            self.host.boot();
        } else {
            // Before anything can be sent of it.
            self.net.set_off(self.place(), true);
            self.process().kill();
            self.host.power_cut();
        }
    }
}

struct SimUplink {
    at: usize,
    env: Arc<Env>,
    net: Arc<Network>,
    servers: Vec<Arc<SimServer>>,
}

impl Uplink for SimUplink {
    fn connect<'a>(
        &'a self,
        to: &'a Address,
        within: Duration,
    ) -> BoxFuture<'a, Result<Arc<dyn ServerConnection>, Error>> {
        async move {
            let failed = |reason: &str, refused| Error::Connect {
                address: to.clone(),
                reason: reason.to_owned(),
                refused,
            };
            let is_it = |server: &&Arc<SimServer>| {
                let own = address(server.at).parse::<Address>();
                own.is_ok_and(|own| own == *to)
            };
            let Some(server) = self.servers.iter().find(is_it) else {
                return Err(failed("there is no such host", false));
            };
            let (from, place) = (Place::Node(self.at), server.place());
            let connecting = async {
                self.net.cross(from, place).await;
                let accepts = server.accepts().await;
                self.net.cross(place, from).await;
                accepts
            };
            match tokio::time::timeout(within, connecting).await {
                Err(_) => Err(failed("no answer", false)),
                Ok(false) => Err(failed("connection refused", true)),
                Ok(true) => Ok(Arc::new(SimConnection {
                    at: self.at,
                    env: self.env.clone(),
                    net: self.net.clone(),
                    server: server.clone(),
                    address: to.clone(),
                }) as Arc<dyn ServerConnection>),
            }
        }
        .boxed()
    }

    fn validity(&self) -> Validity {
        Validity {
            not_before: Timestamp::UNIX_EPOCH,
            not_after: Timestamp::MAX,
        }
    }
}

struct SimConnection {
    at: usize,
    env: Arc<Env>,
    net: Arc<Network>,
    server: Arc<SimServer>,
    address: Address,
}

impl ServerConnection for SimConnection {
    fn address(&self) -> &Address {
        &self.address
    }

    fn follow(
        &self,
        messages: mpsc::Receiver<v1::NodeMessage>,
    ) -> BoxFuture<'_, Result<ServerMessages, Status>> {
        async move {
            let (from, to) = (Place::Node(self.at), self.server.place());
            let gone = || Status::unavailable("the connection ended");
            let name = from.to_string();
            let certificate = CertificateId {
                serial: format!("{:02x}", self.at + 1),
                key: format!("key-of-{name}"),
                name: name.parse().map_err(|_| gone())?,
                role: Role::Node,
                issued_at: Timestamp::UNIX_EPOCH,
                expires_at: Timestamp::MAX,
                issuer: String::new(),
            };
            let broken = self.net.connection((from, to));
            let up = ReceiverStream::new(messages).map(Ok).boxed();
            let up = self.net.carry((from, to), up, broken.clone());
            self.net.cross(from, to).await;
            let env = self.env.clone();
            let from_node = ReceiverStream::new(up).inspect(move |message| {
                if let Ok(message) = message {
                    note_up(&env, from, message);
                }
            });
            let from_node = Box::pin(from_node);
            let linking = self
                .server
                .link(Arc::new(certificate), LinkPeer::default(), from_node);
            let linked = tokio::select! {
                biased;
                () = broken.cancelled() => Err(gone()),
                linked = linking => linked,
            };
            self.net.cross(to, from).await;
            let down = self.net.carry((to, from), linked?.boxed(), broken);
            let env = self.env.clone();
            let noted = ReceiverStream::new(down).inspect(move |message| {
                if let Ok(message) = message {
                    note_down(&env, from, message);
                }
            });
            Ok(noted.boxed())
        }
        .boxed()
    }

    fn error(&self, status: &Status) -> Error {
        Error::Lost {
            address: self.address.clone(),
            reason: status.message().to_owned(),
        }
    }

    fn tunnel(&self, _: Arc<dyn FollowedTerm>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        async move { stop.cancelled().await }.boxed()
    }
}

/// Adds what a server sends to the trace, as far as it is about instances.
fn note_down(env: &Env, node: Place, message: &v1::ServerMessage) {
    use v1::server_message::Message;
    match &message.message {
        Some(Message::Assignment(one)) => env.note(format_args!(
            "{node} <- assign {} generation {} epoch {} starts {} wanted {:?}",
            one.id,
            one.generation,
            one.epoch,
            one.starts,
            one.wanted()
        )),
        Some(Message::Withdrawal(one)) => env.note(format_args!(
            "{node} <- withdraw {} epoch {} orphaned {} kill {}",
            one.id, one.epoch, one.orphaned, one.kill
        )),
        Some(Message::Peers(one)) => env.note(format_args!(
            "{node} <- peers {} waived {}",
            one.peers.len(),
            one.waived
        )),
        Some(Message::Welcome(one)) => {
            env.note(format_args!("{node} <- welcome term {}", one.term));
        }
        Some(Message::Complete(_)) => env.note(format_args!("{node} <- complete")),
        _ => {}
    }
}

/// The same of what a node reports.
fn note_up(env: &Env, node: Place, message: &v1::NodeMessage) {
    use v1::node_message::Message;
    match &message.message {
        Some(Message::Report(one)) => env.note(format_args!(
            "{node} -> report {} generation {} epoch {} {:?}",
            one.id,
            one.generation,
            one.epoch,
            one.state()
        )),
        Some(Message::Refusal(one)) => {
            env.note(format_args!("{node} -> refusal {} {}", one.id, one.reason));
        }
        Some(Message::LeaseHeld(_)) => env.note(format_args!("{node} -> lease held")),
        Some(Message::Reported(_)) => env.note(format_args!("{node} -> reported")),
        _ => {}
    }
}

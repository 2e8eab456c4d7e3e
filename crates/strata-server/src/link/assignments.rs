//! `schedule.Assignments/Follow`: two tasks for each node. One answers its
//! heartbeats, on the runtime that serves nodes alone; the other owns the
//! link and does all that may wait, where everything else runs.
//!
//! What a node is to have is sent from the tables as they are when it is sent,
//! so a slow node is sent less often and never wrong, and nothing piles up.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{Stream, StreamExt as _};
use strata_api::schedule::assignments_server::{Assignments, AssignmentsServer};
use strata_api::strata::v1::{
    self, Chunk, Hello, NodeMessage, ServerMessage, node_message, server_message,
};
use strata_api::{LEADER_METADATA, status_from_error};
use strata_identity::{Ca, CertificateId, Revocations};
use strata_scheduler::Resources as Amounts;
use strata_tasks::{TaskGroup, spawn_detached_on};
use strata_transport::Peer;
use strata_types::instance::InstanceId;
use strata_types::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::assignment::assignment;
use super::calling::calling_node;
use super::decode::{node_facts, pool, report};
use super::heartbeat::{self, NodeMessages, Outgoing};
use super::inbox::{Inbox, Next};
use super::names::{all_names, changed_names};
use super::peer_changes::PeerChanges;
use super::peers::{changed_peers, peers};
use super::projects::projects;
use super::revoked::in_parts;
use super::tunnels::Tunnels;
use super::witness;
use crate::core::{
    Core, DesiredState, Dirty, Instance, Lead, Node, NodeFacts, Refusal, Registration, TakeOver,
    Update, now_ms,
};

/// How long a node may take for its first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node may take to read what it is sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long changes of projects are gathered.
const PROJECTS_DEBOUNCE: Duration = Duration::from_millis(100);
/// How long a promise may take to be recorded when the server ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Reports that are written at the same time.
const MAX_CONCURRENT_REPORTS: usize = 32;
/// How often it is looked whether a node has other witnesses by now.
const WITNESS_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Messages on their way to a node.
const CHANNEL_CAPACITY: usize = 64;
/// The largest message of a node: far above a Hello with every label, a report
/// with its reason, or a chunk of a tunnel.
const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// The links of this server.
#[derive(Clone)]
pub struct AssignmentsApi {
    core: Core,
    tunnels: Tunnels,
    /// Where links do what may wait.
    runtime: Handle,
    tasks: TaskGroup,
    ca: Option<Arc<Ca>>,
}

impl AssignmentsApi {
    /// Over this core, until the group is stopped. To be called on the runtime
    /// where the core is.
    pub fn new(core: Core, tunnels: Tunnels, tasks: impl Into<TaskGroup>) -> Self {
        Self {
            core,
            tunnels,
            runtime: Handle::current(),
            tasks: tasks.into().on(Handle::current()),
            ca: None,
        }
    }

    /// Has nodes trust the roots of this CA.
    #[must_use]
    pub fn with_ca(mut self, ca: Option<Arc<Ca>>) -> Self {
        self.ca = ca;
        self
    }

    pub fn service(self) -> AssignmentsServer<Self> {
        AssignmentsServer::new(self).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Begins the link of the node with this certificate, from wherever its
    /// messages come. The link answers heartbeats on the current runtime.
    pub fn link(
        &self,
        certificate: Arc<CertificateId>,
        peer: LinkPeer,
        from_node: NodeMessages,
    ) -> Result<ServerMessages, Status> {
        leading(&self.core).map_err(|error| redirect(&self.core, &error))?;
        let (outgoing, beats, to_node) = Outgoing::new(CHANNEL_CAPACITY);
        let link = Link {
            core: self.core.clone(),
            name: certificate.name.to_string(),
            certificate,
            to_node,
            server: peer.local,
            ca: self.ca.clone(),
            // Of this link alone: what a node confirms of an earlier one does
            // not count.
            peers_version: u64::try_from(now_ms()).unwrap_or(0) << 16,
            witnesses: None,
            waived: false,
            connected: Instant::now(),
            keeps: false,
            takes_deltas: false,
            in_inventory: true,
            runs: BTreeSet::new(),
            held: BTreeSet::new(),
            assigns_after_inventory: false,
            incomplete: false,
            retired: CancellationToken::new(),
        };
        let inbound = Inbound {
            from_node,
            beats,
            // The runtime that serves this connection.
            runtime: Handle::current(),
        };
        let shutdown = self.tasks.shutdown().clone();
        self.tasks
            .detached("node-link", link.run(inbound, peer.remote, shutdown));
        Ok(Box::pin(outgoing))
    }
}

/// What is sent to one node.
pub type ServerMessages = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;

/// The two ends of the connection of a node, where they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkPeer {
    /// Where the node calls from.
    pub remote: Option<IpAddr>,
    /// At which address of this host.
    pub local: Option<IpAddr>,
}

fn link_peer<T>(request: &Request<T>) -> LinkPeer {
    let peer = request.extensions().get::<Arc<Peer>>();
    let ip = |address: Option<SocketAddr>| Some(address?.ip().to_canonical());
    LinkPeer {
        remote: ip(peer.and_then(|peer| peer.remote)),
        local: ip(peer.and_then(|peer| peer.local)),
    }
}

#[tonic::async_trait]
impl Assignments for AssignmentsApi {
    type FollowStream = ServerMessages;
    type TunnelStream = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<Streaming<NodeMessage>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let certificate = calling_node(&request).map_err(|error| status_from_error(&error))?;
        let peer = link_peer(&request);
        let outgoing = self.link(certificate, peer, Box::pin(request.into_inner()))?;
        Ok(Response::new(outgoing))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let certificate = calling_node(&request).map_err(|error| status_from_error(&error))?;
        let admitted = self.core.authenticate_node(&certificate, None).await;
        let node = admitted.map_err(|error| status_from_error(&error))?;
        let answer = {
            let _runtime = self.runtime.enter();
            self.tunnels.open(&node.name, request.into_inner())
        };
        Ok(Response::new(Box::pin(answer)))
    }
}

/// Whether an instance that is not this node's may be started without waiting
/// for this node: then it is given no time to end there.
fn may_start_elsewhere(one: &Instance, node: &str) -> bool {
    let is_elsewhere = one.node.as_ref().is_some_and(|at| at != node);
    let left = one.leaves(node);
    let is_lost_here = left.is_some_and(|from| one.may_start_beside(from));
    // Placed later on a node that may have it, and knows of no reason to wait
    // for this one but its own promise.
    let later = |epoch: u64| one.leaving.iter().any(|from| from.epoch > epoch);
    let was_elsewhere = left.is_some_and(|from| later(from.epoch));
    is_lost_here || was_elsewhere || (is_elsewhere && one.is_assignable())
}

/// Whether something runs in this state, or is about to again.
fn is_up(state: v1::PodState) -> bool {
    use v1::PodState::{Running, Starting, Waiting};
    matches!(state, Running | Starting | Waiting)
}

/// Nodes connect to the leader: one that leads for certain, also when the end
/// of its lead was not noticed yet.
fn leading(core: &Core) -> Result<()> {
    match core.lead() {
        Lead::Leading(_) if core.leads_now() => Ok(()),
        Lead::Leading(_) => Err(Error::unavailable(
            "this server has led, and could not renew that in time",
        )),
        Lead::Following(leader) => {
            let error = Error::unavailable("this server does not lead");
            Err(match leader {
                Some(leader) => error.with_hint(format!("{leader} does")),
                None => error,
            })
        }
    }
}

/// The refusal of a server that does not lead: it names the leader.
fn redirect(core: &Core, error: &Error) -> Status {
    let mut status = status_from_error(error);
    if let Lead::Following(Some(leader)) = core.lead()
        && let Ok(leader) = leader.parse()
    {
        status.metadata_mut().insert(LEADER_METADATA, leader);
    }
    status
}

/// Logs the labels that a node requests, and how they are accepted.
fn warn_of_requested(node: &Node) {
    let requested = node.requested_labels.iter().flatten();
    let requested: Vec<String> = requested.map(|(k, v)| format!("{k}={v}")).collect();
    if !requested.is_empty() {
        let requested: String = requested.join(" ").chars().take(512).collect();
        tracing::warn!(
            node = node.name,
            labels = requested,
            "labels of the node's configuration are not accepted: strata node label {} --accept",
            node.name
        );
    }
}

async fn step(roots: Option<&mut watch::Receiver<()>>) {
    let stepped = match roots {
        Some(roots) => roots.changed().await.is_ok(),
        None => false,
    };
    if !stepped {
        std::future::pending::<()>().await;
    }
}

struct Link {
    core: Core,
    name: String,
    certificate: Arc<CertificateId>,
    to_node: mpsc::Sender<Result<ServerMessage, Status>>,
    /// Where the node reaches this host.
    server: Option<IpAddr>,
    ca: Option<Arc<Ca>>,
    /// Of the peers that the node was last given: what it reports of its lease
    /// counts if it is of these.
    peers_version: u64,
    /// The witnesses that it was last given.
    witnesses: Option<BTreeSet<String>>,
    /// It was last sent that nothing of it is started elsewhere.
    waived: bool,
    /// Since when it is connected.
    connected: Instant,
    /// The node understands that it is to keep an instance as it is.
    keeps: bool,
    /// The node understands what only changed of its peers.
    takes_deltas: bool,
    /// The node still reports what it has from before.
    in_inventory: bool,
    /// What runs there, as it has reported so far from before.
    runs: BTreeSet<InstanceId>,
    /// After a restore: what is assigned once all other nodes were heard from.
    held: BTreeSet<InstanceId>,
    /// All is assigned once the node has reported what it has.
    assigns_after_inventory: bool,
    /// It was not told yet that it has all.
    incomplete: bool,
    /// The node has opened another link.
    retired: CancellationToken,
}

/// How a node is listened to.
struct Inbound {
    from_node: NodeMessages,
    beats: mpsc::Sender<()>,
    runtime: Handle,
}

/// What a node was last sent of projects, and whether that may be outdated.
/// Many instances change at once; it is sent once for all of them, soon after
/// the first.
#[derive(Default)]
struct Projects {
    sent: Option<v1::Projects>,
    due_at: Option<Instant>,
}

impl Projects {
    fn changed(&mut self) {
        self.due_at
            .get_or_insert(Instant::now() + PROJECTS_DEBOUNCE);
    }

    /// Until it is time to report a change.
    async fn due(&self) {
        match self.due_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// What is to be sent, if it differs from what was.
    fn next(&mut self, now: v1::Projects) -> Option<v1::Projects> {
        self.due_at = None;
        if self.sent.as_ref() == Some(&now) {
            return None;
        }
        self.sent = Some(now.clone());
        Some(now)
    }
}

/// What changed since the node was last sent.
struct PendingChanges<'a> {
    /// Of its own instances.
    dirty: &'a Dirty<InstanceId>,
    /// Of what instances are called.
    names: &'a Dirty<InstanceId>,
    /// Of the other nodes.
    peers: &'a Dirty<String>,
}

/// Why a link ends.
enum End {
    /// The node closed the stream, or does not read.
    Gone,
    /// The reason, which is sent to the node.
    Because(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Because(error)
    }
}

impl Link {
    async fn run(mut self, inbound: Inbound, remote: Option<IpAddr>, shutdown: CancellationToken) {
        let ended = self.serve(inbound, remote, &shutdown).await;
        if let Err(End::Because(error)) = ended {
            tracing::info!(node = self.name, %error, "node link closing");
            let _ = self.to_node.try_send(Err(redirect(&self.core, &error)));
        } else {
            tracing::info!(node = self.name, "node link closed");
        }
    }

    async fn serve(
        &mut self,
        mut inbound: Inbound,
        remote: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<(), End> {
        let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.from_node.next()).await;
        let Ok(Some(Ok(NodeMessage {
            message: Some(node_message::Message::Hello(hello)),
        }))) = first
        else {
            let why = Error::invalid("message", "the first must be Hello, within 10 s");
            return Err(End::Because(why));
        };
        // Before anything is taken over from another stream of the same name.
        self.authenticate(&hello).await?;
        self.keeps = hello.keeps;
        self.takes_deltas = hello.peer_deltas;
        self.core.live().clear_unknown(&self.name);
        let subscriptions = self.core.subscriptions();
        let dirty = subscriptions.link(&self.name);
        self.retired = dirty.retirement();
        let names = subscriptions.names(&self.name);
        let peers = subscriptions.peers(&self.name);
        let sent = PendingChanges {
            dirty: &dirty,
            names: &names,
            peers: &peers,
        };
        let ended = self.exchange(hello, inbound, remote, sent, shutdown).await;
        let subscriptions = self.core.subscriptions();
        subscriptions.unlink(&self.name, &dirty);
        subscriptions.unlink_names(&self.name, &names);
        subscriptions.unlink_peers(&self.name, &peers);
        ended
    }

    async fn exchange(
        &mut self,
        hello: Hello,
        inbound: Inbound,
        remote: Option<IpAddr>,
        sent: PendingChanges<'_>,
        shutdown: &CancellationToken,
    ) -> Result<(), End> {
        let PendingChanges {
            dirty,
            names,
            peers,
        } = sent;
        // Before the first message: what ends the lead from here on is noticed.
        let mut lead = self.core.watch_lead();
        let node = self.welcome(hello, remote).await?;
        tracing::info!(node = self.name, subnet = node.subnet, "node connected");
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let inbox = self.listen(inbound, stop);
        let mut peer_changes = PeerChanges::default();
        let mut range = self.core.watch_range();
        let revocations = self.core.certificates().revocations();
        let mut revoked = revocations.subscribe();
        let mut changes = self.core.subscriptions().projects.subscribe();
        let mut projects = Projects::default();
        self.send_all_peers().await?;
        self.send_revocations(&revocations).await?;
        let mut roots = self.ca.as_ref().map(|ca| ca.subscribe());
        self.send_trust().await?;
        self.send_projects(&mut projects).await?;
        for part in all_names(&self.core, &self.name) {
            self.send(part).await?;
        }
        // After a restore what it runs is known by its own reports only.
        self.assigns_after_inventory = self.core.is_any_unheard_but(&self.name);
        if !self.assigns_after_inventory {
            self.send_all_assignments().await?;
        }
        let mut recheck = tokio::time::interval(WITNESS_CHECK_INTERVAL);
        recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut take_overs = self.core.subscriptions().take_overs.subscribe();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return self.close_link().await,
                () = dirty.retired() => {
                    let why = format!("{} has opened another stream", self.name);
                    return Err(End::Because(Error::new(ErrorKind::Aborted, why)));
                }
                _ = lead.changed() => leading(&self.core)?,
                changed = dirty.take() => {
                    for id in changed {
                        self.send_assignment(&id).await?;
                        for next in self.core.room_made_for(&self.name, &id) {
                            self.send_assignment(&next).await?;
                        }
                    }
                }
                changed = names.take() => {
                    for part in changed_names(&self.core, &self.name, changed) {
                        self.send(part).await?;
                    }
                }
                Ok(TakeOver { node, destroy }) = take_overs.recv() => {
                    if node == self.name {
                        let take_over = v1::TakeOver { destroy };
                        self.send(server_message::Message::TakeOver(take_over)).await?;
                    }
                }
                changed = peers.take() => {
                    let nodes = self.core.tables().nodes.len();
                    peer_changes.changed(changed, nodes);
                }
                () = peer_changes.due() => {
                    let changed = peer_changes.take();
                    self.send_changed_peers(&changed).await?;
                }
                Ok(()) = range.changed() => self.send_all_peers().await?,
                // A node that is lost is no witness any more after a while.
                _ = recheck.tick() => {
                    self.send_held().await?;
                    let (given, connected) = (self.witnesses.as_ref(), self.connected.elapsed());
                    if !self.waived && witness::are_outdated(&self.core, &self.name, connected, given) {
                        self.send_all_peers().await?;
                    }
                }
                _ = revoked.changed() => self.send_revocations(&revocations).await?,
                () = step(roots.as_mut()) => self.send_trust().await?,
                _ = changes.recv() => projects.changed(),
                () = projects.due() => self.send_projects(&mut projects).await?,
                next = inbox.next() => match next {
                    Next::Message(message) => self.handle_message(message, &inbox).await?,
                    Next::Load(load) => {
                        self.check_key()?;
                        self.load(load).await?;
                    }
                    Next::Closed => return Err(End::Gone),
                },
            }
        }
    }

    /// This server ends. Where it is the only one, nothing is started elsewhere
    /// until the node is back: that is recorded, then sent. Where there are
    /// others, one of them takes over, and the lease goes on.
    async fn close_link(&mut self) -> Result<(), End> {
        if !self.core.settings().alone {
            return Err(Error::unavailable("this server ends").into());
        }
        if self.node_holds_leases() {
            let waiving = self.core.waive_lease_at_the_end(&self.name);
            match tokio::time::timeout(SHUTDOWN_TIMEOUT, waiving).await {
                Ok(Ok(())) => self.send_peers(true).await?,
                Ok(Err(error)) => {
                    tracing::warn!(node = self.name, %error, "waiver of the node lease not recorded");
                }
                Err(_) => tracing::warn!(node = self.name, "waiver of the node lease not recorded"),
            }
        }
        self.send(server_message::Message::Farewell(v1::Farewell {}))
            .await
    }

    fn is_part_of_the_only_server(&self) -> bool {
        self.core.settings().alone && self.core.is_local_node(&self.certificate)
    }

    fn node_holds_leases(&self) -> bool {
        let node = self.core.node(&self.name);
        node.is_ok_and(|node| node.holds_leases)
    }

    /// Has the node's heartbeats answered, and its other messages kept.
    fn listen(&self, inbound: Inbound, stop: CancellationToken) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        let (core, name) = (self.core.clone(), self.name.clone());
        let listening = heartbeat::listen(
            core,
            name,
            inbound.from_node,
            inbound.beats,
            inbox.clone(),
            stop,
        );
        spawn_detached_on(&inbound.runtime, "node-heartbeat", listening);
        inbox
    }

    /// Registers the node if it is new; refuses the key of another.
    async fn authenticate(&self, hello: &Hello) -> Result<(), End> {
        let registration = Registration {
            name: self.name.clone(),
            subnet: Some(hello.subnet.clone()).filter(|subnet| !subnet.is_empty()),
        };
        let admitted = self
            .core
            .authenticate_node(&self.certificate, Some(registration));
        Ok(admitted.await.map(drop)?)
    }

    async fn welcome(&self, hello: Hello, remote: Option<IpAddr>) -> Result<Node, End> {
        let mut facts = node_facts(hello, remote)?;
        let claimed = self.core.claim_address(&self.name, &mut facts, remote);
        claimed.await?;
        self.core.claim_overlay_key(&self.name, &mut facts);
        self.core.claim_labels(&self.certificate, &mut facts);
        let settings = self.core.settings();
        let lease_ms = u32::try_from(settings.lease.as_millis()).unwrap_or(u32::MAX);
        // Recorded before it is sent: from then on the node may go on for that
        // long.
        facts.lease_ms = Some(lease_ms.into());
        facts.served_at = Some(self.core.served_at(self.server));
        let node = self.core.update_node_facts(&self.name, &facts).await?;
        warn_of_requested(&node);
        // It is ready, so nothing more is moved off it; and from its Welcome on
        // what it runs has a lease again.
        self.core.resume_placements(&self.name).await?;
        let withdrawn = self.withdrawn();
        let welcome = v1::Welcome {
            subnet: node.subnet.clone(),
            range: self.core.range().to_string(),
            lease_ms,
            alone: settings.alone,
            records_promises: true,
            servers: self.core.servers().await,
            term: self.core.term(),
            control_plane: self.core.run_id().await?,
            withdrawn,
        };
        leading(&self.core)?;
        self.send(server_message::Message::Welcome(welcome)).await?;
        Ok(node.record.clone())
    }

    async fn send(&self, message: server_message::Message) -> Result<(), End> {
        let message = ServerMessage {
            message: Some(message),
        };
        match tokio::time::timeout(SEND_TIMEOUT, self.to_node.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Gone),
        }
    }

    /// Sends all peers. Where there are none, or the node is part of the process
    /// of the only server and ends with it, its lease has no end: that is
    /// recorded first, and holds until the node reports that it holds a lease
    /// again.
    async fn send_all_peers(&mut self) -> Result<(), End> {
        let others = |core: &Core, own: &str| core.nodes().iter().any(|node| node.name != own);
        let is_free = !others(&self.core, &self.name) || self.is_part_of_the_only_server();
        let waived = is_free && self.node_holds_leases();
        if waived {
            self.core.waive_lease(&self.name).await?;
        }
        self.send_peers(waived).await
    }

    /// Sends the peers that changed, and the witnesses of the node. Where the
    /// peers are few, and all of them witnesses, all are sent.
    async fn send_changed_peers(&mut self, changed: &BTreeSet<String>) -> Result<(), End> {
        let delta = {
            let tables = self.core.tables();
            let many = tables.nodes.len() > witness::MAX_WITNESSES + 1;
            let delta = || changed_peers(&tables, &self.name, self.server, changed);
            // A change says nothing of the lease: the node would take it for the
            // end of a waiver.
            let is_enough = many && self.takes_deltas && !self.waived;
            is_enough.then(delta).flatten()
        };
        let Some(delta) = delta else {
            return self.send_all_peers().await;
        };
        self.peers_version += 1;
        let witnesses = self.next_witnesses().await?;
        let peers = v1::Peers {
            version: self.peers_version,
            witnessed: witnesses.is_some(),
            witnesses: witnesses.unwrap_or_default(),
            name: self.name.clone(),
            ..delta
        };
        self.send(server_message::Message::Peers(peers)).await
    }

    /// The witnesses that the node is given next. Before that the record is
    /// narrowed to those that it has before and after.
    async fn next_witnesses(&mut self) -> Result<Option<Vec<v1::Witness>>, End> {
        let connected = self.connected.elapsed();
        let witnesses = witness::witnesses(&self.core, &self.name, connected).await?;
        let names = |all: &Vec<v1::Witness>| all.iter().map(|one| one.name.clone()).collect();
        self.witnesses = witnesses.as_ref().map(names);
        if let Some(names) = &self.witnesses {
            self.core.narrow_witnesses(&self.name, names).await?;
        }
        Ok(witnesses)
    }

    async fn send_peers(&mut self, waived: bool) -> Result<(), End> {
        self.peers_version += 1;
        self.waived = waived;
        let witnesses = match waived {
            true => {
                self.witnesses = None;
                None
            }
            false => self.next_witnesses().await?,
        };
        let nodes = self.core.nodes();
        let nodes: Vec<&Node> = nodes.iter().map(|node| &node.record).collect();
        let peers = v1::Peers {
            waived,
            version: self.peers_version,
            witnessed: witnesses.is_some(),
            witnesses: witnesses.unwrap_or_default(),
            name: self.name.clone(),
            range: self.core.range().to_string(),
            ..peers(&nodes, &self.name, self.server)
        };
        self.send(server_message::Message::Peers(peers)).await
    }

    /// Has the node refuse on its own port what is refused here.
    async fn send_revocations(&self, revocations: &Revocations) -> Result<(), End> {
        for part in in_parts(&revocations.list()) {
            self.send(server_message::Message::Revocations(part))
                .await?;
        }
        Ok(())
    }

    /// Has the node trust the roots that are trusted here, and renew its
    /// certificate where another one signs.
    async fn send_trust(&self) -> Result<(), End> {
        let Some(ca) = &self.ca else {
            return Ok(());
        };
        let trust = v1::TrustBundle {
            ca_pem: ca.ca_pem(),
            issuer: ca.issuer(),
        };
        self.send(server_message::Message::Trust(trust)).await
    }

    async fn send_projects(&self, projects: &mut Projects) -> Result<(), End> {
        match projects.next(self::projects(&self.core, &self.name)) {
            Some(news) => self.send(server_message::Message::Projects(news)).await,
            None => Ok(()),
        }
    }

    async fn send_all_assignments(&mut self) -> Result<(), End> {
        let all: Vec<InstanceId> = {
            let tables = self.core.tables();
            let on = tables.on_node.get(&self.name);
            // It may have failed to report that they are gone.
            let leaving = tables.leaving.get(&self.name);
            let all = on.into_iter().chain(leaving).flatten();
            all.cloned().collect()
        };
        for id in all {
            self.send_assignment(&id).await?;
        }
        let stored = self.core.unreadable_on(&self.name);
        if !stored.is_empty() && !self.keeps {
            tracing::warn!(
                node = self.name,
                instances = stored.len(),
                "node release does not support keeping unreadable instances: no assignment is withdrawn"
            );
            return Ok(());
        }
        for id in stored {
            self.send_keep(&id).await?;
        }
        self.incomplete = true;
        self.complete().await
    }

    /// The node has been sent all, unless something is held: what it has of that
    /// is not orphaned.
    async fn complete(&mut self) -> Result<(), End> {
        if !self.held.is_empty() || !std::mem::take(&mut self.incomplete) {
            return Ok(());
        }
        self.send(server_message::Message::Complete(v1::Complete {}))
            .await
    }

    /// Assigns what was held, as far as that may run nowhere else by now.
    async fn send_held(&mut self) -> Result<(), End> {
        if self.held.is_empty() || self.core.is_any_unheard_but(&self.name) {
            return Ok(());
        }
        for id in std::mem::take(&mut self.held) {
            self.send_assignment(&id).await?;
        }
        self.complete().await
    }

    /// Has the node leave an instance as it is, whose record cannot be read.
    async fn send_keep(&self, id: &InstanceId) -> Result<(), End> {
        let id = id.to_string();
        self.send(server_message::Message::Keep(v1::Keep { id }))
            .await
    }

    /// Takes in what a node has that no record here is of, and withdraws what
    /// is another node's by now or was deleted.
    async fn take_inventory(&mut self, sent: &v1::InstanceReport) -> Result<(), End> {
        let Ok(id) = sent.id.parse::<InstanceId>() else {
            return Ok(());
        };
        let (known, unreadable) = {
            let tables = self.core.tables();
            let known = tables.instances.get(&id);
            let known = known.map(|one| (one.node.clone(), one.epoch));
            let key = crate::core::keys::instance(&id);
            (known, tables.unreadable.contains_key(&key))
        };
        let is_there = sent.state() != v1::PodState::Unspecified;
        if self.in_inventory && is_up(sent.state()) {
            self.runs.insert(id.clone());
        }
        let unknown = is_there && known.is_none() && !unreadable;
        self.core.live().note_unknown(&self.name, sent, unknown);
        let epoch = known.as_ref().map_or(0, |(_, epoch)| *epoch);
        let elsewhere = known.is_some_and(|(node, _)| node.as_deref() != Some(&*self.name));
        let gone = unknown && self.in_inventory && self.core.was_deleted(&id).await?;
        if self.in_inventory && is_there && elsewhere {
            let unheard = self.core.node(&self.name).is_ok_and(|node| node.unheard);
            if unheard {
                let found = self.core.found_elsewhere(&self.name, &id, sent.epoch);
                found.await?;
            }
        }
        if self.in_inventory && is_there && (elsewhere || gone) {
            self.withdraw(&id, false, epoch.max(sent.epoch)).await?;
        }
        Ok(())
    }

    /// What the node may run, and another one may start or has started.
    fn withdrawn(&self) -> Vec<v1::Withdrawal> {
        let tables = self.core.tables();
        let left = tables.leaving.get(&self.name).into_iter().flatten();
        let records = left.filter_map(|id| tables.instances.get(id));
        let started = records.filter(|one| may_start_elsewhere(one, &self.name));
        let withdrawn = started.map(|one| v1::Withdrawal {
            id: one.id.to_string(),
            orphaned: false,
            epoch: one.epoch,
            kill: true,
        });
        withdrawn.collect()
    }

    /// Takes an instance off the node, of this placement or an earlier one.
    async fn withdraw(&self, id: &InstanceId, orphaned: bool, epoch: u64) -> Result<(), End> {
        let record = self.core.tables().instances.get(id).cloned();
        let kill = record.is_some_and(|one| may_start_elsewhere(&one, &self.name));
        let id = id.to_string();
        let withdrawal = v1::Withdrawal {
            id,
            orphaned,
            epoch,
            kill,
        };
        self.send(server_message::Message::Withdrawal(withdrawal))
            .await
    }

    /// Reports what is to be of one instance, as it is now.
    async fn send_assignment(&mut self, id: &InstanceId) -> Result<(), End> {
        // Its tables may be those of then.
        leading(&self.core)?;
        self.held.remove(id);
        let record = self.core.tables().instances.get(id).cloned();
        let Some(record) = record else {
            if self.core.unreadable_on(&self.name).contains(id) {
                return self.send_keep(id).await;
            }
            // One that is deleted has a record until its node has nothing of
            // it: this one vanished, or is gone from its node already.
            return self.withdraw(id, true, 0).await;
        };
        let ours = record.node.as_deref() == Some(&*self.name)
            && record.desired_state != DesiredState::Gone;
        if !ours || record.leaves(&self.name).is_some() {
            // Also what it was never reported: it may have it from before.
            return self.withdraw(id, false, record.epoch).await;
        }
        if !record.is_assignable() || self.core.waits_for_room(&record) {
            // Not before the node where it was has reported that it is gone,
            // and not before this one has room for it.
            return Ok(());
        }
        if self.core.node(&self.name).is_err() {
            // It was removed: what is on it is moved, and it is assigned nothing.
            return Ok(());
        }
        let begins = record.desired_state == DesiredState::Running && !self.runs.contains(id);
        if begins && self.core.may_run_elsewhere(&record, &self.name) {
            if self.held.insert(id.clone()) {
                tracing::info!(
                    node = self.name,
                    instance = %id,
                    "instance not assigned: other nodes were not heard from since the restore"
                );
            }
            return Ok(());
        }
        match assignment(&record) {
            Ok(mut assignment) => {
                assignment.secrets = self.core.secrets().assigned(&record);
                self.send(server_message::Message::Assignment(assignment))
                    .await
            }
            Err(error) => {
                tracing::error!(instance = %id, %error, "instance cannot be assigned");
                Ok(())
            }
        }
    }

    /// Refuses messages of a node in whose place another has joined since.
    fn check_key(&self) -> Result<(), End> {
        let replaced = |node: &Node| !node.keys.contains(&self.certificate.key);
        if self.core.node(&self.name).is_ok_and(|node| replaced(&node)) {
            let why = format!("another node has joined in the place of {}", self.name);
            return Err(Error::new(ErrorKind::PermissionDenied, why).into());
        }
        Ok(())
    }

    async fn handle_message(&mut self, message: NodeMessage, inbox: &Inbox) -> Result<(), End> {
        self.check_key()?;
        match message.message {
            Some(node_message::Message::Report(sent)) => {
                self.handle_reports(inbox.take_reports(sent, MAX_CONCURRENT_REPORTS))
                    .await
            }
            Some(node_message::Message::Refusal(refusal)) => {
                let id: InstanceId = match refusal.id.parse() {
                    Ok(id) => id,
                    Err(_) => return Ok(()),
                };
                tracing::info!(node = self.name, instance = %id, why = refusal.reason, "instance refused by its node");
                let refusal = Refusal {
                    id: &id,
                    generation: refusal.generation,
                    epoch: refusal.epoch,
                    why: &refusal.reason,
                };
                Ok(self.core.refuse(&self.name, &refusal).await?)
            }
            Some(node_message::Message::LeaseHeld(held)) => {
                if held.peers_version == self.peers_version {
                    let witnesses = self.witnesses.as_ref();
                    let lease = self.core.settings().lease;
                    self.core
                        .hold_to_lease(&self.name, lease, witnesses, self.retired.clone())
                        .await?;
                }
                Ok(())
            }
            Some(node_message::Message::Reported(_)) => {
                self.in_inventory = false;
                self.core.note_inventory(&self.name).await?;
                if std::mem::take(&mut self.assigns_after_inventory) {
                    self.send_all_assignments().await?;
                }
                Ok(())
            }
            Some(node_message::Message::Load(_) | node_message::Message::Hello(_)) | None => Ok(()),
        }
    }

    /// Takes in reports of several instances side by side: the store writes
    /// them together.
    async fn handle_reports(&mut self, sent: Vec<v1::InstanceReport>) -> Result<(), End> {
        let reports = sent.iter().filter_map(|sent| match report(sent) {
            Ok(report) => Some(report),
            Err(error) => {
                tracing::warn!(node = self.name, %error, "instance report ignored");
                None
            }
        });
        let reports: Vec<_> = reports.collect();
        let written = reports
            .iter()
            .map(|report| self.core.report(&self.name, report));
        for written in join_all(written).await {
            written?;
        }
        for sent in &sent {
            self.take_inventory(sent).await?;
        }
        Ok(())
    }

    /// Takes in how much the node uses. A node that was lost and reports again
    /// is back; and what a node reaches of the pool may come and go.
    async fn load(&self, load: v1::NodeLoad) -> Result<(), End> {
        let facts = NodeFacts {
            pool: load.pool.as_deref().map(pool),
            ..NodeFacts::default()
        };
        self.measured(load);
        let lost = |node: &Node| node.condition != crate::core::NodeCondition::Ready;
        let other = |node: &Node| facts.pool.as_ref().is_some_and(|id| *id != node.pool);
        let node = self.core.node(&self.name);
        if node.is_ok_and(|node| lost(&node) || other(&node)) {
            self.core.update_node_facts(&self.name, &facts).await?;
            self.core.resume_placements(&self.name).await?;
        }
        Ok(())
    }

    fn measured(&self, load: v1::NodeLoad) {
        let amounts = |amounts: Option<v1::Amounts>| {
            amounts.map_or(Amounts::NONE, |a| Amounts::new(a.cpu, a.memory, a.disk))
        };
        let (machine, instances) = (amounts(load.machine), amounts(load.instances));
        self.core.live().heard(&self.name, machine, instances);
        for one in load.each {
            let Ok(id) = one.id.parse::<InstanceId>() else {
                continue;
            };
            if self.core.own_instance(&self.name, id.as_str()).is_ok() {
                self.core.live().set_instance(&id, amounts(one.used));
                self.core
                    .subscriptions()
                    .notify_instance(&id, Update::Usage);
            }
        }
    }
}

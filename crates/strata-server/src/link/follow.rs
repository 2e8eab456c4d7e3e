//! `schedule.Assignments/Follow`: two tasks for each node. One answers its
//! heartbeats, on the runtime that serves nodes alone; the other owns the
//! link and does all that may wait, where everything else runs.
//!
//! What a node is to have is told from the tables as they are when it is told,
//! so a slow node is told less often and never wrong, and nothing piles up.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::join_all;
use strata_api::schedule::assignments_server::{Assignments, AssignmentsServer};
use strata_api::strata::v1::{
    self, Chunk, Hello, NodeMessage, ServerMessage, node_message, server_message,
};
use strata_api::{LEADER_METADATA, status_from_error};
use strata_identity::{Authority, CertificateId, Revocations};
use strata_scheduler::Resources as Amounts;
use strata_transport::Peer;
use strata_types::instance::InstanceId;
use strata_types::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::assignment::assignment;
use super::calling::calling_node;
use super::heard::{pool, report, seen};
use super::heartbeat::{self, Outgoing};
use super::inbox::{Inbox, Next};
use super::names::{all_names, changed_names};
use super::peer_news::PeerNews;
use super::peers::{changed_peers, peers};
use super::projects::projects;
use super::revoked::in_parts;
use super::tunnels::Tunnels;
use super::witness;
use crate::core::{Core, Dirty, Lead, Node, Registration, Seen, TakeOver, Update, Wanted};

/// How long a node may take for its first message.
const HELLO: Duration = Duration::from_secs(10);
/// How long a node may take to read what it is told.
const STUCK: Duration = Duration::from_secs(30);
/// How long changes of projects are gathered.
const PROJECTS_AFTER: Duration = Duration::from_millis(100);
/// How long a promise may take to be recorded when the server ends.
const AT_THE_END: Duration = Duration::from_secs(2);
/// Reports that are written at the same time.
const REPORTS: usize = 32;
/// Messages on their way to a node.
const AHEAD: usize = 64;

/// The links of this server.
#[derive(Clone)]
pub struct AssignmentsFace {
    core: Core,
    tunnels: Tunnels,
    /// Where links do what may wait.
    runtime: Handle,
    shutdown: CancellationToken,
    authority: Option<Arc<Authority>>,
}

impl AssignmentsFace {
    /// Over this core, until `shutdown`. To be called on the runtime where
    /// the core is.
    pub fn new(core: Core, tunnels: Tunnels, shutdown: CancellationToken) -> Self {
        Self {
            core,
            tunnels,
            runtime: Handle::current(),
            shutdown,
            authority: None,
        }
    }

    /// Has nodes trust the roots of this CA.
    #[must_use]
    pub fn with_authority(mut self, authority: Option<Arc<Authority>>) -> Self {
        self.authority = authority;
        self
    }

    /// The gRPC service.
    pub fn service(self) -> AssignmentsServer<Self> {
        AssignmentsServer::new(self)
    }
}

/// Where a node calls from, and at which address of this host.
fn addresses<T>(request: &Request<T>) -> (Option<IpAddr>, Option<IpAddr>) {
    let peer = request.extensions().get::<Arc<Peer>>();
    let ip = |address: Option<SocketAddr>| Some(address?.ip().to_canonical());
    let remote = ip(peer.and_then(|peer| peer.remote));
    (remote, ip(peer.and_then(|peer| peer.local)))
}

#[tonic::async_trait]
impl Assignments for AssignmentsFace {
    type FollowStream = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;
    type TunnelStream = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<Streaming<NodeMessage>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let refuse = |error: &Error| status_from_error(error);
        let certificate = calling_node(&request).map_err(|error| refuse(&error))?;
        leading(&self.core).map_err(|error| redirect(&self.core, &error))?;
        let (remote, local) = addresses(&request);
        let (outgoing, beats, to_node) = Outgoing::new(AHEAD);
        let link = Link {
            core: self.core.clone(),
            name: certificate.name.to_string(),
            certificate,
            to_node,
            server: local,
            authority: self.authority.clone(),
            peers_version: 0,
            witnesses: None,
            keeps: false,
            takes_deltas: false,
            in_inventory: true,
        };
        let ear = Ear {
            from_node: request.into_inner(),
            beats,
            // The one that serves this connection.
            runtime: Handle::current(),
        };
        let shutdown = self.shutdown.clone();
        self.runtime.spawn(link.run(ear, remote, shutdown));
        Ok(Response::new(Box::pin(outgoing)))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let certificate = calling_node(&request).map_err(|error| status_from_error(&error))?;
        let admitted = self.core.admit_node(&certificate, None).await;
        let node = admitted.map_err(|error| status_from_error(&error))?;
        let answer = {
            let _runtime = self.runtime.enter();
            self.tunnels.open(&node.name, request.into_inner())
        };
        Ok(Response::new(Box::pin(answer)))
    }
}

/// Nodes speak to the server that leads.
fn leading(core: &Core) -> Result<()> {
    match core.lead() {
        Lead::Leading(_) => Ok(()),
        Lead::Following(leader) => {
            let error = Error::unavailable("this server does not lead");
            Err(match leader {
                Some(leader) => error.with_hint(format!("{leader} does")),
                None => error,
            })
        }
    }
}

/// The refusal of a server that does not lead: it says who does.
fn redirect(core: &Core, error: &Error) -> Status {
    let mut status = status_from_error(error);
    if let Lead::Following(Some(leader)) = core.lead()
        && let Ok(leader) = leader.parse()
    {
        status.metadata_mut().insert(LEADER_METADATA, leader);
    }
    status
}

/// The next step of a rotation of the CA; never, where there is none.
/// Says what a node would like to be labelled with, and how that is accepted.
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

/// One node's link.
struct Link {
    core: Core,
    name: String,
    certificate: Arc<CertificateId>,
    to_node: mpsc::Sender<Result<ServerMessage, Status>>,
    /// Where the node reaches this host.
    server: Option<IpAddr>,
    authority: Option<Arc<Authority>>,
    /// Of the peers that the node was last given: what it says of its lease
    /// counts if it is of these.
    peers_version: u64,
    /// The witnesses that it was last given.
    witnesses: Option<BTreeSet<String>>,
    /// The node understands that it is to keep an instance as it is.
    keeps: bool,
    /// The node understands what only changed of its peers.
    takes_deltas: bool,
    /// The node still says what it has from before.
    in_inventory: bool,
}

/// How a node is listened to.
struct Ear {
    from_node: Streaming<NodeMessage>,
    beats: mpsc::Sender<()>,
    runtime: Handle,
}

/// What a node was told of projects, and whether that may be outdated. Many
/// instances change at once; it is told once for all of them, soon after the
/// first.
#[derive(Default)]
struct Projects {
    told: Option<v1::Projects>,
    due_at: Option<Instant>,
}

impl Projects {
    fn changed(&mut self) {
        self.due_at.get_or_insert(Instant::now() + PROJECTS_AFTER);
    }

    /// Until it is time to tell of a change.
    async fn due(&self) {
        match self.due_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// What is to be told, if it differs from what was.
    fn next(&mut self, now: v1::Projects) -> Option<v1::Projects> {
        self.due_at = None;
        if self.told.as_ref() == Some(&now) {
            return None;
        }
        self.told = Some(now.clone());
        Some(now)
    }
}

/// What changed since the node was last told.
struct Told<'a> {
    /// Of its own instances.
    dirty: &'a Dirty<InstanceId>,
    /// Of what instances are called.
    names: &'a Dirty<InstanceId>,
    /// Of the other nodes.
    peers: &'a Dirty<String>,
}

/// Why a link ends.
enum End {
    /// The node hung up, or does not read.
    Gone,
    /// It is told why.
    Because(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Because(error)
    }
}

impl Link {
    async fn run(mut self, ear: Ear, remote: Option<IpAddr>, shutdown: CancellationToken) {
        let ended = self.serve(ear, remote, &shutdown).await;
        if let Err(End::Because(error)) = ended {
            tracing::info!(node = self.name, %error, "the link to a node ends");
            let _ = self.to_node.try_send(Err(redirect(&self.core, &error)));
        } else {
            tracing::info!(node = self.name, "the link to a node ended");
        }
    }

    async fn serve(
        &mut self,
        mut ear: Ear,
        remote: Option<IpAddr>,
        shutdown: &CancellationToken,
    ) -> Result<(), End> {
        let first = tokio::time::timeout(HELLO, ear.from_node.message()).await;
        let Ok(Ok(Some(NodeMessage {
            message: Some(node_message::Message::Hello(hello)),
        }))) = first
        else {
            let why = Error::invalid("message", "the first must be Hello, within 10 s");
            return Err(End::Because(why));
        };
        // Before anything is taken over from another stream of the same name.
        self.admit(&hello).await?;
        self.keeps = hello.keeps;
        self.takes_deltas = hello.peer_deltas;
        self.core.live().clear_unknown(&self.name);
        let subscriptions = self.core.subscriptions();
        let dirty = subscriptions.link(&self.name);
        let names = subscriptions.names(&self.name);
        let peers = subscriptions.peers(&self.name);
        let told = Told {
            dirty: &dirty,
            names: &names,
            peers: &peers,
        };
        let ended = self.talk(hello, ear, remote, told, shutdown).await;
        let subscriptions = self.core.subscriptions();
        subscriptions.unlink(&self.name, &dirty);
        subscriptions.unlink_names(&self.name, &names);
        subscriptions.unlink_peers(&self.name, &peers);
        ended
    }

    async fn talk(
        &mut self,
        hello: Hello,
        ear: Ear,
        remote: Option<IpAddr>,
        told: Told<'_>,
        shutdown: &CancellationToken,
    ) -> Result<(), End> {
        let Told {
            dirty,
            names,
            peers,
        } = told;
        let node = self.welcome(hello, remote).await?;
        tracing::info!(node = self.name, subnet = node.subnet, "a node follows");
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let inbox = self.listen(ear, stop);
        let mut peer_news = PeerNews::default();
        let mut range = self.core.watch_range();
        let revocations = self.core.revocations();
        let mut revoked = revocations.subscribe();
        let mut changes = self.core.subscriptions().projects.subscribe();
        let mut projects = Projects::default();
        self.tell_peers().await?;
        self.tell_revocations(&revocations).await?;
        let mut roots = self.authority.as_ref().map(|ca| ca.subscribe());
        self.tell_trust().await?;
        self.tell_projects(&mut projects).await?;
        for part in all_names(&self.core, &self.name) {
            self.send(part).await?;
        }
        self.tell_all().await?;
        let mut lead = self.core.watch_lead();
        let mut take_overs = self.core.subscriptions().take_overs.subscribe();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return self.farewell().await,
                () = dirty.retired() => {
                    let why = format!("{} has opened another stream", self.name);
                    return Err(End::Because(Error::new(ErrorKind::Aborted, why)));
                }
                _ = lead.changed() => leading(&self.core)?,
                changed = dirty.take() => {
                    for id in changed {
                        self.tell(&id).await?;
                        for next in self.core.room_made_for(&self.name, &id) {
                            self.tell(&next).await?;
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
                    peer_news.changed(changed, nodes);
                }
                () = peer_news.due() => {
                    let changed = peer_news.take();
                    self.tell_changed_peers(&changed).await?;
                }
                Ok(()) = range.changed() => self.tell_peers().await?,
                _ = revoked.changed() => self.tell_revocations(&revocations).await?,
                () = step(roots.as_mut()) => self.tell_trust().await?,
                _ = changes.recv() => projects.changed(),
                () = projects.due() => self.tell_projects(&mut projects).await?,
                next = inbox.next() => match next {
                    Next::Message(message) => self.hear(message, &inbox).await?,
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
    /// until the node is back: that is recorded, then said. Where there are
    /// others, one of them takes over, and the lease goes on.
    async fn farewell(&mut self) -> Result<(), End> {
        if !self.core.settings().alone {
            return Err(Error::unavailable("this server ends").into());
        }
        if self.node_holds_leases() {
            let waiving = self.core.waive_lease_at_the_end(&self.name);
            match tokio::time::timeout(AT_THE_END, waiving).await {
                Ok(Ok(())) => self.send_peers(true).await?,
                Ok(Err(error)) => {
                    tracing::warn!(node = self.name, %error, "the lease of a node goes on");
                }
                Err(_) => tracing::warn!(node = self.name, "the lease of a node goes on"),
            }
        }
        self.send(server_message::Message::Farewell(v1::Farewell {}))
            .await
    }

    fn node_holds_leases(&self) -> bool {
        let node = self.core.node(&self.name);
        node.is_ok_and(|node| node.holds_leases)
    }

    /// Has the node's heartbeats answered, and what else it says kept.
    fn listen(&self, ear: Ear, stop: CancellationToken) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        let (core, name) = (self.core.clone(), self.name.clone());
        let listening =
            heartbeat::listen(core, name, ear.from_node, ear.beats, inbox.clone(), stop);
        ear.runtime.spawn(listening);
        inbox
    }

    /// Registers the node if it is new; refuses the key of another.
    async fn admit(&self, hello: &Hello) -> Result<(), End> {
        let registration = Registration {
            name: self.name.clone(),
            subnet: Some(hello.subnet.clone()).filter(|subnet| !subnet.is_empty()),
        };
        let admitted = self.core.admit_node(&self.certificate, Some(registration));
        Ok(admitted.await.map(drop)?)
    }

    async fn welcome(&self, hello: Hello, remote: Option<IpAddr>) -> Result<Node, End> {
        let mut seen = seen(hello, remote)?;
        let claimed = self.core.claim_address(&self.name, &mut seen, remote);
        claimed.await?;
        self.core.claim_overlay_key(&self.name, &mut seen);
        self.core.claim_labels(&self.certificate, &mut seen);
        let node = self.core.see_node(&self.name, &seen).await?;
        warn_of_requested(&node);
        let settings = self.core.settings();
        self.send(server_message::Message::Welcome(v1::Welcome {
            subnet: node.subnet.clone(),
            range: self.core.range().to_string(),
            lease_ms: u32::try_from(settings.lease.as_millis()).unwrap_or(u32::MAX),
            alone: settings.alone,
            records_promises: true,
            servers: self.core.servers().await,
            term: self.core.term(),
            control_plane: self.core.run_id().await?,
        }))
        .await?;
        Ok(node.record.clone())
    }

    async fn send(&self, message: server_message::Message) -> Result<(), End> {
        let message = ServerMessage {
            message: Some(message),
        };
        match tokio::time::timeout(STUCK, self.to_node.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Gone),
        }
    }

    /// Says who the others are. Where there are none, the node's lease has no
    /// end: that is recorded first, and holds until the node says that it holds
    /// a lease again.
    async fn tell_peers(&mut self) -> Result<(), End> {
        let others = |core: &Core, own: &str| core.nodes().iter().any(|node| node.name != own);
        let waived = !others(&self.core, &self.name) && self.node_holds_leases();
        if waived {
            self.core.waive_lease(&self.name).await?;
        }
        self.send_peers(waived).await
    }

    /// Says which of the others are others now. Where they are few, and witnesses
    /// for each other, all are said.
    async fn tell_changed_peers(&mut self, changed: &BTreeSet<String>) -> Result<(), End> {
        let delta = {
            let tables = self.core.tables();
            let many = tables.nodes.len() > witness::MOST + 1;
            let delta = || changed_peers(&tables, &self.name, self.server, changed);
            (many && self.takes_deltas).then(delta).flatten()
        };
        let Some(delta) = delta else {
            return self.tell_peers().await;
        };
        self.peers_version += 1;
        self.witnesses = None;
        let peers = v1::Peers {
            version: self.peers_version,
            name: self.name.clone(),
            ..delta
        };
        self.send(server_message::Message::Peers(peers)).await
    }

    async fn send_peers(&mut self, waived: bool) -> Result<(), End> {
        self.peers_version += 1;
        let witnesses = match waived {
            true => None,
            false => witness::witnesses(&self.core, &self.name).await?,
        };
        let names = |all: &Vec<v1::Witness>| all.iter().map(|one| one.name.clone()).collect();
        self.witnesses = witnesses.as_ref().map(names);
        if let Some(names) = &self.witnesses {
            self.core.narrow_witnesses(&self.name, names).await?;
        }
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
    async fn tell_revocations(&self, revocations: &Revocations) -> Result<(), End> {
        for part in in_parts(&revocations.list()) {
            self.send(server_message::Message::Revocations(part))
                .await?;
        }
        Ok(())
    }

    /// Has the node trust the roots that are trusted here, and renew its
    /// certificate where another one signs.
    async fn tell_trust(&self) -> Result<(), End> {
        let Some(authority) = &self.authority else {
            return Ok(());
        };
        let trust = v1::TrustBundle {
            ca_pem: authority.ca_pem(),
            issuer: authority.issuer(),
        };
        self.send(server_message::Message::Trust(trust)).await
    }

    async fn tell_projects(&self, projects: &mut Projects) -> Result<(), End> {
        match projects.next(self::projects(&self.core, &self.name)) {
            Some(news) => self.send(server_message::Message::Projects(news)).await,
            None => Ok(()),
        }
    }

    async fn tell_all(&mut self) -> Result<(), End> {
        let all: Vec<InstanceId> = {
            let tables = self.core.tables();
            let on = tables.on_node.get(&self.name);
            // It may have forgotten to say that they are gone.
            let leaving = tables.leaving.get(&self.name);
            let all = on.into_iter().chain(leaving).flatten();
            all.cloned().collect()
        };
        for id in all {
            self.tell(&id).await?;
        }
        let kept = self.core.kept_on(&self.name);
        if !kept.is_empty() && !self.keeps {
            tracing::warn!(
                node = self.name,
                instances = kept.len(),
                "node is of a release that cannot be sent what to keep: nothing is withdrawn from it"
            );
            return Ok(());
        }
        for id in kept {
            self.send_keep(&id).await?;
        }
        self.send(server_message::Message::Complete(v1::Complete {}))
            .await
    }

    /// Has the node leave an instance as it is, whose record cannot be read.
    async fn send_keep(&self, id: &InstanceId) -> Result<(), End> {
        let id = id.to_string();
        self.send(server_message::Message::Keep(v1::Keep { id }))
            .await
    }

    /// Takes in what a node has that no record here is of, and withdraws what
    /// is another node's by now or was deleted.
    async fn take_inventory(&mut self, told: &v1::InstanceReport) -> Result<(), End> {
        let Ok(id) = told.id.parse::<InstanceId>() else {
            return Ok(());
        };
        let (known, unreadable) = {
            let tables = self.core.tables();
            let known = tables.instances.get(&id);
            let known = known.map(|one| (one.node.clone(), one.epoch));
            let key = crate::core::keys::instance(&id);
            (known, tables.unreadable.contains_key(&key))
        };
        let is_there = told.state() != v1::PodState::Unspecified;
        let unknown = is_there && known.is_none() && !unreadable;
        self.core.live().note_unknown(&self.name, told, unknown);
        let epoch = known.as_ref().map_or(0, |(_, epoch)| *epoch);
        let elsewhere = known.is_some_and(|(node, _)| node.as_deref() != Some(&*self.name));
        let gone = unknown && self.in_inventory && self.core.was_deleted(&id).await?;
        if self.in_inventory && is_there && (elsewhere || gone) {
            self.withdraw(&id, false, epoch).await?;
        }
        Ok(())
    }

    /// Takes an instance off the node, of this placement or an earlier one.
    async fn withdraw(&self, id: &InstanceId, orphaned: bool, epoch: u64) -> Result<(), End> {
        let id = id.to_string();
        let withdrawal = v1::Withdrawal {
            id,
            orphaned,
            epoch,
        };
        self.send(server_message::Message::Withdrawal(withdrawal))
            .await
    }

    /// Tells what is to be of one instance, as it is now.
    async fn tell(&mut self, id: &InstanceId) -> Result<(), End> {
        let record = self.core.tables().instances.get(id).cloned();
        let Some(record) = record else {
            if self.core.kept_on(&self.name).contains(id) {
                return self.send_keep(id).await;
            }
            // One that is deleted has a record until its node has nothing of
            // it: this one vanished, or is gone from its node already.
            return self.withdraw(id, true, 0).await;
        };
        let ours = record.node.as_deref() == Some(&*self.name) && record.wanted != Wanted::Gone;
        if !ours || record.leaves(&self.name).is_some() {
            // Also what it was never told of: it may have it from before.
            return self.withdraw(id, false, record.epoch).await;
        }
        if !record.is_assignable() || self.core.waits_for_room(&record) {
            // Not before the node where it was has said that it is gone, and
            // not before this one has room for it.
            return Ok(());
        }
        match assignment(&record) {
            Ok(mut assignment) => {
                assignment.secrets = self.core.assigned_secrets(&record);
                self.send(server_message::Message::Assignment(assignment))
                    .await
            }
            Err(error) => {
                tracing::error!(instance = %id, %error, "an instance cannot be assigned");
                Ok(())
            }
        }
    }

    /// Refuses what a node says in whose place another has joined since.
    fn check_key(&self) -> Result<(), End> {
        let replaced = |node: &Node| !node.keys.contains(&self.certificate.key);
        if self.core.node(&self.name).is_ok_and(|node| replaced(&node)) {
            let why = format!("another node has joined in the place of {}", self.name);
            return Err(Error::new(ErrorKind::PermissionDenied, why).into());
        }
        Ok(())
    }

    async fn hear(&mut self, message: NodeMessage, inbox: &Inbox) -> Result<(), End> {
        self.check_key()?;
        match message.message {
            Some(node_message::Message::Report(told)) => {
                self.hear_reports(inbox.take_reports(told, REPORTS)).await
            }
            Some(node_message::Message::Refusal(refusal)) => {
                let id: InstanceId = match refusal.id.parse() {
                    Ok(id) => id,
                    Err(_) => return Ok(()),
                };
                tracing::info!(node = self.name, instance = %id, why = refusal.reason, "refused");
                let (generation, why) = (refusal.generation, &refusal.reason);
                Ok(self.core.refuse(&self.name, &id, generation, why).await?)
            }
            Some(node_message::Message::LeaseHeld(held)) => {
                if held.peers_version == self.peers_version {
                    let witnesses = self.witnesses.as_ref();
                    self.core.hold_to_lease(&self.name, witnesses).await?;
                }
                Ok(())
            }
            Some(node_message::Message::Reported(_)) => {
                self.in_inventory = false;
                Ok(())
            }
            Some(node_message::Message::Load(_) | node_message::Message::Hello(_)) | None => Ok(()),
        }
    }

    /// Takes in reports of several instances side by side: the store writes
    /// them together.
    async fn hear_reports(&mut self, told: Vec<v1::InstanceReport>) -> Result<(), End> {
        let reports = told.iter().filter_map(|told| match report(told) {
            Ok(report) => Some(report),
            Err(error) => {
                tracing::warn!(node = self.name, %error, "a report is left out");
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
        for told in &told {
            self.take_inventory(told).await?;
        }
        Ok(())
    }

    /// Takes in how much the node uses. Whoever was lost and speaks again is
    /// back; and what a node reaches of the pool may come and go.
    async fn load(&self, load: v1::NodeLoad) -> Result<(), End> {
        let seen = Seen {
            pool: load.pool.as_deref().map(pool),
            ..Seen::default()
        };
        self.measured(load);
        let lost = |node: &Node| node.condition != crate::core::NodeCondition::Ready;
        let other = |node: &Node| seen.pool.as_ref().is_some_and(|id| *id != node.pool);
        let node = self.core.node(&self.name);
        if node.is_ok_and(|node| lost(&node) || other(&node)) {
            self.core.see_node(&self.name, &seen).await?;
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
                self.core.subscriptions().tell_instance(&id, Update::Usage);
            }
        }
    }
}

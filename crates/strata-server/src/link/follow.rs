//! `schedule.Assignments/Follow`: one task for each node, that owns its link.
//!
//! What a node is to have is told from the tables as they are when it is told,
//! so a slow node is told less often and never wrong, and nothing piles up.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use strata_api::schedule::assignments_server::{Assignments, AssignmentsServer};
use strata_api::status_from_error;
use strata_api::strata::v1::{
    self, Chunk, Hello, NodeMessage, ServerMessage, node_message, server_message,
};
use strata_identity::Caller;
use strata_scheduler::Resources as Amounts;
use strata_transport::Peer;
use strata_types::instance::InstanceId;
use strata_types::{Error, ErrorKind, Result, Role};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::assignment::assignment;
use super::heard::{pool, report, seen};
use super::tunnels::Tunnels;
use crate::core::{Core, Dirty, Lead, Node, Registration, Seen, Update, Wanted};

/// How long a node may take for its first message.
const HELLO: Duration = Duration::from_secs(10);
/// How long a node may take to read what it is told.
const STUCK: Duration = Duration::from_secs(30);
/// Messages on their way to a node.
const AHEAD: usize = 64;

/// The links of this server.
#[derive(Clone)]
pub struct AssignmentsFace {
    core: Core,
    tunnels: Tunnels,
    shutdown: CancellationToken,
}

impl AssignmentsFace {
    /// Over this core, until `shutdown`.
    pub fn new(core: Core, tunnels: Tunnels, shutdown: CancellationToken) -> Self {
        Self {
            core,
            tunnels,
            shutdown,
        }
    }

    /// The gRPC service.
    pub fn service(self) -> AssignmentsServer<Self> {
        AssignmentsServer::new(self)
    }
}

/// The node that calls.
pub(crate) fn calling_node<T>(request: &Request<T>) -> Result<String> {
    let caller = request.extensions().get::<Caller>();
    match caller {
        Some(caller) if caller.role == Role::Node => Ok(caller.name.to_string()),
        _ => Err(Error::new(
            ErrorKind::PermissionDenied,
            "only a node can speak of itself; call with a certificate of the role node",
        )),
    }
}

fn remote_address<T>(request: &Request<T>) -> Option<IpAddr> {
    let remote = request.extensions().get::<Arc<Peer>>()?.remote?;
    Some(remote.ip().to_canonical())
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
        let name = calling_node(&request).map_err(|error| refuse(&error))?;
        leading(&self.core).map_err(|error| refuse(&error))?;
        let remote = remote_address(&request);
        let (to_node, messages) = mpsc::channel(AHEAD);
        let link = Link {
            core: self.core.clone(),
            name,
            to_node,
        };
        let (from_node, shutdown) = (request.into_inner(), self.shutdown.clone());
        tokio::spawn(link.run(from_node, remote, shutdown));
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let name = calling_node(&request).map_err(|error| status_from_error(&error))?;
        let answer = self.tunnels.open(&name, request.into_inner());
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

/// One node's link.
struct Link {
    core: Core,
    name: String,
    to_node: mpsc::Sender<Result<ServerMessage, Status>>,
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
    async fn run(
        mut self,
        from_node: Streaming<NodeMessage>,
        remote: Option<IpAddr>,
        shutdown: CancellationToken,
    ) {
        let dirty = self.core.subscriptions().link(&self.name);
        let ended = self.serve(from_node, remote, &dirty, &shutdown).await;
        self.core.subscriptions().unlink(&self.name, &dirty);
        if let Err(End::Because(error)) = ended {
            tracing::info!(node = self.name, %error, "the link to a node ends");
            let _ = self.to_node.try_send(Err(status_from_error(&error)));
        } else {
            tracing::info!(node = self.name, "the link to a node ended");
        }
    }

    async fn serve(
        &mut self,
        mut from_node: Streaming<NodeMessage>,
        remote: Option<IpAddr>,
        dirty: &Arc<Dirty<InstanceId>>,
        shutdown: &CancellationToken,
    ) -> Result<(), End> {
        let first = tokio::time::timeout(HELLO, from_node.message()).await;
        let Ok(Ok(Some(NodeMessage {
            message: Some(node_message::Message::Hello(hello)),
        }))) = first
        else {
            let why = Error::invalid("message", "the first must be Hello, within 10 s");
            return Err(End::Because(why));
        };
        let node = self.welcome(hello, remote).await?;
        tracing::info!(node = self.name, subnet = node.subnet, "a node follows");
        let mut peers = self.core.subscriptions().peers.subscribe();
        self.tell_peers().await?;
        self.tell_all().await?;
        let mut lead = self.core.watch_lead();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => {
                    return self.send(server_message::Message::Farewell(v1::Farewell {})).await;
                }
                () = dirty.retired() => {
                    let why = format!("{} has opened another stream", self.name);
                    return Err(End::Because(Error::new(ErrorKind::Aborted, why)));
                }
                _ = lead.changed() => leading(&self.core)?,
                changed = dirty.take() => {
                    for id in changed {
                        self.tell(&id).await?;
                    }
                }
                _ = peers.recv() => self.tell_peers().await?,
                message = from_node.message() => match message {
                    Ok(Some(message)) => self.hear(message).await?,
                    Ok(None) | Err(_) => return Err(End::Gone),
                },
            }
        }
    }

    async fn welcome(&self, hello: Hello, remote: Option<IpAddr>) -> Result<Node, End> {
        let registration = Registration {
            name: self.name.clone(),
            subnet: Some(hello.subnet.clone()).filter(|subnet| !subnet.is_empty()),
        };
        self.core.register_node(&registration).await?;
        let seen = seen(hello, remote)?;
        let node = self.core.see_node(&self.name, &seen).await?;
        let settings = self.core.settings();
        self.send(server_message::Message::Welcome(v1::Welcome {
            subnet: node.subnet.clone(),
            range: settings.range.to_string(),
            lease_ms: u32::try_from(settings.lease.as_millis()).unwrap_or(u32::MAX),
            alone: settings.alone,
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

    async fn tell_peers(&self) -> Result<(), End> {
        let nodes = self.core.nodes();
        let peers = nodes
            .iter()
            .filter(|node| node.name != self.name && !node.address.is_empty())
            .map(|node| v1::Peer {
                name: node.name.clone(),
                address: node.address.clone(),
                subnet: node.subnet.clone(),
            });
        let peers = v1::Peers {
            peers: peers.collect(),
            others: nodes.iter().any(|node| node.name != self.name),
        };
        self.send(server_message::Message::Peers(peers)).await
    }

    async fn tell_all(&mut self) -> Result<(), End> {
        let all: Vec<InstanceId> = {
            let tables = self.core.tables();
            let on = tables.on_node.get(&self.name);
            on.into_iter().flatten().cloned().collect()
        };
        for id in all {
            self.tell(&id).await?;
        }
        self.send(server_message::Message::Complete(v1::Complete {}))
            .await
    }

    /// Tells what is to be of one instance, as it is now.
    async fn tell(&mut self, id: &InstanceId) -> Result<(), End> {
        let record = self.core.tables().instances.get(id).cloned();
        let ours = record
            .filter(|one| one.node.as_deref() == Some(&*self.name) && one.wanted != Wanted::Gone);
        let Some(record) = ours else {
            // Also what it was never told of: it may have it from before.
            let id = id.to_string();
            let withdrawal = v1::Withdrawal { id };
            return self
                .send(server_message::Message::Withdrawal(withdrawal))
                .await;
        };
        match assignment(&record) {
            Ok(assignment) => {
                self.send(server_message::Message::Assignment(assignment))
                    .await
            }
            Err(error) => {
                tracing::error!(instance = %id, %error, "an instance cannot be assigned");
                Ok(())
            }
        }
    }

    async fn hear(&mut self, message: NodeMessage) -> Result<(), End> {
        self.core.live().alive(&self.name);
        match message.message {
            Some(node_message::Message::Load(load)) => {
                let seen = Seen {
                    pool: load.pool.as_deref().map(pool),
                    ..Seen::default()
                };
                self.load(load);
                // Whoever was lost and speaks again is back; and what a node
                // reaches of the pool may come and go.
                let lost = |node: &Node| node.condition != crate::core::NodeCondition::Ready;
                let other = |node: &Node| seen.pool.as_ref().is_some_and(|id| *id != node.pool);
                let node = self.core.node(&self.name);
                if node.is_ok_and(|node| lost(&node) || other(&node)) {
                    self.core.see_node(&self.name, &seen).await?;
                }
                self.send(server_message::Message::Beat(v1::Beat {})).await
            }
            Some(node_message::Message::Report(told)) => {
                match report(&told) {
                    Ok(report) => self.core.report(&self.name, &report).await?,
                    Err(error) => tracing::warn!(node = self.name, %error, "a report is left out"),
                }
                Ok(())
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
            Some(node_message::Message::Reported(_) | node_message::Message::Hello(_)) | None => {
                Ok(())
            }
        }
    }

    fn load(&self, load: v1::NodeLoad) {
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

//! Package `scheduler`, as published: nodes that register and tell their
//! status, instances that are created, started, stopped and destroyed.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use strata_api::instance_fields::{kind_from_scheduler, state_to_scheduler};
use strata_api::scheduler::instance_service_server::{InstanceService, InstanceServiceServer};
use strata_api::scheduler::node_service_server::{NodeService, NodeServiceServer};
use strata_api::scheduler::{
    self as wire, InstanceIdentifier, InstanceStatus, NodeRegisterRequest, NodeRegisterResponse,
    NodeStatus, NodeUnregisterRequest, NodeUnregisterResponse,
};
use strata_api::status_from_error;
use strata_identity::{Authority, Caller};
use strata_scheduler::Resources as Amounts;
use strata_transport::Peer;
use strata_types::instance::{InstanceId, InstanceSpec, InstanceState};
use strata_types::{Error, ErrorKind, Label, Result, Role};
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::core::{
    Core, DEFAULT_PROJECT, Instance, InstanceWatch, Kept, NewInstance, Registration, Seen, Update,
    Who,
};
use crate::link::{calling_node, remote_address};

/// Refusals of Register and Unregister, as numbers. 0 is success.
pub mod codes {
    /// It is no certificate in PEM.
    pub const UNREADABLE: i32 = 1;
    /// It is not the one that the caller authenticated with.
    pub const NOT_THE_CALLERS: i32 = 2;
    /// It is not a node's.
    pub const NOT_A_NODE: i32 = 3;
    /// All subnets are given away.
    pub const NO_SUBNET: i32 = 4;
    /// There is no such node.
    pub const UNKNOWN: i32 = 5;
    /// It may work later.
    pub const LATER: i32 = 6;
}

/// Nodes.
#[derive(Clone)]
pub struct NodeFace {
    core: Core,
    authority: Arc<Authority>,
}

impl NodeFace {
    /// Over this core, for nodes of this CA.
    pub fn new(core: Core, authority: Arc<Authority>) -> Self {
        Self { core, authority }
    }

    /// The gRPC service.
    pub fn service(self) -> NodeServiceServer<Self> {
        NodeServiceServer::new(self).max_decoding_message_size(64 * 1024)
    }

    /// The name of the node whose certificate this is.
    fn check(&self, request: &Request<NodeRegisterRequest>) -> Result<String, (i32, String)> {
        let refuse = |code: i32, why: &str| (code, why.to_owned());
        let der = strata_identity::certificate_from_pem(&request.get_ref().certificate)
            .ok_or_else(|| {
                refuse(
                    codes::UNREADABLE,
                    "certificate is not one certificate in PEM",
                )
            })?;
        let peer = request.extensions().get::<Arc<Peer>>();
        let shown = peer.and_then(|peer| peer.certificate.as_ref());
        if shown.is_none_or(|shown| shown.as_ref() != der.as_slice()) {
            let why = "certificate is not the one that the caller authenticated with";
            return Err(refuse(codes::NOT_THE_CALLERS, why));
        }
        // Who shows it has proven it to our CA: TLS checked the chain.
        let _ = &self.authority;
        match strata_identity::caller_from_certificate(&der) {
            Ok(caller) if caller.role == Role::Node => Ok(caller.name.to_string()),
            Ok(caller) => Err((
                codes::NOT_A_NODE,
                format!("{} has the role {}, not node", caller.name, caller.role),
            )),
            Err(error) => Err((codes::NOT_A_NODE, error.to_string())),
        }
    }

    async fn heard(&self, node: &str, status: &NodeStatus) -> Result<()> {
        if status.id != node {
            let why = format!("is {:?}; {node} may speak of itself only", status.id);
            return Err(Error::new(ErrorKind::PermissionDenied, why).in_field("id"));
        }
        let state = wire::Status::try_from(status.status)
            .map_err(|_| Error::invalid("status", format!("{} is unknown", status.status)))?;
        let resource = status.resource.unwrap_or_default();
        let read = |field, amounts: Option<_>| amounts.map(|one| capacity(field, one)).transpose();
        let limit = read("resource.limit", resource.limit)?;
        let usage = read("resource.usage", resource.usage)?;
        let fails = (state == wire::Status::Failed).then(|| match &*status.status_description {
            "" => "it says that it has failed".to_owned(),
            why => why.chars().take(512).collect(),
        });
        let seen = Seen {
            capacity: limit,
            fails,
            ..Seen::default()
        };
        self.core.node(node).map_err(|_| {
            Error::wrong_state(format!("{node} is not registered")).with_hint("call Register first")
        })?;
        self.core.see_node(node, &seen).await?;
        if let Some((cpu, memory, disk)) = usage {
            let used = Amounts::new(cpu, memory, disk);
            self.core.live().heard(node, used, used);
        }
        Ok(())
    }
}

fn capacity(field: &str, summary: wire::ResourceSummary) -> Result<(u64, u64, u64)> {
    for (name, n) in [
        ("cpu", summary.cpu),
        ("memory", summary.memory),
        ("disk", summary.disk),
    ] {
        if n < 0 {
            let why = format!("is {n}; it must not be less than 0");
            return Err(Error::invalid(format!("{field}.{name}"), why));
        }
    }
    Ok(capacity_of(summary))
}

fn capacity_of(summary: wire::ResourceSummary) -> (u64, u64, u64) {
    let amount = |n: i32, unit: u64| u64::try_from(n).unwrap_or(0) * unit;
    (
        amount(summary.cpu, 1),
        amount(summary.memory, 1_000_000),
        amount(summary.disk, 1_000_000_000),
    )
}

fn refused(error: &Error) -> Status {
    status_from_error(error)
}

#[tonic::async_trait]
impl NodeService for NodeFace {
    async fn register(
        &self,
        request: Request<NodeRegisterRequest>,
    ) -> Result<Response<NodeRegisterResponse>, Status> {
        let refuse = |code: i32, description: String| {
            Ok(Response::new(NodeRegisterResponse {
                code,
                description,
                subnet: String::new(),
            }))
        };
        let name = match self.check(&request) {
            Ok(name) => name,
            Err((code, why)) => return refuse(code, why),
        };
        let registration = Registration { name, subnet: None };
        match self.core.register_node(&registration).await {
            Ok(node) => {
                if node.address.is_empty()
                    && let Some(address) = remote_address(&request)
                {
                    tracing::debug!(node = node.name, %address, "registered");
                }
                Ok(Response::new(NodeRegisterResponse {
                    code: 0,
                    description: format!("{} is registered", node.name),
                    subnet: node.subnet.clone(),
                }))
            }
            Err(error) if error.kind() == ErrorKind::Exhausted => {
                refuse(codes::NO_SUBNET, error.to_string())
            }
            Err(error) => refuse(codes::LATER, error.to_string()),
        }
    }

    async fn status(
        &self,
        request: Request<Streaming<NodeStatus>>,
    ) -> Result<Response<()>, Status> {
        let node = calling_node(&request).map_err(|error| refused(&error))?;
        let mut statuses = request.into_inner();
        while let Some(status) = statuses.message().await? {
            self.heard(&node, &status)
                .await
                .map_err(|error| refused(&error))?;
        }
        Ok(Response::new(()))
    }

    async fn unregister(
        &self,
        request: Request<NodeUnregisterRequest>,
    ) -> Result<Response<NodeUnregisterResponse>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let id = request.into_inner().id;
        if let Some(caller) = caller
            && caller.role == Role::Node
            && caller.name.to_string() != id
        {
            let why = format!("{} may unregister itself only", caller.name);
            return Err(refused(&Error::new(ErrorKind::PermissionDenied, why)));
        }
        let (code, description) = match self.core.leave_node(&id).await {
            Ok(_) => (0, format!("{id} leaves when its instances run elsewhere")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (codes::UNKNOWN, error.to_string())
            }
            Err(error) => (codes::LATER, error.to_string()),
        };
        Ok(Response::new(NodeUnregisterResponse { code, description }))
    }
}

/// Instances.
#[derive(Clone)]
pub struct InstanceFace {
    core: Core,
}

impl InstanceFace {
    /// Over this core.
    pub fn new(core: Core) -> Self {
        Self { core }
    }

    /// The gRPC service.
    pub fn service(self) -> InstanceServiceServer<Self> {
        InstanceServiceServer::new(self)
    }

    fn find<T>(&self, request: &Request<T>, id: &str) -> Result<(Who, InstanceId)> {
        let who = who(request)?;
        if id.is_empty() {
            return Err(Error::invalid("id", "must not be empty"));
        }
        let found = self.core.instance(&who, None, id)?;
        Ok((who, found.id.clone()))
    }
}

pub(crate) fn who<T>(request: &Request<T>) -> Result<Who> {
    let nobody = || Error::new(ErrorKind::Unauthenticated, "nobody has said who calls");
    let caller = request.extensions().get::<Caller>().ok_or_else(nobody)?;
    Ok(Who::from(caller))
}

/// What the published message asks for.
fn new_instance(wire: wire::Instance) -> Result<NewInstance> {
    let kind = wire::Type::try_from(wire.r#type)
        .map_err(|_| Error::invalid("type", format!("{} is unknown", wire.r#type)))?;
    let limit = wire.resource.and_then(|resource| resource.limit);
    let port = |(i, port): (usize, &wire::Port)| {
        for (name, n) in [("source", port.source), ("destination", port.destination)] {
            if !(1..=65_535).contains(&n) {
                let why = format!("is {n}; it must be 1 to 65535");
                return Err(Error::invalid(format!("ports[{i}].{name}"), why));
            }
        }
        Ok(format!("{}:{}", port.source, port.destination))
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    if !wire.ip.is_empty() {
        let why = "is given by the node; leave it empty";
        return Err(Error::invalid("ip", why));
    }
    Ok(NewInstance {
        id: some(wire.id).map(|id| id.parse()).transpose()?,
        name: some(wire.name)
            .map(|name| Label::from_field("name", &name))
            .transpose()?,
        project: Label::from_field("project", DEFAULT_PROJECT)?,
        workload: None,
        spec: InstanceSpec {
            kind: kind_from_scheduler(kind),
            uri: wire.uri,
            environment: wire.environnement,
            resources: limit.map(Into::into).unwrap_or_default(),
            ports: wire
                .ports
                .iter()
                .enumerate()
                .map(port)
                .collect::<Result<_>>()?,
            ..InstanceSpec::default()
        },
        stopped: false,
    })
    .and_then(|new: NewInstance| {
        // The document calls them otherwise.
        let renamed = |error: Error| match error.field() {
            Some(field) if field.starts_with("environment") => {
                let field = field.replacen("environment", "environnement", 1);
                error.in_field(field)
            }
            Some(field) if field.starts_with("resources") => {
                let field = field.replacen("resources", "resource.limit", 1);
                error.in_field(field)
            }
            _ => error,
        };
        new.spec.check().map_err(renamed)?;
        Ok(new)
    })
}

#[tonic::async_trait]
impl InstanceService for InstanceFace {
    type CreateStream = Pin<Box<dyn Stream<Item = Result<InstanceStatus, Status>> + Send>>;

    async fn create(
        &self,
        request: Request<wire::Instance>,
    ) -> Result<Response<Self::CreateStream>, Status> {
        let asked = async {
            let who = who(&request)?;
            let mut new = new_instance(request.into_inner())?;
            // Known beforehand, so that no change is missed.
            let id = match &new.id {
                Some(id) => id.clone(),
                None => uuid::Uuid::now_v7().to_string().parse()?,
            };
            let (_, changes) = self.core.watch_instance(&id);
            new.id = Some(id.clone());
            let (made, _) = self.core.create_instance(&who, new).await?;
            // The same request as before may have found another id.
            let changes = match made.id == id {
                true => changes,
                false => self.core.watch_instance(&made.id).1,
            };
            Ok((made, changes))
        };
        let (made, changes) = asked.await.map_err(|error: Error| refused(&error))?;
        let (sender, statuses) = mpsc::channel(16);
        tokio::spawn(tell(self.core.clone(), made, changes, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(statuses))))
    }

    async fn start(&self, request: Request<InstanceIdentifier>) -> Result<Response<()>, Status> {
        let (who, id) = self
            .find(&request, &request.get_ref().id)
            .map_err(|error| refused(&error))?;
        let started = self.core.start_instance(&who, &id).await;
        started
            .map(|_| Response::new(()))
            .map_err(|error| refused(&error))
    }

    async fn stop(&self, request: Request<InstanceIdentifier>) -> Result<Response<()>, Status> {
        let (who, id) = self
            .find(&request, &request.get_ref().id)
            .map_err(|error| refused(&error))?;
        let stopped = self.core.stop_instance(&who, &id).await;
        stopped
            .map(|_| Response::new(()))
            .map_err(|error| refused(&error))
    }

    async fn destroy(&self, request: Request<InstanceIdentifier>) -> Result<Response<()>, Status> {
        let (who, id) = self
            .find(&request, &request.get_ref().id)
            .map_err(|error| refused(&error))?;
        let gone = self
            .core
            .delete_instance(&who, &id, Default::default())
            .await;
        gone.map(|()| Response::new(()))
            .map_err(|error| refused(&error))
    }
}

/// Tells every change until the end of the instance, or of whoever listens.
async fn tell(
    core: Core,
    made: Arc<Kept<Instance>>,
    mut changes: InstanceWatch,
    sender: mpsc::Sender<Result<InstanceStatus, Status>>,
) {
    let mut last = (0, status(&core, &made));
    if sender.send(Ok(last.1.clone())).await.is_err() || is_last(&made) {
        return;
    }
    last.0 = made.revision;
    let mut latest = made;
    loop {
        let update = tokio::select! {
            () = sender.closed() => return,
            update = changes.next() => update,
        };
        let next = match update {
            Ok(Update::Is(next)) if next.revision <= last.0 => continue,
            Ok(Update::Is(next)) => next,
            Ok(Update::Usage) => latest.clone(),
            Ok(Update::Gone(was)) => {
                let mut gone = status(&core, &was);
                gone.status = state_to_scheduler(InstanceState::Terminated).into();
                gone.status_description = String::new();
                let _ = sender.send(Ok(gone)).await;
                return;
            }
            // Too slow for every change: the latest, then on.
            Err(broadcast::error::RecvError::Lagged(_)) => {
                match core.watch_instance(&latest.id).0 {
                    Some(now) => now,
                    None => latest.clone(),
                }
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        let told = status(&core, &next);
        last.0 = next.revision;
        if told != last.1 {
            if sender.send(Ok(told.clone())).await.is_err() {
                return;
            }
            last.1 = told;
        }
        if is_last(&next) {
            return;
        }
        latest = next;
    }
}

/// Whether the stream ends with it.
fn is_last(instance: &Instance) -> bool {
    matches!(
        instance.state,
        InstanceState::Failed | InstanceState::Terminated
    )
}

fn status(core: &Core, instance: &Instance) -> InstanceStatus {
    let usage = (instance.state == InstanceState::Running).then(|| core.live().usage(&instance.id));
    InstanceStatus {
        id: instance.id.to_string(),
        status: state_to_scheduler(instance.state).into(),
        status_description: instance.description.clone(),
        resource: Some(wire::Resource {
            limit: Some(instance.spec.resources.into()),
            usage: usage.map(Into::into),
        }),
    }
}

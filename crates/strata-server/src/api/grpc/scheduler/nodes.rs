//! `scheduler.NodeService`: nodes that register, report their status and leave.

use std::sync::Arc;

use strata_api::instance_fields::state_from_scheduler;
use strata_api::scheduler::node_service_server::{NodeService, NodeServiceServer};
use strata_api::scheduler::{
    self as wire, NodeRegisterRequest, NodeRegisterResponse, NodeStatus, NodeUnregisterRequest,
    NodeUnregisterResponse,
};
use strata_api::status_from_error;
use strata_scheduler::Resources as Amounts;
use strata_transport::Peer;
use strata_types::{Error, ErrorKind, Result, Role};
use tonic::{Request, Response, Status, Streaming};

use crate::core::{Core, NodeFacts, NodeReport, Registration};
use crate::link::{calling_node, node_certificate};

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
    /// The node of that name has another key, or was removed.
    pub const NOT_THE_NODES: i32 = 7;
}

#[derive(Clone)]
pub struct NodeApi {
    core: Core,
}

impl NodeApi {
    pub fn new(core: Core) -> Self {
        Self { core }
    }

    pub fn service(self) -> NodeServiceServer<Self> {
        NodeServiceServer::new(self).max_decoding_message_size(64 * 1024)
    }

    /// The name of the node whose certificate this is.
    fn check(request: &Request<NodeRegisterRequest>) -> Result<String, (i32, String)> {
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
        // It chains to our CA: TLS checked that of what is shown.
        match strata_identity::caller_from_certificate(&der) {
            Ok(caller) if caller.role == Role::Node => Ok(caller.name.to_string()),
            Ok(caller) => Err((
                codes::NOT_A_NODE,
                format!("{} has the role {}, not node", caller.name, caller.role),
            )),
            Err(error) => Err((codes::NOT_A_NODE, error.to_string())),
        }
    }

    async fn record_heartbeat(&self, node: &str, status: &NodeStatus) -> Result<()> {
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
        let reported = NodeReport::of(state_from_scheduler(state), &status.status_description);
        let facts = NodeFacts {
            capacity: limit,
            reported: Some(reported),
            ..NodeFacts::default()
        };
        self.core.node(node).map_err(|_| {
            Error::wrong_state(format!("{node} is not registered")).with_hint("call Register first")
        })?;
        self.core.update_node_facts(node, &facts).await?;
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

#[tonic::async_trait]
impl NodeService for NodeApi {
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
        let name = match Self::check(&request) {
            Ok(name) => name,
            Err((code, why)) => return refuse(code, why),
        };
        let certificate = match calling_node(&request) {
            Ok(certificate) if certificate.name.as_str() == name => certificate,
            // A token beside the certificate is of another caller.
            Ok(_) | Err(_) => {
                let why = "call with the node's certificate, and without a token";
                return refuse(codes::NOT_A_NODE, why.to_owned());
            }
        };
        let registration = Registration { name, subnet: None };
        let admitted = self
            .core
            .authenticate_node(&certificate, Some(registration));
        match admitted.await {
            Ok(node) => Ok(Response::new(NodeRegisterResponse {
                code: 0,
                description: format!("{} is registered", node.name),
                subnet: node.subnet.clone(),
            })),
            Err(error) if error.kind() == ErrorKind::Exhausted => {
                refuse(codes::NO_SUBNET, error.to_string())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::Unauthenticated
                ) =>
            {
                refuse(codes::NOT_THE_NODES, error.to_string())
            }
            Err(error) => refuse(codes::LATER, error.to_string()),
        }
    }

    async fn status(
        &self,
        request: Request<Streaming<NodeStatus>>,
    ) -> Result<Response<()>, Status> {
        let refused = |error: Error| status_from_error(&error);
        let certificate = calling_node(&request).map_err(refused)?;
        let mut statuses = request.into_inner();
        while let Some(status) = statuses.message().await? {
            // Each time: another may have taken its place meanwhile.
            let admitted = self.core.authenticate_node(&certificate, None).await;
            let node = admitted.map_err(refused)?;
            self.record_heartbeat(&node.name, &status)
                .await
                .map_err(refused)?;
        }
        Ok(Response::new(()))
    }

    async fn unregister(
        &self,
        request: Request<NodeUnregisterRequest>,
    ) -> Result<Response<NodeUnregisterResponse>, Status> {
        let refused = |error: Error| status_from_error(&error);
        let certificate = node_certificate(&request).map_err(refused)?;
        let id = request.into_inner().id;
        if let Some(certificate) = &certificate {
            if certificate.name.as_str() != id {
                let why = format!("{} may unregister itself only", certificate.name);
                return Err(refused(Error::new(ErrorKind::PermissionDenied, why)));
            }
            if self.core.node(&id).is_ok() {
                let admitted = self.core.authenticate_node(certificate, None).await;
                admitted.map_err(refused)?;
            }
        }
        // As published, it may register again; a node that is to stay away is
        // removed.
        let (code, description) = match self.core.leave_node(&id, false).await {
            Ok(_) => (0, format!("{id} leaves when its instances run elsewhere")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (codes::UNKNOWN, error.to_string())
            }
            Err(error) => (codes::LATER, error.to_string()),
        };
        Ok(Response::new(NodeUnregisterResponse { code, description }))
    }
}

//! The ways to nodes: each node opens a tunnel, over which its own API is
//! called. What is asked is asked for somebody, whose name and role go with
//! each call: the node judges by those.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use strata_api::strata::v1::Chunk;
use strata_transport::{CALLER_NAME, CALLER_ROLE, TunnelIo};
use strata_types::{Error, Result};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use crate::core::Who;

/// How long a node may take to speak HTTP/2 on a new tunnel.
const PATIENCE: Duration = Duration::from_secs(10);

/// Every tunnel there is. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tunnels(Arc<Mutex<HashMap<String, Channel>>>);

/// A node's API, called for somebody.
pub type NodeChannel = InterceptedService<Channel, OnBehalf>;

impl Tunnels {
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a node's tunnel into use; an older one of the same node is left.
    pub(super) fn open(
        &self,
        node: &str,
        incoming: Streaming<Chunk>,
    ) -> ReceiverStream<Result<Chunk, Status>> {
        let (io, answer) = TunnelIo::answering(incoming);
        let (all, node) = (self.clone(), node.to_owned());
        tokio::spawn(async move {
            let mut io = Some(TokioIo::new(io));
            let connector = tower::service_fn(move |_: http::Uri| {
                // One tunnel is one connection: the node opens the next.
                let io = io
                    .take()
                    .ok_or_else(|| std::io::Error::other("the tunnel ended"));
                std::future::ready(io)
            });
            let endpoint = Endpoint::from_static("http://node").connect_timeout(PATIENCE);
            match endpoint.connect_with_connector(connector).await {
                Ok(channel) => drop(all.guard().insert(node, channel)),
                Err(error) => tracing::debug!(node, %error, "a tunnel did not come up"),
            }
        });
        answer
    }

    /// The API of a node, called for `who`.
    pub fn node(&self, node: &str, who: &Who) -> Result<NodeChannel> {
        let channel = self.guard().get(node).cloned();
        let channel = channel.ok_or_else(|| {
            Error::unavailable(format!("there is no connection to node {node}"))
                .with_hint("see whether it is up: strata node list")
        })?;
        let text = |text: &str| {
            text.parse::<MetadataValue<Ascii>>()
                .map_err(|_| Error::internal("a caller's name does not fit a header"))
        };
        let on_behalf = OnBehalf {
            role: text(who.role.as_str())?,
            name: text(&who.name)?,
        };
        Ok(InterceptedService::new(channel, on_behalf))
    }
}

/// Says for whom a call is made.
#[derive(Clone)]
pub struct OnBehalf {
    role: MetadataValue<Ascii>,
    name: MetadataValue<Ascii>,
}

impl Interceptor for OnBehalf {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert(CALLER_ROLE, self.role.clone());
        metadata.insert(CALLER_NAME, self.name.clone());
        Ok(request)
    }
}

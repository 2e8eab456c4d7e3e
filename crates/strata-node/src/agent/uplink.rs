//! The way from the agent to its servers: gRPC over TLS in the product, links
//! with faults in the simulation.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use strata_api::strata::v1;
use strata_client::{Address, Error, ServerClient, Target};
use strata_identity::{LiveIdentity, LiveTrust, Validity};
use strata_transport::{AuthLayer, FollowedTerm};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::tunnel;
use crate::images::Images;

/// What a server sends.
pub type ServerMessages = BoxStream<'static, Result<v1::ServerMessage, Status>>;

/// Reaches servers.
pub trait Uplink: Send + Sync + 'static {
    /// Connects, within this time.
    fn connect<'a>(
        &'a self,
        server: &'a Address,
        within: Duration,
    ) -> BoxFuture<'a, Result<Arc<dyn ServerConnection>, Error>>;

    /// When the certificate that is shown to servers begins and ends.
    fn validity(&self) -> Validity;
}

/// A connected server.
pub trait ServerConnection: Send + Sync + 'static {
    fn address(&self) -> &Address;

    /// Opens a stream of assignments.
    fn follow(
        &self,
        messages: mpsc::Receiver<v1::NodeMessage>,
    ) -> BoxFuture<'_, Result<ServerMessages, Status>>;

    /// Maps the status of a call to an error.
    fn error(&self, status: &Status) -> Error;

    /// Keeps a tunnel open until it is stopped, for calls of a server of this
    /// term.
    fn tunnel(
        &self,
        term: Arc<dyn FollowedTerm>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}

/// By gRPC.
pub(super) struct GrpcUplink {
    pub(super) trust: Arc<LiveTrust>,
    pub(super) identity: Arc<LiveIdentity>,
    pub(super) images: Images,
    /// The node's own API, and who may call it.
    pub(super) app: axum::Router,
    pub(super) gate: AuthLayer,
}

impl Uplink for GrpcUplink {
    fn connect<'a>(
        &'a self,
        server: &'a Address,
        within: Duration,
    ) -> BoxFuture<'a, Result<Arc<dyn ServerConnection>, Error>> {
        Box::pin(async move {
            let target = Target::Live {
                address: server.clone(),
                ca_pem: self.trust.pem(),
                identity: self.identity.clone(),
            };
            match tokio::time::timeout(within, ServerClient::connect(&target)).await {
                Ok(Ok(client)) => {
                    self.images.follow_server(Some(target));
                    let (app, gate) = (self.app.clone(), self.gate.clone());
                    let connected = GrpcConnection { client, app, gate };
                    Ok(Arc::new(connected) as Arc<dyn ServerConnection>)
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::Connect {
                    address: server.clone(),
                    reason: format!("no answer within {within:?}"),
                    refused: false,
                }),
            }
        })
    }

    fn validity(&self) -> Validity {
        self.identity.validity()
    }
}

struct GrpcConnection {
    client: ServerClient,
    app: axum::Router,
    gate: AuthLayer,
}

impl ServerConnection for GrpcConnection {
    fn address(&self) -> &Address {
        self.client.address()
    }

    fn follow(
        &self,
        messages: mpsc::Receiver<v1::NodeMessage>,
    ) -> BoxFuture<'_, Result<ServerMessages, Status>> {
        let mut assignments = self.client.assignments();
        Box::pin(async move {
            let opened = assignments.follow(ReceiverStream::new(messages)).await?;
            Ok(opened.into_inner().boxed())
        })
    }

    fn error(&self, status: &Status) -> Error {
        self.client.error(status)
    }

    fn tunnel(
        &self,
        term: Arc<dyn FollowedTerm>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let (client, app, gate) = (self.client.clone(), self.app.clone(), self.gate.clone());
        Box::pin(tunnel::keep(client, app, gate, term, stop))
    }
}

//! A node that implements the published `scheduler.NodeService` and nothing
//! else.

use std::path::PathBuf;

use strata_api::scheduler::{
    NodeRegisterRequest, NodeRegisterResponse, NodeStatus, NodeUnregisterRequest,
    NodeUnregisterResponse, Resource, ResourceSummary, Status as State,
};
use strata_client::ServerClient;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Cluster;

type Result<T> = std::result::Result<T, Status>;

/// A node by its certificate alone.
pub struct SeedNode {
    /// The name in its certificate.
    pub name: String,
    /// Where its credentials are.
    pub dir: PathBuf,
    /// Calls with its certificate.
    pub client: ServerClient,
}

/// Statuses on their way.
pub struct SeedStream {
    sender: mpsc::Sender<NodeStatus>,
    ended: JoinHandle<Result<()>>,
}

impl SeedStream {
    /// Sends one more status; whether there is a receiver.
    pub async fn tell(&self, status: NodeStatus) -> bool {
        self.sender.send(status).await.is_ok()
    }

    /// Sends nothing more; what the server answers.
    ///
    /// # Panics
    /// When the call panics.
    pub async fn end(self) -> Result<()> {
        drop(self.sender);
        self.ended.await.expect("the call ends")
    }

    /// Whether the server still listens.
    pub fn is_open(&self) -> bool {
        !self.ended.is_finished()
    }
}

impl Cluster {
    /// A node with a certificate, not registered yet.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn seed_node(&self, name: &str) -> SeedNode {
        let dir = self.credentials("node", name).await;
        let client = self.client_with(&dir).await;
        SeedNode {
            name: name.into(),
            client: client.unwrap_or_else(|error| panic!("{error}")),
            dir,
        }
    }
}

impl SeedNode {
    /// Its certificate, in PEM.
    ///
    /// # Panics
    /// When it is gone.
    pub fn certificate(&self) -> String {
        std::fs::read_to_string(self.dir.join("client.crt")).expect("it can be read")
    }

    /// Registers it.
    pub async fn register(&self) -> Result<NodeRegisterResponse> {
        let certificate = self.certificate();
        let request = NodeRegisterRequest { certificate };
        let answer = self.client.scheduler_nodes().register(request).await?;
        Ok(answer.into_inner())
    }

    /// Lets a node leave.
    pub async fn unregister(&self, id: &str) -> Result<NodeUnregisterResponse> {
        let request = NodeUnregisterRequest { id: id.into() };
        let answer = self.client.scheduler_nodes().unregister(request).await?;
        Ok(answer.into_inner())
    }

    /// Its status with this much cpu, and plenty of everything else.
    pub fn status(&self, cpu: i32) -> NodeStatus {
        NodeStatus {
            id: self.name.clone(),
            status: State::Running.into(),
            status_description: String::new(),
            resource: Some(Resource {
                limit: Some(ResourceSummary {
                    cpu,
                    memory: 1000,
                    disk: 100,
                }),
                usage: Some(ResourceSummary::default()),
            }),
        }
    }

    /// Opens a stream of statuses, with this one as the first.
    pub async fn stream(&self, first: NodeStatus) -> SeedStream {
        let (sender, statuses) = mpsc::channel(4);
        let _ = sender.send(first).await;
        let mut nodes = self.client.scheduler_nodes();
        let ended = tokio::spawn(async move {
            let done = nodes.status(ReceiverStream::new(statuses)).await;
            done.map(drop)
        });
        SeedStream { sender, ended }
    }
}

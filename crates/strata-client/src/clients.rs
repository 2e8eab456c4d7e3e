//! What can be called on a node and on a server, as generated clients over
//! one connection.

use strata_api::controller::scheduler_service_client::SchedulerServiceClient;
use strata_api::kaas::cluster_client::ClusterClient;
use strata_api::observe::observe_client::ObserveClient;
use strata_api::operations::v1::operations_service_client::OperationsServiceClient;
use strata_api::runtime::cell_service_client::CellServiceClient;
use strata_api::runtime::instances_client::InstancesClient;
use strata_api::runtime::pods_client::PodsClient;
use strata_api::runtime::spawn_client::SpawnClient;
use strata_api::schedule::assignments_client::AssignmentsClient;
use strata_api::scheduler::instance_service_client::InstanceServiceClient;
use strata_api::scheduler::node_service_client::NodeServiceClient as SchedulerNodeClient;
use strata_api::strata::v1::cells_client::CellsClient;
use strata_api::strata::v1::identity_client::IdentityClient;
use strata_api::strata::v1::images_client::ImagesClient;
use strata_api::strata::v1::instances_client::InstancesClient as ServerInstancesClient;
use strata_api::strata::v1::logs_client::LogsClient;
use strata_api::strata::v1::node_client::NodeClient as NodeServiceClient;
use strata_api::strata::v1::server_images_client::ServerImagesClient;
use strata_api::strata::v1::volumes_client::VolumesClient;
use tonic::Status;

use crate::connection::{Channel, Connection};
use crate::error::{Error, Result};
use crate::rest::RestClient;
use crate::{Address, Target};

/// The longest answer that is read: a node with thousands of cells.
const MAX_MESSAGE: usize = 32 << 20;

#[derive(Clone)]
pub struct NodeClient(Connection);

impl NodeClient {
    /// Connects to a node.
    pub async fn connect(target: &Target) -> Result<Self> {
        Connection::open(target).await.map(Self)
    }

    /// `runtime.CellService`: allocate, free, start, stop.
    pub fn cell_service(&self) -> CellServiceClient<Channel> {
        CellServiceClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `runtime.Pods`: containers.
    pub fn pods(&self) -> PodsClient<Channel> {
        PodsClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `runtime.Instances`: virtual machines.
    pub fn vms(&self) -> InstancesClient<Channel> {
        InstancesClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `runtime.Spawn`: nested nodes.
    pub fn spawn(&self) -> SpawnClient<Channel> {
        SpawnClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Cells`: list, get, watch, wait.
    pub fn cells(&self) -> CellsClient<Channel> {
        CellsClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Images`: pull, list, get, remove, prune.
    pub fn images(&self) -> ImagesClient<Channel> {
        ImagesClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Volumes`: create, get, list, remove.
    pub fn volumes(&self) -> VolumesClient<Channel> {
        VolumesClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Logs`.
    pub fn logs(&self) -> LogsClient<Channel> {
        LogsClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Node`.
    pub fn node(&self) -> NodeServiceClient<Channel> {
        NodeServiceClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `observe.Observe`.
    pub fn observe(&self) -> ObserveClient<Channel> {
        ObserveClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// What it is connected to.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Maps the status of a call to an error.
    pub fn error(&self, status: &Status) -> Error {
        self.0.error(status)
    }
}

/// A connected server, or a node that runs alone and so is its own server.
#[derive(Clone)]
pub struct ServerClient(Connection);

impl ServerClient {
    /// Connects to a server.
    pub async fn connect(target: &Target) -> Result<Self> {
        Connection::open(target).await.map(Self)
    }

    /// `scheduler.InstanceService`: create, start, stop, destroy.
    pub fn scheduler(&self) -> InstanceServiceClient<Channel> {
        InstanceServiceClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `scheduler.NodeService`: register, report the status, leave.
    pub fn scheduler_nodes(&self) -> SchedulerNodeClient<Channel> {
        SchedulerNodeClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `controller.SchedulerService`: status that is pushed.
    pub fn controller(&self) -> SchedulerServiceClient<Channel> {
        SchedulerServiceClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `schedule.Assignments`: what a node follows.
    pub fn assignments(&self) -> AssignmentsClient<Channel> {
        AssignmentsClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.ServerImages`: images of the server's host, for nodes.
    pub fn server_images(&self) -> ServerImagesClient<Channel> {
        ServerImagesClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `operations.v1.OperationsService`: hypervisors, the pool, backups.
    pub fn operations(&self) -> OperationsServiceClient<Channel> {
        OperationsServiceClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `cnct.kaas.api.Cluster`: Kubernetes clusters.
    pub fn clusters(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Identity`.
    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// `strata.v1.Instances`: the commands and the output of instances.
    pub fn instances(&self) -> ServerInstancesClient<Channel> {
        ServerInstancesClient::new(self.0.channel()).max_decoding_message_size(MAX_MESSAGE)
    }

    pub fn rest(&self) -> RestClient {
        RestClient::new(self.0.clone())
    }

    /// What it is connected to.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Maps the status of a call to an error.
    pub fn error(&self, status: &Status) -> Error {
        self.0.error(status)
    }
}

//! The node's faces, one thin file per service: parse, call the core, map the
//! answer. Authorization is decided before a request comes here.

mod audit;
mod cell_rights;
mod cell_service;
mod cells;
mod host_ids;
mod images;
mod logs;
mod node;
mod observe;
mod pods;
mod sampling;
mod spawn;
mod units;
mod views;
mod vms;
mod volumes;

use strata_api::observe::observe_server::{Observe, ObserveServer};
use strata_api::runtime::cell_service_server::{CellService, CellServiceServer};
use strata_api::runtime::instances_server::{Instances, InstancesServer};
use strata_api::runtime::pods_server::{Pods as PodsService, PodsServer};
use strata_api::runtime::spawn_server::{Spawn, SpawnServer};
use strata_api::status_from_error;
use strata_api::strata::v1::cells_server::{Cells, CellsServer};
use strata_api::strata::v1::images_server::{Images, ImagesServer};
use strata_api::strata::v1::logs_server::{Logs, LogsServer};
use strata_api::strata::v1::node_server::{Node as NodeService, NodeServer};
use strata_api::strata::v1::volumes_server::{Volumes, VolumesServer};
use strata_types::Error;
use tonic::Status;

use crate::Node;

/// The largest request: a command, an environment and some room.
const MAX_REQUEST: usize = 256 << 10;

impl Node {
    /// `runtime.CellService`.
    pub fn cell_service(&self) -> CellServiceServer<impl CellService> {
        // An executable may bring a mebibyte of input.
        CellServiceServer::new(cell_service::CellServiceApi::new(self))
            .max_decoding_message_size(2 << 20)
    }

    /// `runtime.Pods`.
    pub fn pods_service(&self) -> PodsServer<impl PodsService> {
        PodsServer::new(pods::PodsApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `runtime.Instances`.
    pub fn instances_service(&self) -> InstancesServer<impl Instances> {
        // A machine may come with a large file for cloud-init.
        InstancesServer::new(vms::VmsApi::new(self)).max_decoding_message_size(2 << 20)
    }

    /// `runtime.Spawn`.
    pub fn spawn_service(&self) -> SpawnServer<impl Spawn> {
        SpawnServer::new(spawn::SpawnApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `observe.Observe`.
    pub fn observe(&self) -> ObserveServer<impl Observe> {
        ObserveServer::new(observe::ObserveApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `strata.v1.Cells`.
    pub fn cells_service(&self) -> CellsServer<impl Cells> {
        CellsServer::new(cells::CellsApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `strata.v1.Images`.
    pub fn images_service(&self) -> ImagesServer<impl Images> {
        ImagesServer::new(images::ImagesApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `strata.v1.Volumes`.
    pub fn volumes_service(&self) -> VolumesServer<impl Volumes> {
        VolumesServer::new(volumes::VolumesApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `strata.v1.Logs`.
    pub fn logs_service(&self) -> LogsServer<impl Logs> {
        LogsServer::new(logs::LogsApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }

    /// `strata.v1.Node`.
    pub fn node_service(&self) -> NodeServer<impl NodeService> {
        NodeServer::new(node::NodeApi::new(self)).max_decoding_message_size(MAX_REQUEST)
    }
}

/// The status of an error, which is logged here, once, if it is ours. Takes
/// it whole, as `map_err` gives it.
#[allow(clippy::needless_pass_by_value)]
fn status(error: Error) -> Status {
    if error.kind() == strata_types::ErrorKind::Internal {
        tracing::error!(%error, "request failed");
    }
    status_from_error(&error)
}

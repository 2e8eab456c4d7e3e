//! `cnct.kaas.api.Cluster`: Kubernetes clusters, as published. Whatever is read
//! or begun here is the same for gRPC and for the gateway, which both call
//! these functions.

use std::time::Duration;

use strata_api::kaas::cluster_server::{Cluster as Published, ClusterServer};
use strata_api::kaas::get_cluster_nodes_status_reply::MachineStatus;
use strata_api::kaas::get_version_reply::VersionInformation;
use strata_api::kaas::{
    AddNodePoolMsg, AddNodePoolReply, ClusterDetailItem, ClusterItem, ClusterStatus as WireStatus,
    CreateClusterMsg, CreateClusterReply, DeleteClusterMsg, DeleteClusterReply, DeleteNodePoolMsg,
    DeleteNodePoolReply, GetClusterListMsg, GetClusterListReply, GetClusterMsg,
    GetClusterNodesStatusMsg, GetClusterNodesStatusReply, GetClusterReply,
    GetUpgradeClusterInformationMsg, GetUpgradeClusterInformationReply, GetVersionMsg,
    GetVersionReply, ScaleNodePoolMsg, ScaleNodePoolReply, UpgradeClusterMsg, UpgradeClusterReply,
};
use strata_api::rest::Cluster;
use strata_api::status_from_error;
use strata_types::cluster::ClusterStatus;
use strata_types::{Error, Result};
use tonic::{Request, Response, Status};

use super::MAX_REQUEST_BYTES;
use super::scheduler::principal_of;
use crate::Build;
use crate::core::Principal;
use crate::operations::Clusters;

/// How long a cluster may take to report its own state.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct ClusterApi {
    clusters: Clusters,
    build: Build,
}

impl ClusterApi {
    /// Over these clusters; `build` is what `version` answers.
    pub fn new(clusters: Clusters, build: Build) -> Self {
        Self { clusters, build }
    }

    pub fn service(self) -> ClusterServer<Self> {
        ClusterServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    pub(in crate::api) async fn create(
        &self,
        principal: &Principal,
        message: CreateClusterMsg,
    ) -> Result<CreateClusterReply> {
        let control_plane = message.control_plane_nodes.unwrap_or_default().try_into()?;
        let pools = message.worker_node_pools.into_iter().enumerate();
        let pools: Result<Vec<_>> = pools.map(|(at, pool)| pool.into_pool(at)).collect();
        let (name, version) = (&message.name, &message.k8s_version);
        let made = self
            .clusters
            .create(principal, name, version, control_plane, pools?);
        let begun = made.await;
        begun.map_err(|error| match error.field() {
            Some("version") => error.in_field("k8s_version"),
            _ => error,
        })?;
        Ok(CreateClusterReply {
            ok: true,
            cluster: Some(item(self.clusters.get(name)?)),
        })
    }

    /// Credentials come with it when it can be used; the call does not fail
    /// when it gives none.
    pub(in crate::api) async fn get(
        &self,
        principal: &Principal,
        message: GetClusterMsg,
    ) -> Result<GetClusterReply> {
        self.clusters.core.check_fresh()?;
        let name = required_name("name", &message.name)?;
        let cluster = self.clusters.get(name)?;
        let kubeconfig = match cluster.status {
            ClusterStatus::Running | ClusterStatus::Reconciling | ClusterStatus::Degraded => {
                self.kubeconfig(principal, name).await
            }
            _ => String::new(),
        };
        Ok(GetClusterReply {
            ok: true,
            cluster: Some(ClusterDetailItem {
                status: WireStatus::from(cluster.status).into(),
                name: cluster.name,
                status_message: cluster.message,
                kubeconfig,
            }),
        })
    }

    async fn kubeconfig(&self, principal: &Principal, name: &str) -> String {
        let made = self.clusters.kubeconfig(principal, name, None);
        match tokio::time::timeout(STATUS_TIMEOUT, made).await {
            Ok(Ok(made)) => made.kubeconfig,
            Ok(Err(error)) => {
                tracing::info!(cluster = name, %error, "kubeconfig not issued");
                String::new()
            }
            Err(_) => String::new(),
        }
    }

    pub(in crate::api) async fn delete(
        &self,
        principal: &Principal,
        message: DeleteClusterMsg,
    ) -> Result<DeleteClusterReply> {
        let name = required_name("name", &message.name)?;
        let operation = self.clusters.delete(principal, name).await?;
        Ok(DeleteClusterReply {
            ok: true,
            status: format!("cluster {name} is being deleted; operation {operation}"),
        })
    }

    pub(in crate::api) fn list(&self) -> Result<GetClusterListReply> {
        self.clusters.core.check_fresh()?;
        let clusters = self.clusters.list().into_iter().map(item).collect();
        Ok(GetClusterListReply { ok: true, clusters })
    }

    /// Every machine, those that control the cluster among them.
    pub(in crate::api) fn nodes(
        &self,
        message: &GetClusterNodesStatusMsg,
    ) -> Result<GetClusterNodesStatusReply> {
        let name = required_name("clusterName", &message.cluster_name)?;
        self.clusters.core.check_fresh()?;
        let nodes = self.clusters.nodes(name)?.into_iter();
        let machines: Vec<_> = nodes
            .map(|node| {
                let (id, hostname) = self.clusters.provider_names(&node.machine);
                MachineStatus {
                    k8s_node_status: node.status,
                    k8s_version: node.version,
                    maas_system_id: id,
                    maas_hostname: hostname,
                    maas_node_status: node.phase,
                    maas_ip_addr: node.address,
                }
            })
            .collect();
        Ok(GetClusterNodesStatusReply {
            name: name.to_owned(),
            count: i32::try_from(machines.len()).unwrap_or(i32::MAX),
            machines,
        })
    }

    pub(in crate::api) fn version(&self) -> GetVersionReply {
        let build = self.build.clone();
        let compiler = build.compiler.split(' ').next().unwrap_or_default();
        GetVersionReply {
            ok: true,
            version_information: Some(VersionInformation {
                git_version: build.version,
                git_commit: build.commit,
                git_tree_state: build.tree_state,
                build_date: build.build_date,
                compiler: compiler.to_owned(),
                go_version: build.compiler,
                platform: build.platform,
            }),
        }
    }

    pub(in crate::api) async fn add_pools(
        &self,
        principal: &Principal,
        message: AddNodePoolMsg,
    ) -> Result<AddNodePoolReply> {
        let name = required_name("clusterName", &message.cluster_name)?;
        some("worker_node_pools", &message.worker_node_pools)?;
        let pools = message.worker_node_pools.into_iter().enumerate();
        let pools: Result<Vec<_>> = pools.map(|(at, pool)| pool.into_pool(at)).collect();
        self.clusters.add_pools(principal, name, pools?).await?;
        Ok(AddNodePoolReply { ok: true })
    }

    pub(in crate::api) async fn delete_pools(
        &self,
        principal: &Principal,
        message: DeleteNodePoolMsg,
    ) -> Result<DeleteNodePoolReply> {
        let name = required_name("clusterName", &message.cluster_name)?;
        some("node_pool_names", &message.node_pool_names)?;
        let pools = message.node_pool_names;
        self.clusters.delete_pools(principal, name, pools).await?;
        Ok(DeleteNodePoolReply { ok: true })
    }

    pub(in crate::api) async fn scale_pools(
        &self,
        principal: &Principal,
        message: ScaleNodePoolMsg,
    ) -> Result<ScaleNodePoolReply> {
        let name = required_name("clusterName", &message.cluster_name)?;
        some("node_pools", &message.node_pools)?;
        let sizes = message.node_pools.into_iter().enumerate();
        let sizes: Result<Vec<_>> = sizes.map(|(at, size)| size.into_size(at)).collect();
        self.clusters.scale_pools(principal, name, sizes?).await?;
        Ok(ScaleNodePoolReply { ok: true })
    }

    pub(in crate::api) fn upgrade_targets(
        &self,
        message: &GetUpgradeClusterInformationMsg,
    ) -> Result<GetUpgradeClusterInformationReply> {
        let name = required_name("name", &message.name)?;
        self.clusters.core.check_fresh()?;
        let versions = self.clusters.upgrade_targets(name)?;
        Ok(GetUpgradeClusterInformationReply {
            ok: !versions.is_empty(),
            versions: versions.iter().map(ToString::to_string).collect(),
        })
    }

    pub(in crate::api) async fn upgrade(
        &self,
        principal: &Principal,
        message: UpgradeClusterMsg,
    ) -> Result<UpgradeClusterReply> {
        let name = required_name("name", &message.name)?;
        let version = required_name("version", &message.version)?;
        self.clusters.upgrade(principal, name, version).await?;
        Ok(UpgradeClusterReply { ok: true })
    }
}

fn item(cluster: Cluster) -> ClusterItem {
    ClusterItem {
        status: WireStatus::from(cluster.status).into(),
        name: cluster.name,
        status_message: cluster.message,
    }
}

fn required_name<'a>(field: &str, name: &'a str) -> Result<&'a str> {
    match name {
        "" => Err(Error::invalid(field, "must not be empty")),
        name => Ok(name),
    }
}

fn some<T>(field: &str, list: &[T]) -> Result<()> {
    match list.is_empty() {
        true => Err(Error::invalid(field, "must not be empty")),
        false => Ok(()),
    }
}

fn answer<T>(result: Result<T>) -> Result<Response<T>, Status> {
    let result = result.map_err(|error| status_from_error(&error));
    result.map(Response::new)
}

fn read_request<T>(request: Request<T>) -> Result<(Principal, T), Status> {
    let principal = principal_of(&request).map_err(|error| status_from_error(&error))?;
    Ok((principal, request.into_inner()))
}

#[tonic::async_trait]
impl Published for ClusterApi {
    async fn create_cluster(
        &self,
        request: Request<CreateClusterMsg>,
    ) -> Result<Response<CreateClusterReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.create(&principal, message).await)
    }

    async fn get_cluster(
        &self,
        request: Request<GetClusterMsg>,
    ) -> Result<Response<GetClusterReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.get(&principal, message).await)
    }

    async fn delete_cluster(
        &self,
        request: Request<DeleteClusterMsg>,
    ) -> Result<Response<DeleteClusterReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.delete(&principal, message).await)
    }

    async fn get_cluster_list(
        &self,
        _: Request<GetClusterListMsg>,
    ) -> Result<Response<GetClusterListReply>, Status> {
        answer(self.list())
    }

    async fn get_cluster_nodes_status(
        &self,
        request: Request<GetClusterNodesStatusMsg>,
    ) -> Result<Response<GetClusterNodesStatusReply>, Status> {
        answer(self.nodes(request.get_ref()))
    }

    async fn get_version_information(
        &self,
        _: Request<GetVersionMsg>,
    ) -> Result<Response<GetVersionReply>, Status> {
        Ok(Response::new(self.version()))
    }

    async fn add_node_pool(
        &self,
        request: Request<AddNodePoolMsg>,
    ) -> Result<Response<AddNodePoolReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.add_pools(&principal, message).await)
    }

    async fn delete_node_pool(
        &self,
        request: Request<DeleteNodePoolMsg>,
    ) -> Result<Response<DeleteNodePoolReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.delete_pools(&principal, message).await)
    }

    async fn scale_node_pool(
        &self,
        request: Request<ScaleNodePoolMsg>,
    ) -> Result<Response<ScaleNodePoolReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.scale_pools(&principal, message).await)
    }

    async fn get_upgrade_cluster_information(
        &self,
        request: Request<GetUpgradeClusterInformationMsg>,
    ) -> Result<Response<GetUpgradeClusterInformationReply>, Status> {
        answer(self.upgrade_targets(request.get_ref()))
    }

    async fn upgrade_cluster(
        &self,
        request: Request<UpgradeClusterMsg>,
    ) -> Result<Response<UpgradeClusterReply>, Status> {
        let (principal, message) = read_request(request)?;
        answer(self.upgrade(&principal, message).await)
    }
}

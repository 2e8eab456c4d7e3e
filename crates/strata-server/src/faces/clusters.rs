//! `cnct.kaas.api.Cluster`: Kubernetes clusters, as published. Whatever is
//! looked at or begun here is the same for gRPC and for the gateway, which
//! both call these functions.

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

use super::scheduler::who;
use crate::Build;
use crate::core::Who;
use crate::operations::Clusters;

/// How long a cluster may take to let somebody in whom it tells about itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// The published service.
#[derive(Clone)]
pub struct ClusterFace {
    clusters: Clusters,
    build: Build,
}

impl ClusterFace {
    /// Over these clusters; `build` is what the version is told of.
    pub fn new(clusters: Clusters, build: Build) -> Self {
        Self { clusters, build }
    }

    /// The gRPC service.
    pub fn service(self) -> ClusterServer<Self> {
        ClusterServer::new(self)
    }

    pub(super) async fn create(
        &self,
        who: &Who,
        asked: CreateClusterMsg,
    ) -> Result<CreateClusterReply> {
        let control_plane = asked.control_plane_nodes.unwrap_or_default().try_into()?;
        let pools = asked.worker_node_pools.into_iter().enumerate();
        let pools: Result<Vec<_>> = pools.map(|(at, pool)| pool.into_pool(at)).collect();
        let (name, version) = (&asked.name, &asked.k8s_version);
        let made = self
            .clusters
            .create(who, name, version, control_plane, pools?);
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

    /// Credentials come with it when it can be used; that it gives none is no
    /// failure of the question.
    pub(super) async fn get(&self, who: &Who, asked: GetClusterMsg) -> Result<GetClusterReply> {
        self.clusters.core.check_fresh()?;
        let name = told("name", &asked.name)?;
        let cluster = self.clusters.get(name)?;
        let kubeconfig = match cluster.status {
            ClusterStatus::Running | ClusterStatus::Reconciling | ClusterStatus::Degraded => {
                self.kubeconfig(who, name).await
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

    async fn kubeconfig(&self, who: &Who, name: &str) -> String {
        let made = self.clusters.kubeconfig(who, name, None);
        match tokio::time::timeout(PATIENCE, made).await {
            Ok(Ok(made)) => made.kubeconfig,
            Ok(Err(error)) => {
                tracing::info!(cluster = name, %error, "nobody is let in");
                String::new()
            }
            Err(_) => String::new(),
        }
    }

    pub(super) async fn delete(
        &self,
        who: &Who,
        asked: DeleteClusterMsg,
    ) -> Result<DeleteClusterReply> {
        let name = told("name", &asked.name)?;
        let operation = self.clusters.delete(who, name).await?;
        Ok(DeleteClusterReply {
            ok: true,
            status: format!("cluster {name} is being deleted; operation {operation}"),
        })
    }

    pub(super) fn list(&self) -> Result<GetClusterListReply> {
        self.clusters.core.check_fresh()?;
        let clusters = self.clusters.list().into_iter().map(item).collect();
        Ok(GetClusterListReply { ok: true, clusters })
    }

    /// Every machine, those that control the cluster among them.
    pub(super) fn nodes(
        &self,
        asked: &GetClusterNodesStatusMsg,
    ) -> Result<GetClusterNodesStatusReply> {
        let name = told("clusterName", &asked.cluster_name)?;
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

    pub(super) fn version(&self) -> GetVersionReply {
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

    pub(super) async fn add_pools(
        &self,
        who: &Who,
        asked: AddNodePoolMsg,
    ) -> Result<AddNodePoolReply> {
        let name = told("clusterName", &asked.cluster_name)?;
        some("worker_node_pools", &asked.worker_node_pools)?;
        let pools = asked.worker_node_pools.into_iter().enumerate();
        let pools: Result<Vec<_>> = pools.map(|(at, pool)| pool.into_pool(at)).collect();
        self.clusters.add_pools(who, name, pools?).await?;
        Ok(AddNodePoolReply { ok: true })
    }

    pub(super) async fn delete_pools(
        &self,
        who: &Who,
        asked: DeleteNodePoolMsg,
    ) -> Result<DeleteNodePoolReply> {
        let name = told("clusterName", &asked.cluster_name)?;
        some("node_pool_names", &asked.node_pool_names)?;
        let pools = asked.node_pool_names;
        self.clusters.delete_pools(who, name, pools).await?;
        Ok(DeleteNodePoolReply { ok: true })
    }

    pub(super) async fn scale_pools(
        &self,
        who: &Who,
        asked: ScaleNodePoolMsg,
    ) -> Result<ScaleNodePoolReply> {
        let name = told("clusterName", &asked.cluster_name)?;
        some("node_pools", &asked.node_pools)?;
        let sizes = asked.node_pools.into_iter().enumerate();
        let sizes: Result<Vec<_>> = sizes.map(|(at, size)| size.into_size(at)).collect();
        self.clusters.scale_pools(who, name, sizes?).await?;
        Ok(ScaleNodePoolReply { ok: true })
    }

    pub(super) fn upgrade_targets(
        &self,
        asked: &GetUpgradeClusterInformationMsg,
    ) -> Result<GetUpgradeClusterInformationReply> {
        let name = told("name", &asked.name)?;
        self.clusters.core.check_fresh()?;
        let versions = self.clusters.upgrade_targets(name)?;
        Ok(GetUpgradeClusterInformationReply {
            ok: !versions.is_empty(),
            versions: versions.iter().map(ToString::to_string).collect(),
        })
    }

    pub(super) async fn upgrade(
        &self,
        who: &Who,
        asked: UpgradeClusterMsg,
    ) -> Result<UpgradeClusterReply> {
        let name = told("name", &asked.name)?;
        let version = told("version", &asked.version)?;
        self.clusters.upgrade(who, name, version).await?;
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

fn told<'a>(field: &str, name: &'a str) -> Result<&'a str> {
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

fn asked<T>(request: Request<T>) -> Result<(Who, T), Status> {
    let who = who(&request).map_err(|error| status_from_error(&error))?;
    Ok((who, request.into_inner()))
}

#[tonic::async_trait]
impl Published for ClusterFace {
    async fn create_cluster(
        &self,
        request: Request<CreateClusterMsg>,
    ) -> Result<Response<CreateClusterReply>, Status> {
        let (who, asked) = asked(request)?;
        answer(self.create(&who, asked).await)
    }

    async fn get_cluster(
        &self,
        request: Request<GetClusterMsg>,
    ) -> Result<Response<GetClusterReply>, Status> {
        let (who, asked) = asked(request)?;
        answer(self.get(&who, asked).await)
    }

    async fn delete_cluster(
        &self,
        request: Request<DeleteClusterMsg>,
    ) -> Result<Response<DeleteClusterReply>, Status> {
        let (who, asked) = asked(request)?;
        answer(self.delete(&who, asked).await)
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
        let (who, asked) = asked(request)?;
        answer(self.add_pools(&who, asked).await)
    }

    async fn delete_node_pool(
        &self,
        request: Request<DeleteNodePoolMsg>,
    ) -> Result<Response<DeleteNodePoolReply>, Status> {
        let (who, asked) = asked(request)?;
        answer(self.delete_pools(&who, asked).await)
    }

    async fn scale_node_pool(
        &self,
        request: Request<ScaleNodePoolMsg>,
    ) -> Result<Response<ScaleNodePoolReply>, Status> {
        let (who, asked) = asked(request)?;
        answer(self.scale_pools(&who, asked).await)
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
        let (who, asked) = asked(request)?;
        answer(self.upgrade(&who, asked).await)
    }
}

//! What can be done with clusters. None of it is done at once: whoever makes
//! or changes one is told of the operation that does it.

use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_api::rest::{
    Cluster, ClusterPlan, Kubeconfig, KubeconfigRequest, NewCluster, NodePool, Operation, ScalePool,
};

use super::query::{Query, tail, target};
use super::resource::RestClient;
use super::route::Resource as _;
use crate::error::Result;

const POOL: &str = "pool";

impl RestClient {
    pub async fn create_cluster(&self, asked: &NewCluster) -> Result<Operation> {
        let to = target(Cluster::ROUTE, "", "", &Query::new());
        self.ask(Method::PUT, to, asked).await
    }

    /// What would be taken for a cluster.
    pub async fn plan_cluster(&self, asked: &NewCluster) -> Result<ClusterPlan> {
        let to = target(Cluster::ROUTE, "", "", &dry());
        self.ask(Method::PUT, to, asked).await
    }

    /// Deletes a cluster with all that runs in it.
    pub async fn delete_cluster(&self, name: &str) -> Result<Operation> {
        let to = target(Cluster::ROUTE, name, "", &Query::new());
        self.call(Method::DELETE, to).send().await?.json()
    }

    /// Adds a pool to a cluster.
    pub async fn add_pool(&self, cluster: &str, pool: &NodePool) -> Result<Operation> {
        let to = target(Cluster::ROUTE, cluster, POOL, &Query::new());
        self.ask(Method::PUT, to, pool).await
    }

    /// Gives a pool so many machines.
    pub async fn scale_pool(&self, cluster: &str, pool: &str, to: ScalePool) -> Result<Operation> {
        let at = target(Cluster::ROUTE, cluster, &tail(POOL, pool), &Query::new());
        self.ask(Method::PATCH, at, &to).await
    }

    /// Which machines would come and go.
    pub async fn plan_pool(&self, cluster: &str, pool: &str, to: ScalePool) -> Result<ClusterPlan> {
        let at = target(Cluster::ROUTE, cluster, &tail(POOL, pool), &dry());
        self.ask(Method::PATCH, at, &to).await
    }

    /// Takes a pool away; its machines are given back.
    pub async fn delete_pool(&self, cluster: &str, pool: &str) -> Result<Operation> {
        let to = target(Cluster::ROUTE, cluster, &tail(POOL, pool), &Query::new());
        self.call(Method::DELETE, to).send().await?.json()
    }

    /// Credentials for a cluster.
    pub async fn kubeconfig(&self, cluster: &str, asked: &KubeconfigRequest) -> Result<Kubeconfig> {
        let to = target(Cluster::ROUTE, cluster, "kubeconfig", &Query::new());
        self.ask(Method::POST, to, asked).await
    }

    /// Revokes all credentials of a user. Default: those of the caller.
    pub async fn revoke_kubeconfig(&self, cluster: &str, user: Option<&str>) -> Result<()> {
        let query = Query::new().maybe("user", user);
        let to = target(Cluster::ROUTE, cluster, "kubeconfig", &query);
        self.call(Method::DELETE, to).send().await.map(drop)
    }

    async fn ask<P: DeserializeOwned>(
        &self,
        method: Method,
        target: String,
        body: &impl Serialize,
    ) -> Result<P> {
        let call = self.call(method, target);
        call.with("application/json", body)?.send().await?.json()
    }
}

fn dry() -> Query {
    Query::new().with("dryRun", "true")
}

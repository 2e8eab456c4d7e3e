//! For a control plane without a driver for clusters: requests for clusters are
//! refused with that reason.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use strata_clusters::{
    ClusterFacts, Done, Drained, Driver, DriverError, Observed, Preflight, Snapshot,
};
use strata_types::Secret;
use strata_types::cluster::{ClusterName, KubernetesVersion, Member};

type Progress<'a> = &'a (dyn Fn(String) + Send + Sync);

pub(super) struct NoKubernetes;

fn refused() -> DriverError {
    DriverError::Missing {
        what: "Kubernetes".into(),
        hint: "this server makes no clusters".into(),
    }
}

fn refuses<'a, T: Send + 'a>() -> Done<'a, T> {
    ready(Err(refused())).boxed()
}

impl Driver for NoKubernetes {
    fn secrets(&self, _: &ClusterName) -> Result<BTreeMap<String, Secret>, DriverError> {
        Err(refused())
    }

    fn install<'a>(&'a self, _: &'a ClusterFacts, _: &'a Member, _: Progress<'a>) -> Done<'a> {
        refuses()
    }

    fn images<'a>(&'a self, _: &'a Member, _: Progress<'a>) -> Done<'a> {
        refuses()
    }

    fn init<'a>(&'a self, _: &'a ClusterFacts, _: &'a Member, _: Progress<'a>) -> Done<'a> {
        refuses()
    }

    fn join<'a>(&'a self, _: &'a ClusterFacts, _: &'a Member, _: Progress<'a>) -> Done<'a> {
        refuses()
    }

    fn ready<'a>(&'a self, _: &'a ClusterFacts, _: &'a Member, _: Progress<'a>) -> Done<'a> {
        refuses()
    }

    fn update_peers<'a>(&'a self, _: &'a ClusterFacts) -> Done<'a> {
        refuses()
    }

    fn observe<'a>(&'a self, _: &'a ClusterFacts) -> BoxFuture<'a, Observed> {
        let observation = Observed {
            why: refused().to_string(),
            ..Observed::default()
        };
        ready(observation).boxed()
    }

    fn cordon<'a>(&'a self, _: &'a ClusterFacts, _: &'a str, _: bool) -> Done<'a> {
        refuses()
    }

    fn drain<'a>(&'a self, _: &'a ClusterFacts, _: &'a str) -> Done<'a, Drained> {
        refuses()
    }

    fn remove_member<'a>(&'a self, _: &'a ClusterFacts, _: &'a Member) -> Done<'a> {
        refuses()
    }

    fn preflight<'a>(&'a self, _: &'a ClusterFacts, _: KubernetesVersion) -> Done<'a, Preflight> {
        refuses()
    }

    fn upgrade<'a>(
        &'a self,
        _: &'a ClusterFacts,
        _: &'a Member,
        _: KubernetesVersion,
        _: bool,
        _: Progress<'a>,
    ) -> Done<'a> {
        refuses()
    }

    fn snapshot<'a>(&'a self, _: &'a ClusterFacts, _: &'a str) -> Done<'a, Snapshot> {
        refuses()
    }

    fn snapshots(&self, _: &ClusterName) -> Result<Vec<Snapshot>, DriverError> {
        Err(refused())
    }

    fn restore<'a>(
        &'a self,
        _: &'a ClusterFacts,
        _: &'a str,
        _: Progress<'a>,
    ) -> Done<'a, Vec<String>> {
        refuses()
    }

    fn configure<'a>(&'a self, _: &'a ClusterFacts) -> Done<'a> {
        refuses()
    }

    fn renew<'a>(&'a self, _: &'a ClusterFacts, _: &'a Member) -> Done<'a, bool> {
        refuses()
    }

    fn grant_access<'a>(&'a self, _: &'a ClusterFacts, _: &'a str, _: Option<&'a str>) -> Done<'a> {
        refuses()
    }

    fn kubeconfig(
        &self,
        _: &ClusterFacts,
        _: &str,
        _: &str,
        _: u64,
    ) -> Result<Secret, DriverError> {
        Err(refused())
    }

    fn clear(&self, _: &ClusterName) -> Result<(), DriverError> {
        Err(refused())
    }
}

//! [`Driver`] by kubeadm: which machines each call concerns, and which code
//! does it.

use std::collections::BTreeMap;
use std::iter::once;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use strata_types::Secret;
use strata_types::cluster::{ClusterName, ClusterRole, KubernetesVersion, Member};

use super::archive::Archive;
use super::join::JoinContext;
use super::restore::Restore;
use super::snapshots::Snapshots;
use super::upgrade::Upgrade;
use super::{
    Kubeadm, access, agent, apiserver, controls, drain, install, join, observe, pki, preflight,
};
use crate::{
    Blocker, ClusterFacts, Done, Drained, Driver, DriverError, Observed, Preflight, Snapshot,
};

/// How long a machine that is to be removed is waited for: most do not answer
/// any more.
const NO_PROGRESS: Duration = Duration::from_secs(10);

/// Receives how far a call has come.
type Reported<'a> = &'a (dyn Fn(String) + Send + Sync);

impl Driver for Kubeadm {
    fn secrets(&self, _: &ClusterName) -> Result<BTreeMap<String, Secret>, DriverError> {
        pki::secrets()
    }

    fn install<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Reported<'a>,
    ) -> Done<'a> {
        async move {
            let bundle = self.catalogue.find(member.version)?;
            let machine = self.machine(member);
            install::install(cluster, member, &bundle, machine, progress).await
        }
        .boxed()
    }

    fn images<'a>(&'a self, member: &'a Member, progress: Reported<'a>) -> Done<'a> {
        progress("importing images".into());
        install::import(self.machine(member), member.version).boxed()
    }

    fn init<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Reported<'a>,
    ) -> Done<'a> {
        async move {
            let bundle = self.catalogue.find(member.version)?;
            let api = self.api_at(cluster, once(member))?;
            let entry = self.entry(cluster, member, progress);
            entry.init(&api, &bundle).await
        }
        .boxed()
    }

    fn join<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Reported<'a>,
    ) -> Done<'a> {
        async move {
            let api = self.api(cluster)?;
            let etcd = self.etcd(cluster, Some(member))?;
            let entry = self.entry(cluster, member, progress);
            entry.join(&api, &etcd).await
        }
        .boxed()
    }

    fn ready<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Reported<'a>,
    ) -> Done<'a> {
        async move {
            let api = self.api(cluster)?;
            self.entry(cluster, member, progress).ready(&api).await
        }
        .boxed()
    }

    fn update_peers<'a>(&'a self, cluster: &'a ClusterFacts) -> Done<'a> {
        let reported = cluster.members.iter().filter(|it| !it.address.is_empty());
        let reported = reported.map(async |member| {
            let reported = agent::write_peers(cluster, member, self.machine(member));
            if let Err(error) = reported.await {
                tracing::warn!(machine = %member.machine, %error, "peer list not updated");
            }
        });
        join_all(reported).map(|_| Ok(())).boxed()
    }

    fn observe<'a>(&'a self, cluster: &'a ClusterFacts) -> BoxFuture<'a, Observed> {
        async move {
            let etcd = self.etcd(cluster, None);
            match self.api(cluster).and_then(|api| Ok((api, etcd?))) {
                Ok((api, etcd)) => observe::observe(&api, &etcd).await,
                Err(error) => Observed {
                    why: error.to_string(),
                    ..Observed::default()
                },
            }
        }
        .boxed()
    }

    fn cordon<'a>(&'a self, cluster: &'a ClusterFacts, node: &'a str, closed: bool) -> Done<'a> {
        async move {
            let change = json!({"spec": {"unschedulable": closed}});
            let path = format!("/api/v1/nodes/{node}");
            Ok(self.api(cluster)?.patch(&path, &change).await?)
        }
        .boxed()
    }

    fn drain<'a>(&'a self, cluster: &'a ClusterFacts, node: &'a str) -> Done<'a, Drained> {
        async move { drain::drain(&self.api(cluster)?, node).await }.boxed()
    }

    fn remove_member<'a>(&'a self, cluster: &'a ClusterFacts, member: &'a Member) -> Done<'a> {
        async move {
            let machine = member.machine.as_str();
            // A join that was abandoned may still run, and come in afterwards.
            self.quiet(member).await;
            // Then etcd: it must not wait for one that will not come back.
            if member.role == ClusterRole::ControlPlane {
                let others = self.etcd(cluster, Some(member))?;
                others.remove(machine, &member.address).await?;
            }
            let others = controls(cluster).filter(|it| it.machine != member.machine);
            let api = self.api_at(cluster, others)?;
            Ok(api.delete(&format!("/api/v1/nodes/{machine}")).await?)
        }
        .boxed()
    }

    fn preflight<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        to: KubernetesVersion,
    ) -> Done<'a, Preflight> {
        async move {
            let api = self.api(cluster)?;
            let servers = controls(cluster)
                .map(|member| self.api_at(cluster, once(member)))
                .collect::<Result<Vec<_>, _>>()?;
            let (members, from) = (&cluster.members, cluster.version);
            let found = preflight::preflight(&api, &servers, members, from, to).await;
            let mut found = found?;
            if let Err(error) = self.catalogue.find(to) {
                found.blockers.push(Blocker {
                    what: error.to_string(),
                    hint: error.hint(),
                });
            }
            Ok(found)
        }
        .boxed()
    }

    fn upgrade<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        to: KubernetesVersion,
        first: bool,
        progress: Reported<'a>,
    ) -> Done<'a> {
        async move {
            let upgrade = Upgrade {
                cluster,
                to,
                bundle: &self.catalogue.find(to)?,
                machine: self.machine(member),
                own: match member.role {
                    ClusterRole::ControlPlane => Some(self.api_at(cluster, once(member))?),
                    ClusterRole::Worker => None,
                },
                progress,
            };
            upgrade.run(&self.api(cluster)?, first).await
        }
        .boxed()
    }

    fn snapshot<'a>(&'a self, cluster: &'a ClusterFacts, reason: &'a str) -> Done<'a, Snapshot> {
        async move {
            let etcd = self.etcd(cluster, None)?;
            let snapshots = self.snapshots_of(&cluster.name);
            let taken = snapshots.take(&etcd, cluster.version, reason).await?;
            snapshots.keep(self.keep)?;
            Ok(taken)
        }
        .boxed()
    }

    fn snapshots(&self, name: &ClusterName) -> Result<Vec<Snapshot>, DriverError> {
        self.snapshots_of(name).list()
    }

    fn restore<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        snapshot: &'a str,
        progress: Reported<'a>,
    ) -> Done<'a, Vec<String>> {
        async move {
            let (snapshot, file) = self.snapshots_of(&cluster.name).find(snapshot)?;
            let then = ClusterFacts {
                version: snapshot.version,
                ..cluster.clone()
            };
            let restore = Restore {
                cluster: &then,
                bundle: &self.catalogue.find(snapshot.version)?,
                snapshot: &snapshot,
                file: &file,
                controls: controls(cluster)
                    .map(|member| (member, self.machine(member)))
                    .collect(),
                progress,
            };
            restore.run(&self.api(cluster)?).await
        }
        .boxed()
    }

    fn configure<'a>(&'a self, cluster: &'a ClusterFacts) -> Done<'a> {
        let configured = controls(cluster).map(async |member| {
            let files = apiserver::files(cluster, Archive::default());
            if let Err(error) = self.machine(member).put("put", files).await {
                tracing::warn!(machine = %member.machine, %error, "API server not reconfigured");
            }
        });
        join_all(configured).map(|_| Ok(())).boxed()
    }

    fn renew<'a>(&'a self, cluster: &'a ClusterFacts, member: &'a Member) -> Done<'a, bool> {
        async move {
            match member.role {
                ClusterRole::Worker => Ok(false),
                ClusterRole::ControlPlane => {
                    let own = self.api_at(cluster, once(member))?;
                    super::renew::renew(self.machine(member), &own).await
                }
            }
        }
        .boxed()
    }

    fn grant_access<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        user: &'a str,
        role: Option<&'a str>,
    ) -> Done<'a> {
        async move { access::grant_access(&self.api(cluster)?, user, role).await }.boxed()
    }

    fn kubeconfig(
        &self,
        cluster: &ClusterFacts,
        user: &str,
        server: &str,
        seconds: u64,
    ) -> Result<Secret, DriverError> {
        access::kubeconfig(cluster, user, server, seconds)
    }

    fn clear(&self, name: &ClusterName) -> Result<(), DriverError> {
        self.snapshots_of(name).clear()
    }
}

impl Kubeadm {
    pub(super) fn entry<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Reported<'a>,
    ) -> JoinContext<'a> {
        JoinContext {
            cluster,
            member,
            machine: self.machine(member),
            progress,
        }
    }

    /// Ends what makes a machine a node, if it answers.
    async fn quiet(&self, member: &Member) {
        let machine = self.machine(member);
        let ended =
            async { tokio::join!(machine.stop(join::KUBEADM_RUN), machine.stop("kubelet")) };
        match tokio::time::timeout(NO_PROGRESS, ended).await {
            Ok((Ok(()), Ok(()))) => {}
            Ok((Err(error), _) | (_, Err(error))) => {
                tracing::debug!(machine = %member.machine, %error, "kubelet not stopped before member removal");
            }
            Err(_) => {
                tracing::debug!(machine = %member.machine, "kubelet did not stop in time before member removal");
            }
        }
    }

    fn snapshots_of(&self, name: &ClusterName) -> Snapshots {
        Snapshots::of(&self.snapshots, name)
    }
}

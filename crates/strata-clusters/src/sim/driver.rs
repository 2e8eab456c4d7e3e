//! The calls of a simulated driver.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_types::Secret;
use strata_types::cluster::{ClusterName, KubernetesVersion, Member};

use super::{CallResult, Sim};
use crate::{ClusterFacts, Done, Drained, Driver, DriverError, Observed, Preflight, Snapshot};

type Progress<'a> = &'a (dyn Fn(String) + Send + Sync);

impl Driver for Sim {
    fn secrets(&self, name: &ClusterName) -> Result<BTreeMap<String, Secret>, DriverError> {
        self.call_now("secrets", |_| {
            let key = Secret::new(format!("simulated key of {name}"));
            Ok([("ca.key".to_owned(), key)].into())
        })
    }

    fn install<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Progress<'a>,
    ) -> Done<'a> {
        async move {
            progress("installing".into());
            let machine = member.machine.as_str();
            self.call("install", machine, |world| world.install(cluster, member))
                .await
        }
        .boxed()
    }

    fn images<'a>(&'a self, member: &'a Member, progress: Progress<'a>) -> Done<'a> {
        async move {
            progress("importing".into());
            let machine = member.machine.as_str();
            self.call("images", machine, |world| world.images(member))
                .await
        }
        .boxed()
    }

    fn init<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Progress<'a>,
    ) -> Done<'a> {
        async move {
            progress("beginning".into());
            let machine = member.machine.as_str();
            self.call("init", machine, |world| world.init(cluster, member))
                .await
        }
        .boxed()
    }

    fn join<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Progress<'a>,
    ) -> Done<'a> {
        async move {
            progress("joining".into());
            let machine = member.machine.as_str();
            self.call("join", machine, |world| world.join(cluster, member))
                .await
        }
        .boxed()
    }

    fn ready<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: Progress<'a>,
    ) -> Done<'a> {
        async move {
            progress("waiting for it".into());
            let machine = member.machine.as_str();
            self.call("ready", machine, |world| world.ready(cluster, member))
                .await
        }
        .boxed()
    }

    fn update_peers<'a>(&'a self, cluster: &'a ClusterFacts) -> Done<'a> {
        let reported = self.call("update_peers", "", |world| {
            world.update_peers(cluster);
            Ok(())
        });
        reported.boxed()
    }

    fn observe<'a>(&'a self, cluster: &'a ClusterFacts) -> BoxFuture<'a, Observed> {
        async move {
            match self.run("observe", "", |world| Ok(world.observe(cluster))) {
                CallResult::Reported(Ok(seen)) => seen,
                CallResult::Reported(Err(error)) => Observed {
                    why: error.to_string(),
                    ..Observed::default()
                },
                CallResult::Crashed => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn cordon<'a>(&'a self, cluster: &'a ClusterFacts, node: &'a str, closed: bool) -> Done<'a> {
        self.call("cordon", node, move |world| {
            world.cordon(cluster, node, closed)
        })
        .boxed()
    }

    fn drain<'a>(&'a self, cluster: &'a ClusterFacts, node: &'a str) -> Done<'a, Drained> {
        self.call("drain", node, move |world| world.drain(cluster, node))
            .boxed()
    }

    fn remove_member<'a>(&'a self, cluster: &'a ClusterFacts, member: &'a Member) -> Done<'a> {
        let machine = member.machine.as_str();
        self.call("remove_member", machine, move |world| {
            world.remove_member(cluster, member)
        })
        .boxed()
    }

    fn preflight<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        to: KubernetesVersion,
    ) -> Done<'a, Preflight> {
        self.call("preflight", "", move |world| world.preflight(cluster, to))
            .boxed()
    }

    fn upgrade<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        to: KubernetesVersion,
        first: bool,
        progress: Progress<'a>,
    ) -> Done<'a> {
        async move {
            progress(format!("upgrading to {to}"));
            self.call("upgrade", member.machine.as_str(), |world| {
                world.upgrade(cluster, member, to, first)
            })
            .await
        }
        .boxed()
    }

    fn snapshot<'a>(&'a self, cluster: &'a ClusterFacts, reason: &'a str) -> Done<'a, Snapshot> {
        self.call("snapshot", "", move |world| world.snapshot(cluster, reason))
            .boxed()
    }

    fn snapshots(&self, name: &ClusterName) -> Result<Vec<Snapshot>, DriverError> {
        self.call_now("snapshots", |world| {
            let cluster_config = world.snapshots.get(name.as_str());
            let cluster_config = cluster_config.into_iter().flatten();
            Ok(cluster_config
                .map(|(snapshot, _)| snapshot.clone())
                .collect())
        })
    }

    fn restore<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        snapshot: &'a str,
        progress: Progress<'a>,
    ) -> Done<'a, Vec<String>> {
        async move {
            progress(format!("rolling back to {snapshot}"));
            self.call("restore", "", |world| world.restore(cluster, snapshot))
                .await
        }
        .boxed()
    }

    fn configure<'a>(&'a self, _: &'a ClusterFacts) -> Done<'a> {
        std::future::ready(Ok(())).boxed()
    }

    fn renew<'a>(&'a self, _: &'a ClusterFacts, member: &'a Member) -> Done<'a, bool> {
        let machine = member.machine.as_str();
        let renewed = self.call("renew", machine, move |world| {
            Ok(std::mem::take(&mut world.up(machine)?.ageing))
        });
        renewed.boxed()
    }

    fn grant_access<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        user: &'a str,
        role: Option<&'a str>,
    ) -> Done<'a> {
        let admitted = self.call("grant_access", "", move |world| {
            let users = &mut world.serving(cluster)?.users;
            match role {
                Some(role) => users.insert(user.into(), role.into()),
                None => users.remove(user),
            };
            Ok(())
        });
        admitted.boxed()
    }

    fn kubeconfig(
        &self,
        cluster: &ClusterFacts,
        user: &str,
        server: &str,
        seconds: u64,
    ) -> Result<Secret, DriverError> {
        self.call_now("kubeconfig", |_| match cluster.secrets.is_empty() {
            true => Err(DriverError::Secrets {
                what: "kubeconfig".into(),
                why: "the cluster has no secrets".into(),
            }),
            false => Ok(Secret::new(format!(
                "simulated: {user} at {server} for {seconds} seconds\n"
            ))),
        })
    }

    fn clear(&self, name: &ClusterName) -> Result<(), DriverError> {
        self.call_now("clear", |world| {
            world
                .clusters
                .retain(|_, simulated| simulated.name != name.as_str());
            world.snapshots.remove(name.as_str());
            Ok(())
        })
    }
}

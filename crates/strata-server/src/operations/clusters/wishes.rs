//! What people ask of clusters, the same for every face: looked at, written
//! down, and begun as an operation.

use strata_api::rest::ClusterPlan;
use strata_clusters::choose;
use strata_types::cluster::{ClusterSpec, ControlPlane, NodePool, PodSecurityLevel};
use strata_types::{Error, ErrorKind, Label, Result, Role};
use strata_workflow::{Filter, Kind, OperationId, WorkflowError};

use super::plans::missing;
use super::{
    Clusters, CreateCluster, CreateClusterInput, DeleteCluster, PoolChange, RestoreCluster,
    RestoreClusterInput, SnapshotCluster, SnapshotInput, driver_public,
};
use crate::core::{Cluster, ClusterChange, Kept, Who, Work, now_ms};
use crate::operations::public;

/// How often machines are chosen anew when others were faster.
const TRIES: usize = 8;
/// Ports for clusters, from the first on.
const PORTS: u16 = 200;

impl Clusters {
    /// Whether a cluster could be made, and of what.
    pub fn plan_create(
        &self,
        who: &Who,
        name: &str,
        version: &str,
        control_plane: &ControlPlane,
        pools: &[NodePool],
    ) -> Result<ClusterPlan> {
        let (_, spec) = self.asked(who, name, version, control_plane, pools)?;
        self.plan_members(&spec).map(|(_, plan)| plan)
    }

    fn asked(
        &self,
        who: &Who,
        name: &str,
        version: &str,
        control_plane: &ControlPlane,
        pools: &[NodePool],
    ) -> Result<(Label, ClusterSpec)> {
        who.everywhere()?;
        choose::check(name, control_plane, pools)?;
        let name = Label::from_field("name", name)?;
        let bundle = self.catalogue.resolve(version).map_err(missing)?;
        let level = control_plane.pod_security.unwrap_or_default();
        if level == PodSecurityLevel::Privileged && who.role != Role::Admin {
            let why = "only an admin may let the pods of a cluster be privileged";
            return Err(Error::new(ErrorKind::PermissionDenied, why)
                .in_field("controlPlane.podSecurity")
                .with_hint("choose baseline or restricted"));
        }
        let spec = ClusterSpec {
            version: bundle.version,
            control_plane: ControlPlane {
                pod_security: Some(level),
                ..control_plane.clone()
            },
            pools: pools.to_vec(),
        };
        Ok((name, spec))
    }

    /// Makes a cluster. The same again is the same cluster: the operation is
    /// the one that last worked on it then.
    pub async fn create(
        &self,
        who: &Who,
        name: &str,
        version: &str,
        control_plane: ControlPlane,
        pools: Vec<NodePool>,
    ) -> Result<OperationId> {
        let (name, spec) = self.asked(who, name, version, &control_plane, &pools)?;
        let secrets = self.driver.secrets(&name).map_err(driver_public)?;
        for _ in 0..TRIES {
            let old = self.core.cluster(name.as_str()).ok();
            if let Some(old) = &old
                && !(old.work == Work::Idle && old.members.is_empty())
            {
                // Asked for again, it is what was asked for.
                if is_same(&old.spec, &spec)
                    && old.work != Work::Deleting
                    && !old.is_to_be_deleted()
                {
                    return self.last_operation(old).await;
                }
                let why = format!("there is a cluster {name} already");
                return Err(Error::already_exists(why).in_field("name"));
            }
            let (members, _) = self.plan_members(&spec)?;
            let machines = members.iter().map(|member| member.machine.to_string());
            let input = CreateClusterInput {
                cluster: name.to_string(),
                id: uuid::Uuid::now_v7().to_string(),
                machines: machines.collect(),
            };
            let new = Cluster {
                name: name.clone(),
                id: input.id.clone(),
                spec: spec.clone(),
                members,
                port: self.free_port(old.as_deref())?,
                work: Work::Creating,
                operation: String::new(),
                scaled_from: Vec::new(),
                leaving: Vec::new(),
                going_back_to: String::new(),
                failure: None,
                accepted: Vec::new(),
                held: None,
                deleted_pools: Vec::new(),
                admissions: std::collections::BTreeMap::new(),
                revoked: std::collections::BTreeMap::new(),
                asked_by: who.name.clone(),
                created_at_ms: now_ms(),
            };
            match self
                .core
                .write_new_cluster(old.as_deref(), &new, &secrets)
                .await
            {
                Ok(()) => return self.begin_create(&who.name, &input).await,
                Err(error) if error.kind() == ErrorKind::Aborted => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable(
            "others take machines too fast; try again",
        ))
    }

    /// The operation that last worked on a cluster. One whose record was written
    /// a moment ago may have none yet: it is begun now, and once.
    async fn last_operation(&self, cluster: &Cluster) -> Result<OperationId> {
        if let Ok(last) = cluster.operation.parse() {
            return Ok(last);
        }
        let machines = cluster.members.iter().map(|it| it.machine.to_string());
        let input = CreateClusterInput {
            cluster: cluster.name.to_string(),
            id: cluster.id.clone(),
            machines: machines.collect(),
        };
        self.begin_create(&cluster.asked_by, &input).await
    }

    /// A record whose operation could not be begun is begun by whoever looks
    /// after clusters, for whoever asked; so the key makes it one.
    pub(crate) async fn begin_create(
        &self,
        owner: &str,
        input: &CreateClusterInput,
    ) -> Result<OperationId> {
        let key = format!("create/{}", input.id);
        let begun = self.operations()?;
        let id = begun
            .submit::<CreateCluster>(input, owner, Some(&key))
            .await;
        let id = id.map_err(|error| public(&error))?;
        let noted = self.core.change_cluster(&input.cluster, |now| {
            let mut next = now.clone();
            if now.id == input.id && now.operation.is_empty() {
                next.operation = id.to_string();
            }
            Ok(next)
        });
        drop(noted.await);
        Ok(id)
    }

    fn free_port(&self, old: Option<&Kept<Cluster>>) -> Result<u16> {
        if let Some(old) = old {
            return Ok(old.port);
        }
        let all = self.core.clusters();
        let first = self.settings.first_port;
        let free = (first..first.saturating_add(PORTS)).find(|port| {
            let taken = all.iter().any(|cluster| cluster.port == *port);
            // Somebody else may have it; bound and let go, it is free.
            !taken && std::net::TcpListener::bind((self.settings.listen, *port)).is_ok()
        });
        free.ok_or_else(|| Error::unavailable("no port is free for another cluster"))
    }

    /// Deletes a cluster. Whatever else is under way is called off. One that
    /// was deleted is deleted: the operation is the one that did it.
    pub async fn delete(&self, who: &Who, name: &str) -> Result<OperationId> {
        who.everywhere()?;
        let cluster = match self.core.cluster(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let deletion = self.core.deletion_of(name).await?;
                return deletion.and_then(|id| id.parse().ok()).ok_or(error);
            }
            found => found?,
        };
        if let Some(under_way) = self.deletion_under_way(&cluster).await? {
            return Ok(under_way);
        }
        let change = ClusterChange::Delete;
        let accepted = self
            .core
            .accept_change(&cluster, change, &who.name, |_| Ok(()));
        let accepted = accepted.await?;
        let operations = self.operations()?;
        let all = operations.list(&Filter::default()).await;
        let held = format!("cluster/{name}");
        for one in all.map_err(|error| public(&error))? {
            let here = one.claims.iter().any(|claim| claim.key == held);
            if !here || one.has_ended() {
                continue;
            }
            if one.kind == DeleteCluster::NAME {
                continue;
            }
            drop(operations.cancel(one.id, &who.name).await);
        }
        // What could not be undone goes with the cluster; whoever looks after
        // clusters sees to it again.
        if let Err(error) = self.give_up_leftovers(name, &who.name).await {
            tracing::warn!(cluster = name, %error, "its deletion waits for what cannot be undone");
        }
        self.begin_accepted(&cluster, &accepted).await
    }

    /// The operation that deletes a cluster, while it does.
    async fn deletion_under_way(&self, cluster: &Cluster) -> Result<Option<OperationId>> {
        let (Work::Deleting, Ok(id)) = (cluster.work, cluster.operation.parse()) else {
            return Ok(None);
        };
        match self.operations()?.get(id).await {
            Ok(found) => Ok((!found.has_ended()).then_some(id)),
            // Lost with a store that was put back: another one goes on.
            Err(WorkflowError::NotFound { .. }) => Ok(None),
            Err(error) => Err(public(&error)),
        }
    }

    /// Adds pools.
    pub async fn add_pools(
        &self,
        who: &Who,
        name: &str,
        pools: Vec<NodePool>,
    ) -> Result<OperationId> {
        self.change_pools(who, name, PoolChange::Add(pools)).await
    }

    /// Takes pools away.
    pub async fn delete_pools(
        &self,
        who: &Who,
        name: &str,
        pools: Vec<String>,
    ) -> Result<OperationId> {
        self.change_pools(who, name, PoolChange::Delete(pools))
            .await
    }

    /// Gives pools so many machines.
    pub async fn scale_pools(
        &self,
        who: &Who,
        name: &str,
        sizes: Vec<(String, u32)>,
    ) -> Result<OperationId> {
        self.change_pools(who, name, PoolChange::Scale(sizes)).await
    }

    /// What scaling would come to.
    pub async fn plan_scale(&self, name: &str, sizes: &[(String, u32)]) -> Result<ClusterPlan> {
        let cluster = self.core.cluster(name)?;
        let change = PoolChange::Scale(sizes.to_vec());
        let plan = self.look_and_plan_pools(&cluster, &change).await?;
        Ok(plan.shown(&cluster))
    }

    async fn change_pools(&self, who: &Who, name: &str, change: PoolChange) -> Result<OperationId> {
        who.everywhere()?;
        let cluster = self.core.cluster(name)?;
        usable(&cluster)?;
        // All or nothing is looked at now; when it is its turn, again.
        let seen = self.observed(&cluster);
        drop(self.plan_pools(&cluster, &change, &seen)?);
        if let PoolChange::Delete(names) = &change
            && !cluster.spec.pools.iter().any(|it| names.contains(&it.name))
        {
            // They are gone already.
            return self.last_operation(&cluster).await;
        }
        self.give_up_held(&cluster, &change, &who.name).await?;
        self.make_way(&cluster, &who.name).await?;
        let change = ClusterChange::Pools(change);
        self.accept(who, &cluster, change).await
    }

    /// Brings a cluster to a version.
    pub async fn upgrade(&self, who: &Who, name: &str, version: &str) -> Result<OperationId> {
        who.everywhere()?;
        let cluster = self.core.cluster(name)?;
        usable(&cluster)?;
        let to = self.catalogue.resolve(version).map_err(missing)?.version;
        let is_there =
            cluster.spec.version == to && cluster.members.iter().all(|member| member.version == to);
        if is_there && cluster.work == Work::Idle && cluster.accepted.is_empty() {
            return self.last_operation(&cluster).await;
        }
        self.may_upgrade(&cluster, to)?;
        self.make_way(&cluster, &who.name).await?;
        self.accept(who, &cluster, ClusterChange::Upgrade(to)).await
    }

    /// Keeps the state of a cluster.
    pub async fn snapshot(&self, who: &Who, name: &str) -> Result<OperationId> {
        who.everywhere()?;
        let cluster = self.core.cluster(name)?;
        usable(&cluster)?;
        self.make_way(&cluster, &who.name).await?;
        let input = SnapshotInput {
            cluster: name.to_owned(),
            reason: format!("asked for by {}", who.name),
        };
        self.begin::<SnapshotCluster>(who, &input).await
    }

    /// Puts a cluster back to a snapshot.
    pub async fn restore(&self, who: &Who, name: &str, snapshot: &str) -> Result<OperationId> {
        who.everywhere()?;
        usable(&*self.core.cluster(name)?)?;
        let all = self.snapshots(name)?;
        let found = match snapshot {
            "latest" => all.last(),
            id => all.iter().find(|it| it.id == id),
        };
        let Some(found) = found else {
            let snapshot: String = snapshot.chars().take(80).collect();
            return Err(
                Error::not_found(format!("cluster {name} has no snapshot {snapshot}")).with_hint(
                    format!("see those there are: strata cluster snapshot list {name}"),
                ),
            );
        };
        // It takes the place of any other way back.
        self.give_up_leftovers(name, &who.name).await?;
        let input = RestoreClusterInput {
            cluster: name.to_owned(),
            snapshot: found.id.clone(),
        };
        self.begin::<RestoreCluster>(who, &input).await
    }

    pub(crate) async fn begin<K: Kind>(&self, who: &Who, input: &K::Input) -> Result<OperationId> {
        let begun = self.operations()?.submit::<K>(input, &who.name, None).await;
        begun.map_err(|error| public(&error))
    }
}

/// Whether two specs ask for the same. A cluster from before the level of pod
/// security could be chosen is the same as one with any.
fn is_same(old: &ClusterSpec, new: &ClusterSpec) -> bool {
    let mut old = old.clone();
    let level = &mut old.control_plane.pod_security;
    *level = level.or(new.control_plane.pod_security);
    old == *new
}

/// Refuses a cluster that is not there yet, or not any more.
pub(super) fn usable(cluster: &Cluster) -> Result<()> {
    let name = &cluster.name;
    match cluster.work {
        Work::Creating => Err(Error::wrong_state(format!("cluster {name} is being built"))),
        _ if cluster.is_to_be_deleted() => Err(Error::wrong_state(format!(
            "cluster {name} is being deleted"
        ))),
        Work::Deleting => Err(Error::wrong_state(format!(
            "cluster {name} is being deleted"
        ))),
        _ if cluster.members.is_empty() => Err(Error::wrong_state(format!(
            "cluster {name} has no machines"
        ))
        .with_hint(format!("delete it: strata cluster delete {name}"))),
        _ => Ok(()),
    }
}

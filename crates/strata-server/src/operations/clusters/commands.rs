//! The commands of clusters, shared by REST and gRPC: validate, record the
//! change, submit an operation.

use strata_api::rest::ClusterPlan;
use strata_clusters::choose;
use strata_types::cluster::{ClusterSpec, ControlPlane, NodePool, PodSecurityLevel};
use strata_types::{Error, ErrorKind, Label, Result, Role};
use strata_workflow::{Filter, Kind, OperationId, WorkflowError};

use super::planning::missing;
use super::{
    Clusters, CreateCluster, CreateClusterInput, DeleteCluster, PoolChange, RestoreCluster,
    RestoreClusterInput, SnapshotCluster, SnapshotInput, driver_public,
};
use crate::core::{Cluster, ClusterChange, Principal, Versioned, Work, now_ms};
use crate::operations::public;

/// How often machines are chosen again when others were faster.
const MAX_ATTEMPTS: usize = 8;
/// Ports for clusters, from the first on.
const PORTS: u16 = 200;

impl Clusters {
    /// Whether a cluster could be made, and of what.
    pub fn plan_create(
        &self,
        principal: &Principal,
        name: &str,
        version: &str,
        control_plane: &ControlPlane,
        pools: &[NodePool],
    ) -> Result<ClusterPlan> {
        let (_, spec) = self.validated_spec(principal, name, version, control_plane, pools)?;
        self.plan_members(&spec).map(|(_, plan)| plan)
    }

    fn validated_spec(
        &self,
        principal: &Principal,
        name: &str,
        version: &str,
        control_plane: &ControlPlane,
        pools: &[NodePool],
    ) -> Result<(Label, ClusterSpec)> {
        principal.require_all_projects()?;
        choose::check(name, control_plane, pools)?;
        let name = Label::from_field("name", name)?;
        let bundle = self.catalogue.resolve(version).map_err(missing)?;
        let level = control_plane.pod_security.unwrap_or_default();
        if level == PodSecurityLevel::Privileged && principal.role != Role::Admin {
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
        principal: &Principal,
        name: &str,
        version: &str,
        control_plane: ControlPlane,
        pools: Vec<NodePool>,
    ) -> Result<OperationId> {
        let (name, spec) = self.validated_spec(principal, name, version, &control_plane, &pools)?;
        let secrets = self.driver.secrets(&name).map_err(driver_public)?;
        for _ in 0..MAX_ATTEMPTS {
            let old = self.core.cluster(name.as_str()).ok();
            if let Some(old) = &old
                && !(old.work == Work::Idle && old.members.is_empty())
            {
                // The same request again is answered with its operation.
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
                rollback_snapshot: String::new(),
                failure: None,
                accepted: Vec::new(),
                held: None,
                deleted_pools: Vec::new(),
                access_grants: std::collections::BTreeMap::new(),
                revoked: std::collections::BTreeMap::new(),
                asked_by: principal.name.clone(),
                created_at_ms: now_ms(),
            };
            match self
                .core
                .write_new_cluster(old.as_deref(), &new, &secrets)
                .await
            {
                Ok(()) => return self.begin_create(&principal.name, &input).await,
                Err(error) if error.kind() == ErrorKind::Aborted => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable(
            "machines are taken concurrently; try again",
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

    /// When the operation of a record could not be started, the reconciler of
    /// clusters starts it for the principal that requested it; the key makes
    /// both attempts one operation.
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

    fn free_port(&self, old: Option<&Versioned<Cluster>>) -> Result<u16> {
        if let Some(old) = old {
            return Ok(old.port);
        }
        let all = self.core.clusters();
        let first = self.settings.first_port;
        let free = (first..first.saturating_add(PORTS)).find(|port| {
            let taken = all.iter().any(|cluster| cluster.port == *port);
            // Another caller may have it; bound and let go, it is free.
            !taken && std::net::TcpListener::bind((self.settings.listen, *port)).is_ok()
        });
        free.ok_or_else(|| Error::unavailable("no port is free for another cluster"))
    }

    /// Deletes a cluster. Whatever else is under way is cancelled. One that
    /// was deleted is deleted: the operation is the one that did it.
    pub async fn delete(&self, principal: &Principal, name: &str) -> Result<OperationId> {
        principal.require_all_projects()?;
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
            .accept_change(&cluster, change, &principal.name, |_| Ok(()));
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
            drop(operations.cancel(one.id, &principal.name).await);
        }
        // What could not be undone goes with the cluster; the reconciler of
        // clusters retries it.
        if let Err(error) = self.abandon_leftovers(name, &principal.name).await {
            tracing::warn!(cluster = name, %error, "cluster deletion waits for leftovers of a failed operation");
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
            // Lost with a store that was restored: another one goes on.
            Err(WorkflowError::NotFound { .. }) => Ok(None),
            Err(error) => Err(public(&error)),
        }
    }

    pub async fn add_pools(
        &self,
        principal: &Principal,
        name: &str,
        pools: Vec<NodePool>,
    ) -> Result<OperationId> {
        self.change_pools(principal, name, PoolChange::Add(pools))
            .await
    }

    pub async fn delete_pools(
        &self,
        principal: &Principal,
        name: &str,
        pools: Vec<String>,
    ) -> Result<OperationId> {
        self.change_pools(principal, name, PoolChange::Delete(pools))
            .await
    }

    /// Gives pools so many machines.
    pub async fn scale_pools(
        &self,
        principal: &Principal,
        name: &str,
        sizes: Vec<(String, u32)>,
    ) -> Result<OperationId> {
        self.change_pools(principal, name, PoolChange::Scale(sizes))
            .await
    }

    /// What scaling would come to.
    pub async fn plan_scale(&self, name: &str, sizes: &[(String, u32)]) -> Result<ClusterPlan> {
        let cluster = self.core.cluster(name)?;
        let change = PoolChange::Scale(sizes.to_vec());
        let plan = self.observe_and_plan_pools(&cluster, &change).await?;
        Ok(plan.shown(&cluster))
    }

    async fn change_pools(
        &self,
        principal: &Principal,
        name: &str,
        change: PoolChange,
    ) -> Result<OperationId> {
        principal.require_all_projects()?;
        let cluster = self.core.cluster(name)?;
        require_usable(&cluster)?;
        // Whether all fits is checked now; when it is its turn, again.
        let observation = self.observed(&cluster);
        drop(self.plan_pools(&cluster, &change, &observation)?);
        if let PoolChange::Delete(names) = &change
            && !cluster.spec.pools.iter().any(|it| names.contains(&it.name))
        {
            // They are gone already.
            return self.last_operation(&cluster).await;
        }
        self.abandon_held(&cluster, &change, &principal.name)
            .await?;
        self.abandon_blocking(&cluster, &principal.name).await?;
        let change = ClusterChange::Pools(change);
        self.accept(principal, &cluster, change).await
    }

    /// Brings a cluster to a version.
    pub async fn upgrade(
        &self,
        principal: &Principal,
        name: &str,
        version: &str,
    ) -> Result<OperationId> {
        principal.require_all_projects()?;
        let cluster = self.core.cluster(name)?;
        require_usable(&cluster)?;
        let to = self.catalogue.resolve(version).map_err(missing)?.version;
        let is_there =
            cluster.spec.version == to && cluster.members.iter().all(|member| member.version == to);
        if is_there && cluster.work == Work::Idle && cluster.accepted.is_empty() {
            return self.last_operation(&cluster).await;
        }
        let by = &principal.name;
        if let Some(given_up) = self.abandon_held_upgrade(&cluster, to, by).await? {
            return Ok(given_up);
        }
        self.may_upgrade(&cluster, to)?;
        self.abandon_blocking(&cluster, &principal.name).await?;
        self.accept(principal, &cluster, ClusterChange::Upgrade(to))
            .await
    }

    /// Keeps the state of a cluster.
    pub async fn snapshot(&self, principal: &Principal, name: &str) -> Result<OperationId> {
        principal.require_all_projects()?;
        let cluster = self.core.cluster(name)?;
        require_usable(&cluster)?;
        self.abandon_blocking(&cluster, &principal.name).await?;
        let input = SnapshotInput {
            cluster: name.to_owned(),
            reason: format!("asked for by {}", principal.name),
        };
        self.begin::<SnapshotCluster>(principal, &input).await
    }

    /// Puts a cluster back to a snapshot.
    pub async fn restore(
        &self,
        principal: &Principal,
        name: &str,
        snapshot: &str,
    ) -> Result<OperationId> {
        principal.require_all_projects()?;
        require_usable(&*self.core.cluster(name)?)?;
        let all = self.snapshots(name)?;
        let found = match snapshot {
            "latest" => all.last(),
            id => all.iter().find(|it| it.id == id),
        };
        let Some(found) = found else {
            let snapshot: String = snapshot.chars().take(80).collect();
            return Err(
                Error::not_found(format!("cluster {name} has no snapshot {snapshot}"))
                    .with_hint(format!("list them: strata cluster snapshot list {name}")),
            );
        };
        // It takes the place of any other rollback.
        self.abandon_leftovers(name, &principal.name).await?;
        let input = RestoreClusterInput {
            cluster: name.to_owned(),
            snapshot: found.id.clone(),
        };
        self.begin::<RestoreCluster>(principal, &input).await
    }

    pub(crate) async fn begin<K: Kind>(
        &self,
        principal: &Principal,
        input: &K::Input,
    ) -> Result<OperationId> {
        let begun = self
            .operations()?
            .submit::<K>(input, &principal.name, None)
            .await;
        begun.map_err(|error| public(&error))
    }
}

/// Whether two specs request the same. A cluster from before the level of pod
/// security could be chosen is the same as one with any.
fn is_same(old: &ClusterSpec, new: &ClusterSpec) -> bool {
    let mut old = old.clone();
    let level = &mut old.control_plane.pod_security;
    *level = level.or(new.control_plane.pod_security);
    old == *new
}

/// Refuses a cluster that is not there yet, or not any more.
pub(super) fn require_usable(cluster: &Cluster) -> Result<()> {
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

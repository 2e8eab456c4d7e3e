//! Records of clusters, and of the owners of the machines of the inventory.
//!
//! A cluster and the machines that are taken for it are written in one
//! transaction: no machine is taken twice, and none is taken for nothing. Where
//! they are more than a transaction takes, the record comes first, and whose
//! each machine is follows it (`sync_machine_owners`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strata_store::{StoreError, Transaction};
use strata_types::cluster::{ClusterName, ClusterSpec, KubernetesVersion, Member, NodePool};
use strata_types::machine::{MachineId, MachinePhase};
use strata_types::{Error, ErrorKind, Result, Secret};

use super::accepted::AcceptedChange;
use super::commit::{WriteDecision, Writer};
use super::record::{decode, encode};
use super::resource::not_found;
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, keys, now_ms};

/// Machines that are taken or freed in one transaction: a store takes 128
/// writes, and a cluster has more machines than that.
const MACHINE_BATCH: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    pub name: ClusterName,
    /// Its id, which another cluster of the same name does not have.
    pub id: String,
    pub spec: ClusterSpec,
    /// The machines that were taken for it.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Where the server passes connections on to its API.
    pub port: u16,
    /// What is under way.
    #[serde(default)]
    pub work: Work,
    /// The operation that last worked on it.
    #[serde(default)]
    pub operation: String,
    /// The pools before they began to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaled_from: Vec<NodePool>,
    /// The machines that are on their way out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<String>,
    /// Changes that were accepted and have not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<AcceptedChange>,
    /// What keeps a node from being drained, while something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldDrain>,
    /// The names of pools that were deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_pools: Vec<String>,
    /// The snapshot that a failed upgrade is going back to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(rename = "goingBackTo")]
    pub rollback_snapshot: String,
    /// What stopped half-way, until something works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ClusterFailure>,
    /// The grants of access.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "admissions")]
    pub access_grants: BTreeMap<String, AccessGrant>,
    /// How often a user was revoked: no user name comes twice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub revoked: BTreeMap<String, u32>,
    /// The principal that requested it.
    #[serde(default)]
    pub asked_by: String,
    /// When it was requested, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// What is under way at a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum Work {
    #[default]
    Idle,
    /// It is being built.
    Creating,
    Scaling,
    /// Members that died are replaced.
    Healing,
    /// It goes to another version.
    Upgrading {
        to: KubernetesVersion,
    },
    /// It goes back to a snapshot.
    Restoring,
    /// It is being deleted.
    Deleting,
}

/// Something that stopped half-way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailure {
    /// What: `upgrade to v1.35.4`.
    pub what: String,
    /// The reason, for people.
    pub why: String,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A drain that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldDrain {
    /// The node, which has the name of its machine.
    pub node: String,
    pub why: String,
}

/// A user of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessGrant {
    /// How often they were granted access again: part of their name in the cluster, so
    /// that what was revoked stays so.
    pub generation: u32,
    pub role: String,
    /// When the last certificate of the user expires, in Unix milliseconds.
    pub until_ms: i64,
}

impl AccessGrant {
    /// Whether all certificates of the user expired so many milliseconds ago.
    pub(crate) fn is_over(&self, since_ms: i64) -> bool {
        self.until_ms.saturating_add(since_ms) <= now_ms()
    }
}

impl Cluster {
    /// A member by its machine.
    pub fn member(&self, machine: &str) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.machine.as_str() == machine)
    }
}

impl Core {
    /// A cluster by its name.
    pub fn cluster(&self, name: &str) -> Result<Arc<Versioned<Cluster>>> {
        self.find(name)
    }

    /// All clusters, by name.
    pub fn clusters(&self) -> Vec<Arc<Versioned<Cluster>>> {
        self.all()
    }

    /// Writes a new cluster, its secrets, and whose its machines are now.
    /// [`ErrorKind::Aborted`] when another caller was faster with one of them:
    /// observe and choose again.
    pub(crate) async fn write_new_cluster(
        &self,
        replaces: Option<&Versioned<Cluster>>,
        new: &Cluster,
        secrets: &BTreeMap<String, Secret>,
    ) -> Result<()> {
        let key = keys::cluster(&new.name);
        let guard = Transaction::new();
        let guard = match replaces {
            Some(old) => guard.if_unchanged(&*key, old.revision),
            None => guard.if_absent(&*key),
        };
        // One that is built again keeps its port.
        let port = keys::cluster_port(new.port);
        let guard = match replaces {
            Some(old) if old.port == new.port => guard,
            _ => guard.if_absent(&*port),
        };
        let guard = guard.put(port, new.name.to_string());
        let secrets: BTreeMap<_, _> = secrets.iter().map(|(k, v)| (k, v.expose())).collect();
        let put = guard
            .put(&*key, encode(new)?)
            .put(keys::cluster_secrets(&new.name), encode(&secrets)?);
        // All are checked before anything is written.
        let machines = machines_of(&new.members);
        self.take_for(Transaction::new(), new, &machines)?;
        let first = machines.len().min(MACHINE_BATCH);
        let put = self.take_for(put, new, &machines[..first])?;
        match self.commit(put).await {
            Ok(_) => self.take_remaining_machines(new).await,
            Err(StoreError::Conflict { key }) => {
                self.caught_up(&key).await?;
                Err(Error::new(
                    ErrorKind::Aborted,
                    "the record was changed concurrently",
                ))
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Changes a cluster, as any server; not its machines.
    pub(crate) async fn change_cluster(
        &self,
        name: &str,
        mut rule: impl FnMut(&Cluster) -> Result<Cluster>,
    ) -> Result<Arc<Versioned<Cluster>>> {
        let key = self.cluster(name)?.name.clone();
        let changed = self.change::<Cluster>(Writer::AnyServer, &key, |now| {
            Ok(WriteDecision::replace(&now.record, rule(now)?))
        });
        changed.await?.ok_or_else(|| not_found::<Cluster>(name))
    }

    /// A cluster as it is in the store now. A step that was abandoned may have
    /// written a moment ago: a step that decides by an older state would
    /// conclude that nothing is left to undo.
    pub(crate) async fn newest_cluster(&self, name: &str) -> Result<Arc<Versioned<Cluster>>> {
        let key = keys::cluster(&self.cluster(name)?.name);
        self.caught_up(&key).await?;
        self.cluster(name)
    }

    /// Changes a cluster as the server that leads; machines that it gets or
    /// loses with that are written as its own, or as free, with it.
    pub(crate) async fn lead_cluster(
        &self,
        name: &str,
        mut rule: impl FnMut(&Cluster) -> Result<Cluster>,
    ) -> Result<Arc<Versioned<Cluster>>> {
        let key = keys::cluster(&self.newest_cluster(name).await?.name);
        for _ in 0..32 {
            let now = self.cluster(name)?;
            let next = rule(&now)?;
            if next == now.record {
                self.sync_machine_owners(Writer::Leader, &now).await?;
                return Ok(now);
            }
            let (had, has) = (machines_of(&now.members), machines_of(&next.members));
            let put = Transaction::new()
                .if_unchanged(&*key, now.revision)
                .put(&*key, encode(&next)?);
            let taken: Vec<_> = has.iter().filter(|id| !had.contains(id)).cloned().collect();
            let freed: Vec<_> = had.iter().filter(|id| !has.contains(id)).cloned().collect();
            let taken_now = taken.len().min(MACHINE_BATCH);
            let freed_now = freed.len().min(MACHINE_BATCH - taken_now);
            self.take_for(Transaction::new(), &next, &taken)?;
            let put = self.take_for(put, &next, &taken[..taken_now])?;
            let put = self.free_from(put, &next.name, &freed[..freed_now])?;
            match self.commit_as_leader(put).await {
                Ok(_) => {
                    let now = self.cluster(name)?;
                    self.sync_machine_owners(Writer::Leader, &now).await?;
                    return Ok(now);
                }
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("{name} changes too fast")))
    }

    /// Removes the record of a cluster that has no machines any more. That the
    /// operation deleted it is kept.
    pub(crate) async fn remove_cluster(&self, name: &str, operation: &str) -> Result<()> {
        for _ in 0..32 {
            let Ok(now) = self.cluster(name) else {
                return Ok(());
            };
            let key = keys::cluster(&now.name);
            self.sync_machine_owners(Writer::Leader, &now).await?;
            if now.members.len() > MACHINE_BATCH {
                let fewer = |now: &Cluster| {
                    let mut next = now.clone();
                    let rest = next.members.len().saturating_sub(MACHINE_BATCH);
                    next.members.truncate(rest);
                    Ok(next)
                };
                Box::pin(self.lead_cluster(name, fewer)).await?;
                continue;
            }
            let gone = Transaction::new()
                .if_unchanged(&*key, now.revision)
                .delete(key)
                .delete(keys::cluster_port(now.port))
                .delete(keys::cluster_secrets(&now.name));
            let gone = self.free_from(gone, &now.name, &machines_of(&now.members))?;
            let gone = self.record_deletion(gone, &now.name, operation).await?;
            match self.commit_as_leader(gone).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("{name} changes too fast")))
    }

    /// The CAs and keys of a cluster.
    pub(crate) async fn cluster_secrets(
        &self,
        name: &ClusterName,
    ) -> Result<BTreeMap<String, Secret>> {
        let key = keys::cluster_secrets(name);
        let found = self.store().get(&key).await.map_err(public)?;
        let found = found.ok_or_else(|| Error::not_found(format!("{name} has no keys")))?;
        secrets_in(&key, &found.value)
    }

    /// Changes the CAs and keys of a cluster, as the server that leads,
    /// where the rule says so.
    pub(crate) async fn change_cluster_secrets(
        &self,
        name: &ClusterName,
        rule: impl Fn(&BTreeMap<String, Secret>) -> Option<BTreeMap<String, Secret>>,
    ) -> Result<()> {
        let key = keys::cluster_secrets(name);
        for _ in 0..32 {
            let found = self.store().get(&key).await.map_err(public)?;
            let found = found.ok_or_else(|| Error::not_found(format!("{name} has no keys")))?;
            let Some(next) = rule(&secrets_in(&key, &found.value)?) else {
                return Ok(());
            };
            let next: BTreeMap<_, _> = next.iter().map(|(k, v)| (k, v.expose())).collect();
            let put = Transaction::new()
                .if_unchanged(&*key, found.changed)
                .put(&*key, encode(&next)?);
            match self.commit_as_leader(put).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!(
            "the keys of {name} change too fast"
        )))
    }

    /// Takes what is left of the machines of a new cluster; all of it goes when
    /// one of them was taken meanwhile.
    async fn take_remaining_machines(&self, new: &Cluster) -> Result<()> {
        if new.members.len() <= MACHINE_BATCH {
            return Ok(());
        }
        let now = self.cluster(new.name.as_str())?;
        let Err(error) = self.sync_machine_owners(Writer::AnyServer, &now).await else {
            return Ok(());
        };
        let mut none = now.record.clone();
        none.members.clear();
        let key = keys::cluster(&now.name);
        let put = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .put(&*key, encode(&none)?);
        self.commit(put).await.map_err(public)?;
        let now = self.cluster(new.name.as_str())?;
        self.sync_machine_owners(Writer::AnyServer, &now).await?;
        let gone = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .delete(key)
            .delete(keys::cluster_port(now.port))
            .delete(keys::cluster_secrets(&now.name));
        self.commit(gone).await.map_err(public)?;
        Err(error)
    }

    /// Makes whose each machine is what the record of the cluster says, as many
    /// at once as a store takes: those it lists are its own, those it does not
    /// list are free. A server that dies in between leaves the rest to the next
    /// call.
    async fn sync_machine_owners(
        &self,
        writer: Writer,
        cluster: &Versioned<Cluster>,
    ) -> Result<()> {
        let listed = machines_of(&cluster.members);
        let name = &cluster.name;
        let (missing, stray) = {
            let tables = self.tables();
            let is_its = |id: &MachineId| {
                let found = tables.machines.get(id);
                found.is_some_and(|machine| machine.cluster.as_ref() == Some(name))
            };
            let missing = listed.iter().filter(|id| !is_its(id));
            // Of a new cluster all are taken or it is none; later a machine may
            // have been removed, or given to another by hand.
            let may_be_its = |id: &MachineId| {
                let found = tables.machines.get(id);
                let is_free = |machine: &super::Machine| {
                    machine.phase == MachinePhase::Available && machine.cluster.is_none()
                };
                writer == Writer::AnyServer || found.is_some_and(|machine| is_free(machine))
            };
            let missing = missing.filter(|id| may_be_its(id));
            let missing: Vec<MachineId> = missing.cloned().collect();
            let all = tables.machines.keys();
            let stray = all.filter(|id| is_its(id) && !listed.contains(id));
            (missing, stray.cloned().collect::<Vec<_>>())
        };
        let key = keys::cluster(name);
        let guard = || Transaction::new().if_unchanged(&*key, cluster.revision);
        for some in missing.chunks(MACHINE_BATCH) {
            let put = self.take_for(guard(), cluster, some)?;
            self.commit_machines(writer, put).await?;
        }
        for some in stray.chunks(MACHINE_BATCH) {
            let put = self.free_from(guard(), name, some)?;
            self.commit_machines(writer, put).await?;
        }
        Ok(())
    }

    async fn commit_machines(&self, writer: Writer, put: Transaction) -> Result<()> {
        let written = self.commit_as(writer, put).await;
        match written {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { key }) => {
                self.caught_up(&key).await?;
                Err(Error::new(
                    ErrorKind::Aborted,
                    "the record was changed concurrently",
                ))
            }
            Err(error) => Err(public(error)),
        }
    }

    /// These machines are the cluster's from now on.
    fn take_for(
        &self,
        mut transaction: Transaction,
        cluster: &Cluster,
        machines: &[MachineId],
    ) -> Result<Transaction> {
        for id in machines {
            let now = self.machine(id.as_str())?;
            if now.phase != MachinePhase::Available || now.cluster.is_some() {
                let why = format!("machine {id} was taken meanwhile");
                return Err(Error::new(ErrorKind::Aborted, why));
            }
            let mut next = now.record.clone();
            next.cluster = Some(cluster.name.clone());
            next.changed_at_ms = now_ms();
            let key = keys::machine(id);
            transaction = transaction
                .if_unchanged(&*key, now.revision)
                .put(&*key, encode(&next)?);
        }
        Ok(transaction)
    }

    /// These machines belong to no cluster from now on.
    fn free_from(
        &self,
        mut transaction: Transaction,
        cluster: &ClusterName,
        machines: &[MachineId],
    ) -> Result<Transaction> {
        for id in machines {
            let Ok(now) = self.machine(id.as_str()) else {
                continue;
            };
            if now.cluster.as_ref() != Some(cluster) {
                continue;
            }
            let mut next = now.record.clone();
            next.cluster = None;
            next.changed_at_ms = now_ms();
            let key = keys::machine(id);
            transaction = transaction
                .if_unchanged(&*key, now.revision)
                .put(&*key, encode(&next)?);
        }
        Ok(transaction)
    }
}

fn secrets_in(key: &str, value: &[u8]) -> Result<BTreeMap<String, Secret>> {
    let texts: BTreeMap<String, String> = decode(key, value)?;
    let secrets = texts.into_iter();
    Ok(secrets.map(|(k, v)| (k, Secret::new(v))).collect())
}

fn machines_of(members: &[Member]) -> Vec<MachineId> {
    let machines = members.iter().map(|member| member.machine.clone());
    machines.collect()
}

//! Every record in memory, with the indexes that queries need. Filled from the
//! store and kept true by its watch; nothing else writes here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use strata_identity::Revocations;
use strata_store::record::{self, Unknown};
use strata_store::{Change, Condition, Revision, StoreError, Transaction, Write};
use strata_types::instance::{InstanceId, InstanceSpec, WorkloadId};
use strata_types::project::ProjectUse;
use strata_types::{Error, Label};

use super::certificates::{Certificate, RevocationRecord};
use super::clusters::Cluster;
use super::keys::RecordKind;
use super::machines::Machine;
use super::record::{Instance, Node, Project, Workload, unread};
use super::ring::Ring;
use super::secrets::Secret;
use super::stored_bytes::StoredBytes;
use super::unreadable::{Remainder, Unreadable, without_one_field};

/// A record and the revision of its last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    pub record: T,
    /// When it was last written.
    pub revision: Revision,
}

impl<T> std::ops::Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.record
    }
}

/// A change of one record: before and after.
#[derive(Clone, Debug)]
pub struct RecordChange<T> {
    /// Before; none when it is new.
    pub before: Option<Arc<Versioned<T>>>,
    /// Now; none when it is gone.
    pub after: Option<Arc<Versioned<T>>>,
}

/// A change to one record.
#[derive(Clone, Debug)]
pub enum TableChange {
    Instance(RecordChange<Instance>),
    Workload(RecordChange<Workload>),
    Node(RecordChange<Node>),
    Project(RecordChange<Project>),
    Machine(RecordChange<Machine>),
    Cluster(RecordChange<Cluster>),
}

/// What names a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SecretUser {
    Instance(InstanceId),
    Workload(WorkloadId),
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) instances: BTreeMap<InstanceId, Arc<Versioned<Instance>>>,
    pub(crate) workloads: BTreeMap<WorkloadId, Arc<Versioned<Workload>>>,
    pub(crate) nodes: BTreeMap<String, Arc<Versioned<Node>>>,
    pub(crate) projects: BTreeMap<Label, Arc<Versioned<Project>>>,
    /// By project and name.
    pub(crate) secrets: BTreeMap<(Label, Label), Arc<Versioned<Secret>>>,
    pub(crate) machines: BTreeMap<Label, Arc<Versioned<Machine>>>,
    pub(crate) clusters: BTreeMap<Label, Arc<Versioned<Cluster>>>,
    pub(crate) certificates: BTreeMap<String, Arc<Versioned<Certificate>>>,
    /// By key of the store.
    pub(crate) revocations: BTreeMap<String, Arc<Versioned<RevocationRecord>>>,
    /// The same, in the form that the auth layer checks.
    pub(crate) revoked: Arc<Revocations>,
    /// The node of each subnet.
    subnets: HashMap<String, String>,
    /// The nodes, and maybe some whose record cannot be read any more.
    pub(crate) ring: Ring,
    pub(crate) instance_names: HashMap<(Label, Label), InstanceId>,
    pub(crate) workload_names: HashMap<(Label, Label), WorkloadId>,
    pub(crate) on_node: HashMap<String, BTreeSet<InstanceId>>,
    /// Those that a node has not confirmed to be gone.
    pub(crate) leaving: HashMap<String, BTreeSet<InstanceId>>,
    pub(crate) of_workload: HashMap<WorkloadId, BTreeSet<InstanceId>>,
    pub(crate) uses: HashMap<Label, ProjectUse>,
    /// By project and name: what names a secret.
    secret_users: HashMap<(Label, Label), BTreeSet<SecretUser>>,
    /// What the instances, workloads and secrets of projects take.
    pub(crate) stored: StoredBytes,
    /// Records that cannot be read, by key of the store.
    pub(crate) unreadable: BTreeMap<String, Unreadable>,
    /// What of a record this release does not know, by key of the store.
    remainders: HashMap<String, Remainder>,
    /// When each record was last written, whatever it is of: what is in here
    /// and not in the store any more is gone.
    revisions: HashMap<String, Revision>,
}

impl Tables {
    /// Takes in one change. Keys that are none of these are others' business.
    /// A record that cannot be read is an error, and is held as it is.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<Option<TableChange>, Error> {
        let key = change.key();
        let Some(kind) = RecordKind::of(key) else {
            return Ok(None);
        };
        let before = self.revisions.get(key).copied();
        match change {
            Change::Put(entry) if before == Some(entry.changed) => return Ok(None),
            Change::Put(entry) => self.revisions.insert(key.to_owned(), entry.changed),
            Change::Deleted { .. } => self.revisions.remove(key),
        };
        self.remainders.remove(key);
        let held = self.unreadable.remove(key);
        let taken = self.take(kind, key, change);
        self.count_bytes(kind, key, change, taken.is_ok());
        let error = match (taken, change) {
            (Ok(changed), Change::Put(_)) => return Ok(changed),
            (Ok(changed), Change::Deleted { .. }) => {
                return Ok(changed.filter(|_| held.is_none()));
            }
            (Err(error), _) => error,
        };
        if let Change::Put(entry) = change {
            let mut unreadable = Unreadable::new(entry, &error);
            self.drop_readable(kind, key, &mut unreadable);
            self.unreadable.insert(key.to_owned(), unreadable);
        }
        Err(error)
    }

    /// Counts a record to its project. One that cannot be read is of none.
    fn count_bytes(&mut self, kind: RecordKind, key: &str, change: &Change, is_read: bool) {
        self.stored.remove(key);
        let Change::Put(entry) = change else {
            return;
        };
        let name = &key[kind.prefix().len()..];
        let project = match kind {
            _ if !is_read => None,
            RecordKind::Instance => self.instances.get(name).map(|one| one.project.clone()),
            RecordKind::Workload => self.workloads.get(name).map(|one| one.project.clone()),
            RecordKind::Secret => secret_key(name).ok().map(|(project, _)| project),
            _ => None,
        };
        if let Some(project) = project {
            self.stored.insert(key, project, entry.value.len());
        }
    }

    fn take(
        &mut self,
        kind: RecordKind,
        key: &str,
        change: &Change,
    ) -> Result<Option<TableChange>, Error> {
        let name = &key[kind.prefix().len()..];
        Ok(Some(match kind {
            RecordKind::Instance => {
                let id: InstanceId = name.parse()?;
                let after = self.read(change)?;
                TableChange::Instance(self.apply_instance(id, after))
            }
            RecordKind::Workload => {
                let id: WorkloadId = name.parse()?;
                let after = self.read(change)?;
                TableChange::Workload(self.apply_workload(id, after))
            }
            RecordKind::Node => {
                let after = self.read_node(change)?;
                TableChange::Node(self.apply_node(name, after))
            }
            RecordKind::Project => {
                let name = Label::from_field("project", name)?;
                let after = self.read(change)?;
                TableChange::Project(replace_record(&mut self.projects, name, after))
            }
            RecordKind::Machine => {
                let id = Label::from_field("machine", name)?;
                let after = self.read(change)?;
                TableChange::Machine(replace_record(&mut self.machines, id, after))
            }
            RecordKind::Cluster => {
                let name = Label::from_field("cluster", name)?;
                let after = self.read(change)?;
                TableChange::Cluster(replace_record(&mut self.clusters, name, after))
            }
            RecordKind::Secret => {
                let after = self.read(change)?;
                replace_record(&mut self.secrets, secret_key(name)?, after);
                return Ok(None);
            }
            RecordKind::Certificate => {
                let after = self.read(change)?;
                replace_record(&mut self.certificates, name.to_owned(), after);
                return Ok(None);
            }
            RecordKind::Revocation => {
                let after = self.read(change)?;
                let change = replace_record(&mut self.revocations, key.to_owned(), after);
                match (&change.before, &change.after) {
                    (_, Some(after)) => self.revoked.add(&after.what),
                    (Some(before), None) => self.revoked.remove(&before.what),
                    (None, None) => {}
                }
                return Ok(None);
            }
        }))
    }

    /// Takes a record out that was read before and cannot be any more. Its
    /// name, its node and its workload are those it had, where its text has
    /// none. It is not announced as gone: it is not. A certificate that was
    /// revoked stays so.
    fn drop_readable(&mut self, kind: RecordKind, key: &str, unreadable: &mut Unreadable) {
        let name = &key[kind.prefix().len()..];
        match kind {
            RecordKind::Instance => {
                let Ok(id) = name.parse::<InstanceId>() else {
                    return;
                };
                if let Some(before) = self.apply_instance(id, None).before {
                    let text = |text: &Label| text.to_string();
                    let known = &before.record;
                    let named = || Some(text(&known.name));
                    unreadable.name = unreadable.name.take().or_else(named);
                    let within = || Some(text(&known.project));
                    unreadable.project = unreadable.project.take().or_else(within);
                    let on = || known.node.clone();
                    unreadable.node = unreadable.node.take().or_else(on);
                    let of = || known.workload.as_ref().map(ToString::to_string);
                    unreadable.workload = unreadable.workload.take().or_else(of);
                }
            }
            RecordKind::Workload => {
                if let Ok(id) = name.parse::<WorkloadId>() {
                    self.apply_workload(id, None);
                }
            }
            RecordKind::Node => drop(self.nodes.remove(name)),
            RecordKind::Project => {
                drop(name.parse().map(|name: Label| self.projects.remove(&name)));
            }
            RecordKind::Machine => drop(name.parse().map(|id: Label| self.machines.remove(&id))),
            RecordKind::Cluster => {
                drop(name.parse().map(|name: Label| self.clusters.remove(&name)));
            }
            RecordKind::Secret => drop(secret_key(name).map(|key| self.secrets.remove(&key))),
            RecordKind::Certificate => drop(self.certificates.remove(name)),
            RecordKind::Revocation => {}
        }
    }

    /// Reads a record; what of it this release does not know is remembered
    /// for when it is written again.
    fn read<T: DeserializeOwned>(
        &mut self,
        change: &Change,
    ) -> Result<Option<Versioned<T>>, Error> {
        self.read_with(change, |_| None)
    }

    fn read_node(&mut self, change: &Change) -> Result<Option<Versioned<Node>>, Error> {
        self.read_with(change, without_one_field)
    }

    fn read_with<T: DeserializeOwned>(
        &mut self,
        change: &Change,
        otherwise: impl FnOnce(&[u8]) -> Option<(T, Unknown)>,
    ) -> Result<Option<Versioned<T>>, Error> {
        let Change::Put(entry) = change else {
            return Ok(None);
        };
        let (record, unknown) = match record::decode(&entry.value) {
            Ok(read) => read,
            Err(error) => otherwise(&entry.value).ok_or_else(|| unread(&entry.key, &error))?,
        };
        if !unknown.is_empty() {
            let text = entry.value.clone();
            let remainder = Remainder { text, unknown };
            self.remainders.insert(entry.key.clone(), remainder);
        }
        Ok(Some(Versioned {
            record,
            revision: entry.changed,
        }))
    }

    /// The keys of all records, also of those that cannot be read.
    pub(crate) fn keys(&self) -> HashSet<String> {
        self.revisions.keys().cloned().collect()
    }

    /// Adds to each record of a transaction what this release does not know of
    /// the one in whose place it is written. What is new has nothing to keep.
    pub(crate) fn keep_unknown(&self, transaction: &mut Transaction) -> Result<(), StoreError> {
        if self.remainders.is_empty() {
            return Ok(());
        }
        let conditions = &transaction.conditions;
        let is_new = |key: &str| conditions.contains(&Condition::Absent(key.to_owned()));
        for write in &mut transaction.writes {
            if let Write::Put { key, value, .. } = write
                && let Some(known) = self.remainders.get(key.as_str())
                && !is_new(key)
            {
                let merged = known.unknown.merge(&known.text, value);
                let merged = merged.map_err(|error| {
                    StoreError::Invalid(format!("the record {key} cannot be merged: {error}"))
                })?;
                *value = merged.into();
            }
        }
        Ok(())
    }

    fn apply_node(&mut self, name: &str, after: Option<Versioned<Node>>) -> RecordChange<Node> {
        let change = replace_record(&mut self.nodes, name.to_owned(), after);
        if let Some(before) = &change.before
            && self.subnets.get(&before.subnet) == Some(&before.name)
        {
            self.subnets.remove(&before.subnet);
        }
        match &change.after {
            Some(after) => {
                self.subnets.insert(after.subnet.clone(), name.to_owned());
                self.ring.insert(name);
            }
            None => self.ring.remove(name),
        }
        change
    }

    /// The node that has a subnet.
    pub(crate) fn node_of_subnet(&self, subnet: &str) -> Option<&Node> {
        let node = self.nodes.get(self.subnets.get(subnet)?)?;
        Some(&node.record)
    }

    /// The nodes whose address is in a subnet: they run on the host of the node
    /// that has it.
    pub(crate) fn nested_in(&self, subnet: &str) -> impl Iterator<Item = &str> {
        let network = subnet
            .split_once(".0/24")
            .map(|(network, _)| format!("{network}."));
        let nested = move |node: &&Arc<Versioned<Node>>| {
            let within = |network: &String| node.address.starts_with(network.as_str());
            node.address_proven && network.as_ref().is_some_and(within)
        };
        self.nodes
            .values()
            .filter(nested)
            .map(|node| node.name.as_str())
    }

    /// The nodes that are reached by way of the one that has a subnet: those on
    /// its host, those on theirs, and so on.
    pub(crate) fn nested_below(&self, subnet: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut subnets = vec![subnet];
        while let Some(subnet) = subnets.pop() {
            for name in self.nested_in(subnet) {
                if found.insert(name) {
                    subnets.extend(self.nodes.get(name).map(|node| node.subnet.as_str()));
                }
            }
        }
        found
    }

    fn apply_instance(
        &mut self,
        id: InstanceId,
        after: Option<Versioned<Instance>>,
    ) -> RecordChange<Instance> {
        let change = replace_record(&mut self.instances, id.clone(), after);
        if let Some(before) = &change.before {
            self.unindex_instance(before);
        }
        if let Some(after) = &change.after {
            let name = (after.project.clone(), after.name.clone());
            self.instance_names.insert(name, id.clone());
            if let Some(node) = &after.node {
                let on = self.on_node.entry(node.clone()).or_default();
                on.insert(id.clone());
            }
            for leaving in &after.leaving {
                let from = self.leaving.entry(leaving.node.clone()).or_default();
                from.insert(id.clone());
            }
            if let Some(workload) = &after.workload {
                let of = self.of_workload.entry(workload.clone()).or_default();
                of.insert(id);
            }
            let used = self.uses.entry(after.project.clone()).or_default();
            *used += ProjectUse::of(&after.spec);
            let user = SecretUser::Instance(after.id.clone());
            self.index_secrets(&after.project, &after.spec, &user);
        }
        change
    }

    fn index_secrets(&mut self, project: &Label, spec: &InstanceSpec, user: &SecretUser) {
        for secret in spec.given_secrets().unwrap_or_default() {
            let users = self.secret_users.entry((project.clone(), secret.name));
            users.or_default().insert(user.clone());
        }
    }

    fn unindex_secrets(&mut self, project: &Label, spec: &InstanceSpec, user: &SecretUser) {
        for secret in spec.given_secrets().unwrap_or_default() {
            remove_from_index(
                &mut self.secret_users,
                &(project.clone(), secret.name),
                user,
            );
        }
    }

    /// So many of what names a secret, in words.
    pub(crate) fn users_of_secret(&self, secret: &Secret, most: usize) -> Vec<String> {
        let key = (secret.project.clone(), secret.name.clone());
        let users = self.secret_users.get(&key).into_iter().flatten();
        let named = users.filter_map(|user| match user {
            SecretUser::Instance(id) => {
                let found = self.instances.get(id)?;
                Some(format!("instance {}", found.name))
            }
            SecretUser::Workload(id) => {
                let found = self.workloads.get(id)?;
                Some(format!("workload {}", found.name))
            }
        });
        let mut named: Vec<String> = named.take(most).collect();
        named.sort_unstable();
        named
    }

    fn unindex_instance(&mut self, before: &Instance) {
        let name = (before.project.clone(), before.name.clone());
        if self.instance_names.get(&name) == Some(&before.id) {
            self.instance_names.remove(&name);
        }
        if let Some(node) = &before.node {
            remove_from_index(&mut self.on_node, node, &before.id);
        }
        for leaving in &before.leaving {
            remove_from_index(&mut self.leaving, &leaving.node, &before.id);
        }
        if let Some(workload) = &before.workload {
            remove_from_index(&mut self.of_workload, workload, &before.id);
        }
        if let Some(used) = self.uses.get_mut(&before.project) {
            *used -= ProjectUse::of(&before.spec);
        }
        let user = SecretUser::Instance(before.id.clone());
        self.unindex_secrets(&before.project, &before.spec, &user);
    }

    fn apply_workload(
        &mut self,
        id: WorkloadId,
        after: Option<Versioned<Workload>>,
    ) -> RecordChange<Workload> {
        let change = replace_record(&mut self.workloads, id.clone(), after);
        if let Some(before) = &change.before {
            let name = (before.project.clone(), before.name.clone());
            self.workload_names.remove(&name);
            let user = SecretUser::Workload(id.clone());
            self.unindex_secrets(&before.project, &before.spec, &user);
        }
        if let Some(after) = &change.after {
            let name = (after.project.clone(), after.name.clone());
            let user = SecretUser::Workload(id.clone());
            self.index_secrets(&after.project, &after.spec, &user);
            self.workload_names.insert(name, id);
        }
        change
    }
}

/// The project and the name of a secret.
fn secret_key(text: &str) -> Result<(Label, Label), Error> {
    let (project, name) = text.split_once('/').unwrap_or((text, ""));
    let project = Label::from_field("project", project)?;
    Ok((project, Label::from_field("secret", name)?))
}

fn replace_record<K: Ord, T>(
    table: &mut BTreeMap<K, Arc<Versioned<T>>>,
    key: K,
    after: Option<Versioned<T>>,
) -> RecordChange<T> {
    let after = after.map(Arc::new);
    let before = match &after {
        Some(after) => table.insert(key, after.clone()),
        None => table.remove(&key),
    };
    RecordChange { before, after }
}

fn remove_from_index<K: std::hash::Hash + Eq, V: Ord>(
    index: &mut HashMap<K, BTreeSet<V>>,
    key: &K,
    id: &V,
) {
    if let Some(set) = index.get_mut(key) {
        set.remove(id);
        if set.is_empty() {
            index.remove(key);
        }
    }
}

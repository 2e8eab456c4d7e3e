//! Workloads: templates of instances.

use std::sync::Arc;

use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, InstanceKind, InstanceSpec, WorkloadId};
use strata_types::{Error, Label, Result};
use uuid::Uuid;

use super::instances::{check_host_access, check_management, check_priority};
use super::record::{DEFAULT_PROJECT, Workload, encode};
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Page, Precondition, Principal, keys, now_ms, placement_rules};

/// The workload that a caller requests.
#[derive(Clone, Debug)]
pub struct NewWorkload {
    /// The client's own id; one is made when none is given.
    pub id: Option<WorkloadId>,
    pub name: Label,
    /// The project that owns it.
    pub project: Label,
    /// The specification of its instances.
    pub spec: InstanceSpec,
}

/// The project and the name in it of `PROJECT/NAME` or `NAME`.
pub(super) fn split<'a>(project: Option<&Label>, text: &'a str) -> (Option<Label>, &'a str) {
    match text.split_once('/') {
        Some((project, name)) => (project.parse().ok(), name),
        None => {
            let default = || DEFAULT_PROJECT.parse().ok();
            (project.cloned().or_else(default), text)
        }
    }
}

/// The workloads, and the rules of what is made from them.
#[derive(Clone, Copy)]
pub struct Workloads<'a>(&'a Core);

impl Core {
    pub fn workloads(&self) -> Workloads<'_> {
        Workloads(self)
    }
}

impl Workloads<'_> {
    /// Makes a workload. The flag says whether it is new: the same request
    /// again gives the same.
    pub async fn create(
        self,
        principal: &Principal,
        new: NewWorkload,
    ) -> Result<(Arc<Versioned<Workload>>, bool)> {
        principal.in_project(&new.project)?;
        self.0.projects().record(&new.project)?;
        new.spec.check()?;
        placement_rules(&new.project, &new.spec)?;
        check_host_access(principal, &new.spec)?;
        check_priority(principal, &new.spec, None)?;
        let id = match new.id {
            Some(id) => id,
            None => Uuid::now_v7().to_string().parse()?,
        };
        let now = now_ms();
        let record = Workload {
            id,
            name: new.name,
            project: new.project,
            spec: new.spec,
            closing: false,
            owner: principal.name.clone(),
            created_at_ms: now,
            changed_at_ms: now,
        };
        if let Some(same) = self.known(&record)? {
            return Ok((same, false));
        }
        self.0.check_workloads(principal, &record.project)?;
        let (key, name) = (
            keys::workload(&record.id),
            keys::workload_name(&record.project, &record.name),
        );
        let text = encode(&record)?;
        self.0
            .check_bytes(principal, &record.project, &key, text.len())?;
        let transaction = Transaction::new()
            .if_absent(&*key)
            .if_absent(&*name)
            .put(&*key, text)
            .put(&*name, record.id.as_str().to_owned());
        let transaction = self.0.projects().in_open(transaction, &record.project)?;
        match self.0.commit_effect(transaction, &key).await {
            Ok(_) => Ok((self.find(principal, None, record.id.as_str())?, true)),
            Err(StoreError::Conflict { key: taken }) if taken == key || taken == name => {
                Err(exists(&record))
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Has an instance be made only if its workload is there and open by then.
    pub(super) fn in_open(
        self,
        transaction: Transaction,
        workload: Option<&WorkloadId>,
    ) -> Result<Transaction> {
        let Some(id) = workload else {
            return Ok(transaction);
        };
        let known = self.0.tables().workloads.get(id).cloned();
        match known {
            Some(known) if !known.closing => {
                Ok(transaction.if_unchanged(keys::workload(id), known.revision))
            }
            _ => Err(
                Error::not_found(format!("workload {id} is gone, or being deleted"))
                    .in_field("workloadId"),
            ),
        }
    }

    fn known(self, requested: &Workload) -> Result<Option<Arc<Versioned<Workload>>>> {
        let tables = self.0.tables();
        let name = (requested.project.clone(), requested.name.clone());
        let by_name = tables.workload_names.get(&name);
        let by_name = by_name.and_then(|id| tables.workloads.get(id));
        let Some(found) = tables.workloads.get(&requested.id).or(by_name) else {
            return Ok(None);
        };
        let place = |one: &Workload| (one.name.clone(), one.project.clone());
        match place(found) == place(requested) && found.spec == requested.spec {
            true => Ok(Some(found.clone())),
            false => Err(exists(requested)),
        }
    }

    /// A workload by its id, its name, or `PROJECT/NAME`.
    pub fn find(
        self,
        principal: &Principal,
        project: Option<&Label>,
        text: &str,
    ) -> Result<Arc<Versioned<Workload>>> {
        let asked = project;
        let (project, name) = split(project, text);
        let tables = self.0.tables();
        let by_id = tables.workloads.get(text).filter(|one| {
            principal.sees(&one.project) && asked.is_none_or(|asked| *asked == one.project)
        });
        let by_name = || {
            let name = (project.clone()?, name.parse().ok()?);
            tables.workloads.get(tables.workload_names.get(&name)?)
        };
        match by_id.or_else(by_name) {
            Some(found) if principal.sees(&found.project) => Ok(found.clone()),
            _ => {
                let text: String = text.chars().take(140).collect();
                Err(Error::not_found(format!("there is no workload {text}"))
                    .with_hint("list them: strata workload list"))
            }
        }
    }

    /// How many instances were made from a workload and are there.
    pub fn instances_of(self, workload: &WorkloadId) -> usize {
        let tables = self.0.tables();
        let of = tables.of_workload.get(workload);
        of.map_or(0, std::collections::BTreeSet::len)
    }

    /// Those that `principal` may see, in the order of their ids.
    pub fn list(
        self,
        principal: &Principal,
        project: Option<&Label>,
        kind: Option<InstanceKind>,
        offset: usize,
        limit: usize,
    ) -> Page<Arc<Versioned<Workload>>> {
        let tables = self.0.tables();
        let requested = |one: &&Arc<Versioned<Workload>>| {
            principal.sees(&one.project)
                && project.is_none_or(|project| *project == one.project)
                && kind.is_none_or(|kind| kind == one.spec.kind)
        };
        Page::of(
            tables.workloads.values().filter(requested).cloned(),
            offset,
            limit,
        )
    }

    /// Changes a workload. Its instances stay as they are.
    pub async fn update(
        self,
        principal: &Principal,
        id: &WorkloadId,
        name: Option<Label>,
        spec: Option<InstanceSpec>,
        precondition: Precondition,
    ) -> Result<Arc<Versioned<Workload>>> {
        let now = self.find(principal, None, id.as_str())?;
        principal.in_project(&now.project)?;
        check_management(principal, "workload", &now.name, &now.spec)?;
        precondition.check(&now)?;
        let mut next = now.record.clone();
        next.name = name.unwrap_or(next.name);
        next.spec = spec.unwrap_or(next.spec);
        if next == now.record {
            return Ok(now);
        }
        next.spec.check()?;
        placement_rules(&next.project, &next.spec)?;
        check_host_access(principal, &next.spec)?;
        check_priority(principal, &next.spec, Some(&now.spec))?;
        next.changed_at_ms = now_ms();
        let key = keys::workload(id);
        let text = encode(&next)?;
        self.0
            .check_bytes(principal, &next.project, &key, text.len())?;
        let mut transaction = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .put(key, text);
        if next.name != now.name {
            let new = keys::workload_name(&next.project, &next.name);
            transaction = transaction
                .if_absent(&*new)
                .put(new, id.as_str().to_owned())
                .delete(keys::workload_name(&now.project, &now.name));
        }
        match self.0.commit(transaction).await {
            Ok(_) => self.find(principal, None, id.as_str()),
            Err(StoreError::Conflict { key }) if key.starts_with("workload-name/") => {
                Err(Error::already_exists("the name is taken").in_field("name"))
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Deletes a workload: with its instances, if reported to; refused while it
    /// has some, otherwise.
    pub async fn delete(
        self,
        principal: &Principal,
        id: &WorkloadId,
        cascade: bool,
        precondition: Precondition,
    ) -> Result<()> {
        let now = self.find(principal, None, id.as_str())?;
        principal.in_project(&now.project)?;
        check_management(principal, "workload", &now.name, &now.spec)?;
        precondition.check(&now)?;
        let instances = self.ids_of(id);
        // Before any of them goes: an instance keeps what it was made with.
        for one in &instances {
            if let Ok(one) = self.0.instance(principal, None, one.as_str()) {
                check_management(principal, "instance", &one.name, &one.spec)?;
            }
        }
        if !instances.is_empty() && !cascade {
            let n = instances.len();
            return Err(
                Error::wrong_state(format!("workload {} has {n} instances", now.name))
                    .with_hint("delete them first, or ask for cascade=true"),
            );
        }
        // From here on none is made from it: what the tables show is all.
        let now = self.close(&now, true).await?;
        let instances = self.ids_of(id);
        if !instances.is_empty() && !cascade {
            self.close(&now, false).await?;
            let why = format!("workload {} has got instances meanwhile", now.name);
            return Err(
                Error::wrong_state(why).with_hint("delete them first, or ask for cascade=true")
            );
        }
        for instance in instances {
            match self
                .0
                .delete_instance(principal, &instance, Precondition::default())
                .await
            {
                Err(error) if error.kind() != strata_types::ErrorKind::NotFound => {
                    return Err(error);
                }
                _ => {}
            }
        }
        let key = keys::workload(id);
        let gone = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .delete(key)
            .delete(keys::workload_name(&now.project, &now.name));
        self.0.commit(gone).await.map(drop).map_err(public)
    }

    fn ids_of(self, workload: &WorkloadId) -> Vec<InstanceId> {
        let tables = self.0.tables();
        let of = tables.of_workload.get(workload);
        of.into_iter().flatten().cloned().collect()
    }

    /// Lets no more instances be made from a workload, or lets them again.
    async fn close(
        self,
        known: &Versioned<Workload>,
        closing: bool,
    ) -> Result<Arc<Versioned<Workload>>> {
        let mut next = known.record.clone();
        next.closing = closing;
        let key = keys::workload(&known.id);
        let put = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .put(key, encode(&next)?);
        self.0.commit(put).await.map_err(public)?;
        let tables = self.0.tables();
        let found = tables.workloads.get(&known.id).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no workload {}", known.id)))
    }
}

fn exists(requested: &Workload) -> Error {
    Error::already_exists(format!(
        "workload {} in project {} already exists with a different specification",
        requested.name, requested.project
    ))
    .in_field("name")
}

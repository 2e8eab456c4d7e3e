//! Workloads: templates of instances.

use std::sync::Arc;

use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, InstanceKind, InstanceSpec, WorkloadId};
use strata_types::{Error, Label, Result};
use uuid::Uuid;

use super::follow::public;
use super::instances::check_reach;
use super::record::{DEFAULT_PROJECT, Workload, encode};
use super::tables::Kept;
use super::{Core, Page, Precondition, Who, keys, now_ms};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct NewWorkload {
    /// The client's own id; one is made when none is given.
    pub id: Option<WorkloadId>,
    /// Its name.
    pub name: Label,
    /// Where.
    pub project: Label,
    /// What its instances are asked to be.
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

impl Core {
    /// Makes a workload. The flag says whether it is new: the same request
    /// again gives the same.
    pub async fn create_workload(
        &self,
        who: &Who,
        new: NewWorkload,
    ) -> Result<(Arc<Kept<Workload>>, bool)> {
        who.in_project(&new.project)?;
        self.project_record(&new.project)?;
        new.spec.check()?;
        crate::placement::rules(&new.project, &new.spec)?;
        check_reach(who, &new.spec)?;
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
            owner: who.name.clone(),
            created_at_ms: now,
            changed_at_ms: now,
        };
        if let Some(same) = self.known_workload(&record)? {
            return Ok((same, false));
        }
        self.check_workloads(who, &record.project)?;
        let (key, name) = (
            keys::workload(&record.id),
            keys::workload_name(&record.project, &record.name),
        );
        let transaction = Transaction::new()
            .if_absent(&*key)
            .if_absent(&*name)
            .put(&*key, encode(&record)?)
            .put(&*name, record.id.as_str().to_owned());
        let transaction = self.in_open_project(transaction, &record.project)?;
        match self.commit_effect(transaction, &key).await {
            Ok(_) => Ok((self.workload(who, None, record.id.as_str())?, true)),
            Err(StoreError::Conflict { key: taken }) if taken == key || taken == name => {
                Err(exists(&record))
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Has an instance be made only if its workload is there and open by then.
    pub(super) fn of_open_workload(
        &self,
        transaction: Transaction,
        workload: Option<&WorkloadId>,
    ) -> Result<Transaction> {
        let Some(id) = workload else {
            return Ok(transaction);
        };
        let known = self.tables().workloads.get(id).cloned();
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

    fn known_workload(&self, wanted: &Workload) -> Result<Option<Arc<Kept<Workload>>>> {
        let tables = self.tables();
        let name = (wanted.project.clone(), wanted.name.clone());
        let by_name = tables.workload_names.get(&name);
        let by_name = by_name.and_then(|id| tables.workloads.get(id));
        let Some(found) = tables.workloads.get(&wanted.id).or(by_name) else {
            return Ok(None);
        };
        let place = |one: &Workload| (one.name.clone(), one.project.clone());
        match place(found) == place(wanted) && found.spec == wanted.spec {
            true => Ok(Some(found.clone())),
            false => Err(exists(wanted)),
        }
    }

    /// A workload by its id, its name, or `PROJECT/NAME`.
    pub fn workload(
        &self,
        who: &Who,
        project: Option<&Label>,
        text: &str,
    ) -> Result<Arc<Kept<Workload>>> {
        let asked = project;
        let (project, name) = split(project, text);
        let tables = self.tables();
        let by_id = tables.workloads.get(text).filter(|one| {
            who.sees(&one.project) && asked.is_none_or(|asked| *asked == one.project)
        });
        let by_name = || {
            let name = (project.clone()?, name.parse().ok()?);
            tables.workloads.get(tables.workload_names.get(&name)?)
        };
        match by_id.or_else(by_name) {
            Some(found) if who.sees(&found.project) => Ok(found.clone()),
            _ => {
                let text: String = text.chars().take(140).collect();
                Err(Error::not_found(format!("there is no workload {text}"))
                    .with_hint("see those there are: strata workload list"))
            }
        }
    }

    /// How many instances were made from a workload and are there.
    pub fn instances_of(&self, workload: &WorkloadId) -> usize {
        let tables = self.tables();
        let of = tables.of_workload.get(workload);
        of.map_or(0, std::collections::BTreeSet::len)
    }

    /// Those that `who` may see, in the order of their ids.
    pub fn workloads(
        &self,
        who: &Who,
        project: Option<&Label>,
        kind: Option<InstanceKind>,
        offset: usize,
        limit: usize,
    ) -> Page<Arc<Kept<Workload>>> {
        let tables = self.tables();
        let wanted = |one: &&Arc<Kept<Workload>>| {
            who.sees(&one.project)
                && project.is_none_or(|project| *project == one.project)
                && kind.is_none_or(|kind| kind == one.spec.kind)
        };
        Page::of(
            tables.workloads.values().filter(wanted).cloned(),
            offset,
            limit,
        )
    }

    /// Changes a workload. Its instances stay as they are.
    pub async fn update_workload(
        &self,
        who: &Who,
        id: &WorkloadId,
        name: Option<Label>,
        spec: Option<InstanceSpec>,
        precondition: Precondition,
    ) -> Result<Arc<Kept<Workload>>> {
        let now = self.workload(who, None, id.as_str())?;
        who.in_project(&now.project)?;
        precondition.check(&now)?;
        let mut next = now.record.clone();
        next.name = name.unwrap_or(next.name);
        next.spec = spec.unwrap_or(next.spec);
        if next == now.record {
            return Ok(now);
        }
        next.spec.check()?;
        crate::placement::rules(&next.project, &next.spec)?;
        check_reach(who, &next.spec)?;
        next.changed_at_ms = now_ms();
        let key = keys::workload(id);
        let mut transaction = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .put(key, encode(&next)?);
        if next.name != now.name {
            let new = keys::workload_name(&next.project, &next.name);
            transaction = transaction
                .if_absent(&*new)
                .put(new, id.as_str().to_owned())
                .delete(keys::workload_name(&now.project, &now.name));
        }
        match self.commit(transaction).await {
            Ok(_) => self.workload(who, None, id.as_str()),
            Err(StoreError::Conflict { key }) if key.starts_with("workload-name/") => {
                Err(Error::already_exists("the name is taken").in_field("name"))
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Deletes a workload: with its instances, if told to; refused while it
    /// has some, otherwise.
    pub async fn delete_workload(
        &self,
        who: &Who,
        id: &WorkloadId,
        cascade: bool,
        precondition: Precondition,
    ) -> Result<()> {
        let now = self.workload(who, None, id.as_str())?;
        who.in_project(&now.project)?;
        precondition.check(&now)?;
        let instances = self.ids_of(id);
        if !instances.is_empty() && !cascade {
            let n = instances.len();
            return Err(
                Error::wrong_state(format!("workload {} has {n} instances", now.name))
                    .with_hint("delete them first, or ask for cascade=true"),
            );
        }
        // From here on none is made from it: what the tables show is all.
        let now = self.close_workload(&now, true).await?;
        let instances = self.ids_of(id);
        if !instances.is_empty() && !cascade {
            self.close_workload(&now, false).await?;
            let why = format!("workload {} has got instances meanwhile", now.name);
            return Err(
                Error::wrong_state(why).with_hint("delete them first, or ask for cascade=true")
            );
        }
        for instance in instances {
            match self
                .delete_instance(who, &instance, Precondition::default())
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
        self.commit(gone).await.map(drop).map_err(public)
    }
}

impl Core {
    fn ids_of(&self, workload: &WorkloadId) -> Vec<InstanceId> {
        let tables = self.tables();
        let of = tables.of_workload.get(workload);
        of.into_iter().flatten().cloned().collect()
    }

    /// Lets no more instances be made from a workload, or lets them again.
    async fn close_workload(
        &self,
        known: &Kept<Workload>,
        closing: bool,
    ) -> Result<Arc<Kept<Workload>>> {
        let mut next = known.record.clone();
        next.closing = closing;
        let key = keys::workload(&known.id);
        let put = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .put(key, encode(&next)?);
        self.commit(put).await.map_err(public)?;
        let tables = self.tables();
        let found = tables.workloads.get(&known.id).cloned();
        found.ok_or_else(|| Error::not_found(format!("there is no workload {}", known.id)))
    }
}

fn exists(wanted: &Workload) -> Error {
    Error::already_exists(format!(
        "a workload {} is in project {} already, and it is another",
        wanted.name, wanted.project
    ))
    .in_field("name")
}

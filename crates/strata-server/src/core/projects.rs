//! Projects: whose instances are whose, and how much each may have in all.
//!
//! A quota is checked when something is asked for, against what the project
//! has and what is being written for it right now. With several servers two
//! of them may each let the last one in; placement, which one server does,
//! then has the final word.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use strata_store::{StoreError, Transaction};
use strata_types::instance::Resources;
use strata_types::{Error, Label, Result};

use super::follow::public;
use super::record::{DEFAULT_PROJECT, Project, ProjectUse, Quota, encode};
use super::tables::Kept;
use super::{Core, Precondition, Who, keys, now_ms};

/// A project and what it has.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectView {
    /// The project.
    #[serde(flatten)]
    pub project: Project,
    /// What its instances take.
    pub used: ProjectUse,
}

/// What is being written right now, by project.
#[derive(Debug, Default)]
pub(super) struct Admissions(Mutex<HashMap<Label, ProjectUse>>);

/// Room in a project that is held while a record is written.
pub(super) struct Admission<'a> {
    admissions: &'a Admissions,
    project: Label,
    resources: Resources,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let mut all = self
            .admissions
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = all.get_mut(&self.project) {
            held.subtract(&self.resources);
            if *held == ProjectUse::default() {
                all.remove(&self.project);
            }
        }
    }
}

impl Core {
    pub(super) async fn ensure_default_project(&self) -> Result<()> {
        let name = Label::from_field("project", DEFAULT_PROJECT)?;
        let any = Precondition::default();
        match self.put_project(&name, Quota::default(), true, any).await {
            Err(error) if error.kind() == strata_types::ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes a project. The same again gives the same.
    pub async fn create_project(
        &self,
        who: &Who,
        name: &Label,
        quota: Quota,
    ) -> Result<ProjectView> {
        who.everywhere()?;
        check(&quota)?;
        let any = Precondition::default();
        self.put_project(name, quota, true, any).await
    }

    /// Gives a project another quota. What it has already stays.
    pub async fn set_quota(
        &self,
        who: &Who,
        name: &Label,
        quota: Quota,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        who.everywhere()?;
        check(&quota)?;
        self.project_record(name)?;
        self.put_project(name, quota, false, precondition).await
    }

    async fn put_project(
        &self,
        name: &Label,
        quota: Quota,
        new: bool,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        let known = self.tables().projects.get(name).cloned();
        if let Some(known) = &known {
            precondition.check(known)?;
        }
        if let Some(known) = &known
            && new
        {
            return match known.quota == quota {
                true => Ok(self.project_view(known)),
                false => Err(Error::already_exists(format!(
                    "project {name} is there already, with another quota"
                ))),
            };
        }
        let created_at_ms = known
            .as_ref()
            .map_or_else(now_ms, |known| known.created_at_ms);
        let record = Project {
            name: name.clone(),
            quota,
            created_at_ms,
        };
        let key = keys::project(name);
        let transaction = Transaction::new().put(&*key, encode(&record)?);
        let transaction = match &known {
            None => transaction.if_absent(key),
            Some(known) => transaction.if_unchanged(key, known.revision),
        };
        match self.commit(transaction).await {
            Ok(_) => self.project(name),
            Err(StoreError::Conflict { .. }) if new => Err(Error::already_exists(format!(
                "project {name} was made meanwhile"
            ))),
            Err(error) => Err(public(error)),
        }
    }

    /// Removes an empty project.
    pub async fn delete_project(
        &self,
        who: &Who,
        name: &Label,
        precondition: Precondition,
    ) -> Result<()> {
        who.everywhere()?;
        let known = self.project_record(name)?;
        precondition.check(&known)?;
        if name.as_str() == DEFAULT_PROJECT {
            return Err(Error::wrong_state("the project default stays"));
        }
        let used = {
            let tables = self.tables();
            let workloads = tables.workloads.values();
            let workloads = workloads.filter(|one| one.project == *name).count();
            let instances = tables.uses.get(name).map_or(0, |used| used.instances);
            (workloads, instances)
        };
        if used != (0, 0) {
            let (workloads, instances) = used;
            return Err(Error::wrong_state(format!(
                "project {name} has {instances} instances and {workloads} workloads"
            ))
            .with_hint("delete them first"));
        }
        let key = keys::project(name);
        let gone = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .delete(key);
        self.commit(gone).await.map(drop).map_err(public)
    }

    /// A project that must be there.
    pub(crate) fn project_record(&self, name: &Label) -> Result<Arc<Kept<Project>>> {
        self.tables().projects.get(name).cloned().ok_or_else(|| {
            Error::not_found(format!("there is no project {name}"))
                .with_hint(format!("make it: strata project create {name}"))
        })
    }

    /// A project and what it has.
    pub fn project(&self, name: &Label) -> Result<ProjectView> {
        let project = self.project_record(name)?;
        Ok(self.project_view(&project))
    }

    fn project_view(&self, project: &Kept<Project>) -> ProjectView {
        let used = self.tables().uses.get(&project.name).copied();
        ProjectView {
            project: project.record.clone(),
            used: used.unwrap_or_default(),
        }
    }

    /// All that `who` may see.
    pub fn projects(&self, who: &Who) -> Vec<ProjectView> {
        let all: Vec<_> = self.tables().projects.values().cloned().collect();
        all.iter()
            .filter(|project| who.sees(&project.name))
            .map(|project| self.project_view(project))
            .collect()
    }

    /// Holds room for an instance, or says what is in the way.
    pub(super) fn admit(
        &self,
        project: &Label,
        wanted: Resources,
        instead_of: Option<Resources>,
    ) -> Result<Admission<'_>> {
        let quota = self.project_record(project)?.quota;
        let mut all = self
            .0
            .admissions
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(project.clone()).or_default();
        let mut sum = *held;
        if let Some(used) = self.tables().uses.get(project) {
            sum.cpu += used.cpu;
            sum.memory += used.memory;
            sum.disk += used.disk;
            sum.instances += used.instances;
        }
        if let Some(old) = instead_of {
            sum.subtract(&old);
        }
        let before = sum;
        sum.add(&wanted);
        for (what, limit, then, now) in [
            ("cpu", quota.cpu, sum.cpu, before.cpu),
            ("memory", quota.memory, sum.memory, before.memory),
            ("disk", quota.disk, sum.disk, before.disk),
            (
                "instances",
                quota.instances,
                sum.instances,
                before.instances,
            ),
        ] {
            if let Some(limit) = limit
                && then > limit
                && then > now
            {
                let why = format!(
                    "project {project} may have {what} {limit}; it has {now} and this asks for {} more",
                    then - now
                );
                return Err(Error::exhausted(why).with_hint(format!(
                    "raise it: strata project update {project} --{what} …"
                )));
            }
        }
        held.add(&wanted);
        Ok(Admission {
            admissions: &self.0.admissions,
            project: project.clone(),
            resources: wanted,
        })
    }
}

fn check(quota: &Quota) -> Result<()> {
    let all = [
        ("cpu", quota.cpu),
        ("memory", quota.memory),
        ("disk", quota.disk),
        ("instances", quota.instances),
    ];
    match all.into_iter().find(|(_, n)| n.is_some_and(|n| n < 0)) {
        Some((field, _)) => Err(Error::invalid(
            format!("quota.{field}"),
            "must not be less than 0",
        )),
        None => Ok(()),
    }
}

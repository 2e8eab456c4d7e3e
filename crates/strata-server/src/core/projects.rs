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
use strata_types::instance::{InstanceKind, InstanceSpec};
use strata_types::pod::{DEFAULT_PIDS, VolumeSource};
use strata_types::{Error, ErrorKind, Label, Result};

use super::defaults::{Defaulted, check_memory_volumes};
use super::follow::public;
use super::record::{DEFAULT_PROJECT, Project, ProjectSettings, ProjectUse, Quota, encode};
use super::tables::Kept;
use super::{Core, Precondition, Who, keys, now_ms};

/// Ports below this one are for services of the host.
const FIRST_FREE_PORT: u16 = 1024;
/// Ports of Strata itself: the overlays of nodes and of clusters, the server.
const OWN_PORTS: [u16; 3] = [4789, 8472, 7700];
/// So many projects can be allowed to reach one.
const MOST_ALLOWED: usize = 100;

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
    amounts: ProjectUse,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let mut all = self
            .admissions
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = all.get_mut(&self.project) {
            *held -= self.amounts;
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
        match self
            .put_project(&name, ProjectSettings::default(), true, any)
            .await
        {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes a project. The same again gives the same.
    pub async fn create_project(
        &self,
        who: &Who,
        name: &Label,
        settings: impl Into<ProjectSettings>,
    ) -> Result<ProjectView> {
        who.everywhere()?;
        let settings = settings.into();
        check(name, &settings)?;
        let any = Precondition::default();
        self.put_project(name, settings, true, any).await
    }

    /// Changes what is said of a project. What it has already stays.
    pub async fn set_project(
        &self,
        who: &Who,
        name: &Label,
        settings: ProjectSettings,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        who.everywhere()?;
        check(name, &settings)?;
        self.project_record(name)?;
        self.put_project(name, settings, false, precondition).await
    }

    /// Gives a project another quota. What it has already stays.
    pub async fn set_quota(
        &self,
        who: &Who,
        name: &Label,
        quota: Quota,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        let mut settings = self.project_record(name)?.settings.clone();
        settings.quota = quota;
        self.set_project(who, name, settings, precondition).await
    }

    async fn put_project(
        &self,
        name: &Label,
        settings: ProjectSettings,
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
            return match known.settings == settings {
                true => Ok(self.project_view(known)),
                false => Err(Error::already_exists(format!(
                    "project {name} is there already, with other settings"
                ))),
            };
        }
        let created_at_ms = known
            .as_ref()
            .map_or_else(now_ms, |known| known.created_at_ms);
        let record = Project {
            name: name.clone(),
            settings,
            closing: known.as_ref().is_some_and(|known| known.closing),
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
        self.check_project_empty(name)?;
        // What is made in it meanwhile is made on the condition that it is
        // open: once it is not, what the tables show is all there will be.
        let known = self.close_project(&known, true).await?;
        if let Err(error) = self.check_project_empty(name) {
            self.close_project(&known, false).await?;
            return Err(error);
        }
        let key = keys::project(name);
        let gone = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .delete(key);
        self.commit(gone).await.map(drop).map_err(public)
    }

    fn check_project_empty(&self, name: &Label) -> Result<()> {
        let (workloads, instances, secrets) = {
            let tables = self.tables();
            let workloads = tables.workloads.values();
            let workloads = workloads.filter(|one| one.project == *name).count();
            let instances = tables.uses.get(name).map_or(0, |used| used.instances);
            let secrets = tables.secrets.values();
            let secrets = secrets.filter(|one| one.project == *name).count();
            (workloads, instances, secrets)
        };
        if (workloads, instances, secrets) == (0, 0, 0) {
            return Ok(());
        }
        Err(Error::wrong_state(format!(
            "project {name} has {instances} instances, {workloads} workloads \
             and {secrets} secrets"
        ))
        .with_hint("delete them first"))
    }

    /// Lets nothing more be made in a project, or opens it again.
    async fn close_project(
        &self,
        known: &Kept<Project>,
        closing: bool,
    ) -> Result<Arc<Kept<Project>>> {
        let mut next = known.record.clone();
        next.closing = closing;
        let key = keys::project(&known.name);
        let put = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .put(key, encode(&next)?);
        self.commit(put).await.map_err(public)?;
        self.project_record(&known.name)
    }

    /// Has something be made only if its project is there and open by then.
    pub(super) fn in_open_project(
        &self,
        transaction: Transaction,
        name: &Label,
    ) -> Result<Transaction> {
        let known = self.project_record(name)?;
        if known.closing {
            let why = format!("project {name} is being deleted");
            return Err(Error::wrong_state(why).in_field("project"));
        }
        Ok(transaction.if_unchanged(keys::project(name), known.revision))
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

    /// Gives a specification the defaults of its project, and refuses what no
    /// instance of it may have.
    pub(super) fn with_defaults(
        &self,
        who: &Who,
        project: &Label,
        spec: &mut InstanceSpec,
    ) -> Result<Defaulted> {
        let settings = self.project_record(project)?.settings.clone();
        let most = settings.defaults.pids.unwrap_or(DEFAULT_PIDS);
        if let Some(pids) = spec.pids
            && who.is_limited()
            && settings.quota.pids.is_none()
            && pids > most.max(DEFAULT_PIDS)
        {
            let why = format!(
                "is {pids}; in project {project}, without a quota of them, {most} is the most"
            );
            let hint = "an admin can give the project a quota: strata project update --pids …";
            return Err(Error::invalid("pids", why).with_hint(hint));
        }
        let defaulted = settings.apply_defaults(spec, who.is_limited());
        check_memory_volumes(&settings.quota, spec)?;
        Ok(defaulted)
    }

    /// Refuses ports of the host that a caller who is limited to projects may
    /// not take: those of the host's own services, and Strata's. What the
    /// instance published before stays.
    pub(super) fn check_ports(
        &self,
        who: &Who,
        project: &Label,
        spec: &InstanceSpec,
        before: Option<&InstanceSpec>,
    ) -> Result<()> {
        if !who.is_limited() || self.project_record(project)?.settings.privileged_ports {
            return Ok(());
        }
        for (i, port) in spec.port_mappings()?.iter().enumerate() {
            let own = OWN_PORTS.contains(&port.host_port);
            let had = before.is_some_and(|before| before.ports.contains(&spec.ports[i]));
            if (port.host_port < FIRST_FREE_PORT || own) && !had {
                let why = format!(
                    "{} may not publish port {} of a node: \
                     ports below {FIRST_FREE_PORT}, and {OWN_PORTS:?}, are the host's own",
                    who.name, port.host_port
                );
                let hint = format!(
                    "an admin can allow it: strata project update {project} --privileged-ports true"
                );
                return Err(Error::new(ErrorKind::PermissionDenied, why)
                    .in_field(format!("ports[{i}]"))
                    .with_hint(hint));
            }
        }
        Ok(())
    }

    /// Refuses volumes of nodes inside a quota of disk to callers who are
    /// limited to projects: such a volume is made without a size by the first
    /// instance that names it and outlives it, so no quota would hold it. What
    /// the instance had before stays.
    pub(super) fn check_volumes(
        &self,
        who: &Who,
        project: &Label,
        spec: &InstanceSpec,
        before: Option<&InstanceSpec>,
    ) -> Result<()> {
        let quota = self.project_record(project)?.settings.quota;
        if !who.is_limited() || quota.disk.is_none() || spec.kind != InstanceKind::Container {
            return Ok(());
        }
        for (i, volume) in spec.mounts()?.iter().enumerate() {
            let had = before.is_some_and(|before| before.volumes.contains(&spec.volumes[i]));
            if let VolumeSource::Named(name) = &volume.source
                && !had
            {
                let why = format!(
                    "{} may not use volume {name} of a node: it has no size, \
                     and project {project} has a quota of disk",
                    who.name
                );
                return Err(Error::new(ErrorKind::PermissionDenied, why)
                    .in_field(format!("volumes[{i}]"))
                    .with_hint("use one of the pool, which has a size: pool=NAME:PATH"));
            }
        }
        Ok(())
    }

    /// Holds room for an instance, or says what is in the way.
    pub(super) fn admit(
        &self,
        project: &Label,
        spec: &InstanceSpec,
        defaulted: Defaulted,
        instead_of: Option<&InstanceSpec>,
    ) -> Result<Admission<'_>> {
        let quota = self.project_record(project)?.settings.quota;
        let wanted = ProjectUse::of(spec);
        let mut all = self
            .0
            .admissions
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(project.clone()).or_default();
        let mut sum = *held;
        if let Some(used) = self.tables().uses.get(project) {
            sum += *used;
        }
        if let Some(old) = instead_of {
            sum -= ProjectUse::of(old);
        }
        let before = sum;
        sum += wanted;
        for (what, limit, then, now) in [
            ("cpu", quota.cpu, sum.cpu, before.cpu),
            ("memory", quota.memory, sum.memory, before.memory),
            ("disk", quota.disk, sum.disk, before.disk),
            ("pids", quota.pids, sum.pids, before.pids),
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
                return Err(exceeded(project, what, limit, now, then, defaulted));
            }
        }
        *held += wanted;
        Ok(Admission {
            admissions: &self.0.admissions,
            project: project.clone(),
            amounts: wanted,
        })
    }
}

fn exceeded(
    project: &Label,
    what: &str,
    limit: i64,
    now: i64,
    then: i64,
    defaulted: Defaulted,
) -> Error {
    let more = then - now;
    let asks = match defaulted.is(what) {
        true => format!("this names none, so that the default of {more} counts"),
        false => format!("this asks for {more} more"),
    };
    let why = format!("project {project} may have {what} {limit}; it has {now} and {asks}");
    let hint = match defaulted.is(what) {
        true => format!(
            "name {what} in the instance, or change the default: \
             strata project update {project} --default-{what} …"
        ),
        false => format!("raise it: strata project update {project} --{what} …"),
    };
    Error::exhausted(why).with_hint(hint)
}

fn check(name: &Label, settings: &ProjectSettings) -> Result<()> {
    let quota = &settings.quota;
    let all = [
        ("cpu", quota.cpu),
        ("memory", quota.memory),
        ("disk", quota.disk),
        ("pids", quota.pids),
        ("instances", quota.instances),
    ];
    if let Some((field, _)) = all.into_iter().find(|(_, n)| n.is_some_and(|n| n < 0)) {
        let why = "must not be less than 0";
        return Err(Error::invalid(format!("quota.{field}"), why));
    }
    if settings.allow_from.contains(name) {
        let why = format!("names {name} itself, whose instances reach each other anyway");
        return Err(Error::invalid("allowFrom", why));
    }
    if settings.allow_from.len() > MOST_ALLOWED {
        let why = format!(
            "has {}; {MOST_ALLOWED} is the most",
            settings.allow_from.len()
        );
        return Err(Error::invalid("allowFrom", why));
    }
    settings.defaults.check()
}

//! Projects: whose instances are whose, and how much each may have in all.
//!
//! A quota is checked when something is requested, against what the project has
//! and what is being written for it right now. With several servers two of them
//! may each accept the last one; placement, which one server does, then
//! decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceKind, InstanceSpec};
use strata_types::pod::{DEFAULT_PIDS, VolumeSource};
use strata_types::project::{ProjectUse, Quota};
use strata_types::{Error, ErrorKind, Label, Result};

use super::defaults::{Defaulted, check_defaults, check_memory_volumes};
use super::record::{DEFAULT_PROJECT, Node, Project, ProjectSettings, decode, encode};
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Precondition, Principal, keys, now_ms};

/// Ports below this one are for services of the host.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;
/// Ports of Strata itself by default: the overlays of nodes and of clusters,
/// WireGuard, the server, a node. What is configured, and what nodes report, is
/// own too.
const OWN_PORTS: [u16; 5] = [4789, 8472, 51820, 7700, 7710];
/// How often a deletion is repeated while other projects change.
const MAX_CONFLICTS: usize = 16;
/// Projects that are changed in one transaction.
const MAX_REVOKED: usize = 64;
/// So many projects can be allowed to reach one.
const MAX_ALLOWED: usize = 100;

/// A project and what it has.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectView {
    #[serde(flatten)]
    pub project: Project,
    /// What its instances take.
    pub used: ProjectUse,
}

/// What is known of a project that was deleted: its name may be used again.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeletedProject {
    deleted_at_ms: i64,
}

/// What is being written right now, by project.
#[derive(Debug, Default)]
pub(super) struct QuotaReservations(Mutex<HashMap<Label, ProjectUse>>);

/// Room in a project that is held while a record is written.
pub(super) struct QuotaReservation<'a> {
    reservations: &'a QuotaReservations,
    project: Label,
    amounts: ProjectUse,
}

impl Drop for QuotaReservation<'_> {
    fn drop(&mut self) {
        let mut all = self
            .reservations
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

/// The projects, and the rules of what may be made in them.
#[derive(Clone, Copy)]
pub struct Projects<'a>(&'a Core);

impl Core {
    pub fn projects(&self) -> Projects<'_> {
        Projects(self)
    }
}

impl<'a> Projects<'a> {
    pub(super) async fn ensure_default(self) -> Result<()> {
        let name = Label::from_field("project", DEFAULT_PROJECT)?;
        let any = Precondition::default();
        match self.put(&name, ProjectSettings::default(), true, any).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes a project. The same again gives the same.
    pub async fn create(
        self,
        principal: &Principal,
        name: &Label,
        settings: impl Into<ProjectSettings>,
    ) -> Result<ProjectView> {
        principal.require_all_projects()?;
        let settings = settings.into();
        check(name, &settings)?;
        let any = Precondition::default();
        self.put(name, settings, true, any).await
    }

    /// Changes the settings of a project. What it has already stays.
    pub async fn update(
        self,
        principal: &Principal,
        name: &Label,
        settings: ProjectSettings,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        principal.require_all_projects()?;
        check(name, &settings)?;
        self.record(name)?;
        self.put(name, settings, false, precondition).await
    }

    /// Gives a project another quota. What it has already stays.
    pub async fn set_quota(
        self,
        principal: &Principal,
        name: &Label,
        quota: Quota,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        let mut settings = self.record(name)?.settings.clone();
        settings.quota = quota;
        self.update(principal, name, settings, precondition).await
    }

    async fn put(
        self,
        name: &Label,
        settings: ProjectSettings,
        new: bool,
        precondition: Precondition,
    ) -> Result<ProjectView> {
        let known = self.0.tables().projects.get(name).cloned();
        if let Some(known) = &known {
            precondition.check(known)?;
        }
        if let Some(known) = &known
            && new
        {
            return match known.settings == settings {
                true => Ok(self.view(known)),
                false => Err(Error::already_exists(format!(
                    "project {name} is there already, with other settings"
                ))),
            };
        }
        let created_at_ms = known
            .as_ref()
            .map_or_else(now_ms, |known| known.created_at_ms);
        let deleted = keys::deleted_project(name);
        let before = match &known {
            None => self.0.store().get(&deleted).await.map_err(public)?,
            Some(_) => None,
        };
        let succeeds_at_ms = match (&known, &before) {
            (Some(known), _) => known.succeeds_at_ms,
            (None, None) => 0,
            (None, Some(entry)) => decode::<DeletedProject>(&deleted, &entry.value)?.deleted_at_ms,
        };
        let record = Project {
            name: name.clone(),
            settings,
            closing: known.as_ref().is_some_and(|known| known.closing),
            succeeds_at_ms,
            created_at_ms,
        };
        let key = keys::project(name);
        let transaction = Transaction::new().put(&*key, encode(&record)?);
        let transaction = match before {
            None if known.is_none() => transaction.if_absent(deleted),
            None => transaction,
            Some(before) => transaction.if_unchanged(deleted, before.changed),
        };
        let transaction = match &known {
            None => transaction.if_absent(&*key),
            Some(known) => transaction.if_unchanged(&*key, known.revision),
        };
        let written = match new {
            true => self.0.commit_effect(transaction, &key).await,
            false => self.0.commit(transaction).await,
        };
        match written {
            Ok(_) => self.get(name),
            Err(StoreError::Conflict { .. }) if new => Err(Error::already_exists(format!(
                "project {name} was made meanwhile"
            ))),
            Err(error) => Err(public(error)),
        }
    }

    /// Removes an empty project.
    pub async fn delete(
        self,
        principal: &Principal,
        name: &Label,
        precondition: Precondition,
    ) -> Result<()> {
        principal.require_all_projects()?;
        let known = self.record(name)?;
        precondition.check(&known)?;
        if name.as_str() == DEFAULT_PROJECT {
            return Err(Error::wrong_state("the project default stays"));
        }
        self.check_empty(name)?;
        // What is made in it meanwhile is made on the condition that it is
        // open: once it is not, what the tables show is all there will be.
        let known = self.close(&known, true).await?;
        if let Err(error) = self.check_empty(name) {
            self.close(&known, false).await?;
            return Err(error);
        }
        let key = keys::project(name);
        let deleted = DeletedProject {
            deleted_at_ms: now_ms(),
        };
        let mut conflicts = 0;
        loop {
            let (transaction, is_last) = self.revoke_access(name)?;
            let transaction = match is_last {
                false => transaction,
                true => transaction
                    .if_unchanged(&*key, known.revision)
                    .delete(&*key)
                    .put(keys::deleted_project(name), encode(&deleted)?),
            };
            match self.0.commit(transaction).await {
                Ok(_) if is_last => return Ok(()),
                Ok(_) => {}
                // Another project was changed meanwhile.
                Err(StoreError::Conflict { key: changed })
                    if changed != key && conflicts < MAX_CONFLICTS =>
                {
                    self.0.wait_until_visible(&changed).await?;
                    conflicts += 1;
                }
                Err(error) => return Err(public(error)),
            }
        }
    }

    /// Takes a project out of those that may reach others: another of its name
    /// is another project. Whether these are all that allow it: then this is in
    /// the transaction of its deletion.
    fn revoke_access(self, name: &Label) -> Result<(Transaction, bool)> {
        let tables = self.0.tables();
        let all = tables.projects.values();
        let mut allowing = all.filter(|other| other.settings.allow_from.contains(name));
        let mut transaction = Transaction::new();
        for other in allowing.by_ref().take(MAX_REVOKED) {
            let mut next = other.record.clone();
            next.settings.allow_from.retain(|allowed| allowed != name);
            let key = keys::project(&other.name);
            transaction = transaction
                .if_unchanged(&*key, other.revision)
                .put(key, encode(&next)?);
        }
        Ok((transaction, allowing.next().is_none()))
    }

    fn check_empty(self, name: &Label) -> Result<()> {
        let (workloads, instances, secrets) = {
            let tables = self.0.tables();
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
    async fn close(
        self,
        known: &Versioned<Project>,
        closing: bool,
    ) -> Result<Arc<Versioned<Project>>> {
        let mut next = known.record.clone();
        next.closing = closing;
        let key = keys::project(&known.name);
        let put = Transaction::new()
            .if_unchanged(&*key, known.revision)
            .put(key, encode(&next)?);
        self.0.commit(put).await.map_err(public)?;
        self.record(&known.name)
    }

    /// Has something be made only if its project is there and open by then.
    pub(super) fn in_open(self, transaction: Transaction, name: &Label) -> Result<Transaction> {
        let known = self.record(name)?;
        if known.closing {
            let why = format!("project {name} is being deleted");
            return Err(Error::wrong_state(why).in_field("project"));
        }
        Ok(transaction.if_unchanged(keys::project(name), known.revision))
    }

    /// A project that must be there.
    pub(crate) fn record(self, name: &Label) -> Result<Arc<Versioned<Project>>> {
        self.0.tables().projects.get(name).cloned().ok_or_else(|| {
            Error::not_found(format!("there is no project {name}"))
                .with_hint(format!("make it: strata project create {name}"))
        })
    }

    /// A project and what it has.
    pub fn get(self, name: &Label) -> Result<ProjectView> {
        let project = self.record(name)?;
        Ok(self.view(&project))
    }

    fn view(self, project: &Versioned<Project>) -> ProjectView {
        let used = self.0.tables().uses.get(&project.name).copied();
        ProjectView {
            project: project.record.clone(),
            used: used.unwrap_or_default(),
        }
    }

    /// All that `principal` may see.
    pub fn list(self, principal: &Principal) -> Vec<ProjectView> {
        let all: Vec<_> = self.0.tables().projects.values().cloned().collect();
        all.iter()
            .filter(|project| principal.sees(&project.name))
            .map(|project| self.view(project))
            .collect()
    }

    /// Gives a specification the defaults of its project, and refuses what no
    /// instance of it may have.
    pub(super) fn with_defaults(
        self,
        principal: &Principal,
        project: &Label,
        spec: &mut InstanceSpec,
    ) -> Result<Defaulted> {
        let settings = self.record(project)?.settings.clone();
        let most = settings.defaults.pids.unwrap_or(DEFAULT_PIDS);
        if let Some(pids) = spec.pids
            && principal.is_limited()
            && settings.quota.pids.is_none()
            && pids > most.max(DEFAULT_PIDS)
        {
            let why = format!(
                "is {pids}; in project {project}, without a quota of them, {most} is the most"
            );
            let hint = "an admin can give the project a quota: strata project update --pids …";
            return Err(Error::invalid("pids", why).with_hint(hint));
        }
        let defaulted = settings.apply_defaults(spec, principal.is_limited());
        check_memory_volumes(&settings.quota, spec)?;
        Ok(defaulted)
    }

    /// Whether a port is one of Strata itself, on some host.
    fn is_own_port(self, port: u16) -> bool {
        let of_node = |node: &Node| [node.witness_port, node.overlay.port].contains(&port);
        // 0 is that of a node which has none.
        port != 0 && self.0.tables().nodes.values().any(|node| of_node(node))
            || OWN_PORTS.contains(&port)
            || self.0.settings().server_port == Some(port)
    }

    /// Refuses ports of the host that a caller who is limited to projects may
    /// not take: those of the host's own services, and Strata's. What the
    /// instance published before stays.
    pub(super) fn check_ports(
        self,
        principal: &Principal,
        project: &Label,
        spec: &InstanceSpec,
        before: Option<&InstanceSpec>,
    ) -> Result<()> {
        if !principal.is_limited() || self.record(project)?.settings.privileged_ports {
            return Ok(());
        }
        for (i, port) in spec.port_mappings()?.iter().enumerate() {
            let own = self.is_own_port(port.host_port);
            let had = before.is_some_and(|before| before.ports.contains(&spec.ports[i]));
            if (port.host_port < FIRST_UNPRIVILEGED_PORT || own) && !had {
                let why = format!(
                    "{} may not publish port {} of a node: \
                     ports below {FIRST_UNPRIVILEGED_PORT}, and those of Strata itself, are the host's own",
                    principal.name, port.host_port
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
        self,
        principal: &Principal,
        project: &Label,
        spec: &InstanceSpec,
        before: Option<&InstanceSpec>,
    ) -> Result<()> {
        let quota = self.record(project)?.settings.quota;
        if !principal.is_limited() || quota.disk.is_none() || spec.kind != InstanceKind::Container {
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
                    principal.name
                );
                return Err(Error::new(ErrorKind::PermissionDenied, why)
                    .in_field(format!("volumes[{i}]"))
                    .with_hint("use one of the pool, which has a size: pool=NAME:PATH"));
            }
        }
        Ok(())
    }

    /// Holds room for an instance, or returns what is in the way.
    pub(super) fn reserve_quota(
        self,
        project: &Label,
        spec: &InstanceSpec,
        defaulted: Defaulted,
        instead_of: Option<&InstanceSpec>,
    ) -> Result<QuotaReservation<'a>> {
        let quota = self.record(project)?.settings.quota;
        let requested = ProjectUse::of(spec);
        let mut all = self
            .0
            .0
            .quota_reservations
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(project.clone()).or_default();
        let mut sum = *held;
        if let Some(used) = self.0.tables().uses.get(project) {
            sum += *used;
        }
        if let Some(old) = instead_of {
            sum -= ProjectUse::of(old);
        }
        let before = sum;
        sum += requested;
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
        *held += requested;
        Ok(QuotaReservation {
            reservations: &self.0.0.quota_reservations,
            project: project.clone(),
            amounts: requested,
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
    if settings.allow_from.len() > MAX_ALLOWED {
        let why = format!(
            "has {}; {MAX_ALLOWED} is the most",
            settings.allow_from.len()
        );
        return Err(Error::invalid("allowFrom", why));
    }
    check_defaults(&settings.defaults)
}

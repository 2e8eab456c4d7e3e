//! Instances: made, found, listed.

use std::sync::Arc;

use strata_store::{StoreError, Transaction};
use strata_types::instance::{
    DesiredState, InstanceId, InstanceKind, InstanceSpec, InstanceState, WorkloadId,
};
use strata_types::{Error, ErrorKind, Label, Result, Role};
use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use super::defaults::Defaulted;
use super::record::{Instance, encode};
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Principal, TableChange, Update, keys, now_ms, placement_rules};

/// How often an instance is tried to be made while its project changes.
const MAX_ATTEMPTS: usize = 8;

fn refuse_for(volume: &str, users: &[String], hint: &str) -> Result<()> {
    if users.is_empty() {
        return Ok(());
    }
    let users = users.join(", ");
    let why = format!("volume {volume} is used by {users}");
    Err(Error::wrong_state(why).with_hint(hint))
}

/// The instance that a caller requests.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// The client's own id; one is made when none is given.
    pub id: Option<InstanceId>,
    /// The id to make in that case, for a caller that watches it already.
    pub fresh_id: Option<InstanceId>,
    /// Its name; made from the id when none is given.
    pub name: Option<Label>,
    /// The project that owns it.
    pub project: Label,
    /// The workload it is made from, by id or name, unless `spec` says all.
    pub workload: Option<String>,
    pub spec: InstanceSpec,
    /// Whether it runs or rests until it is started; runs when `None`.
    pub desired_state: Option<DesiredState>,
}

#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only of this project.
    pub project: Option<Label>,
    /// Only of this kind.
    pub kind: Option<InstanceKind>,
    /// Only in this state.
    pub state: Option<InstanceState>,
    /// Only on this node.
    pub node: Option<String>,
    /// Only of this workload.
    pub workload: Option<WorkloadId>,
}

/// A piece of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: usize,
}

impl<T> Page<T> {
    /// `limit` of them from `offset` on.
    pub(crate) fn of(all: impl Iterator<Item = T>, offset: usize, limit: usize) -> Self {
        let mut total = 0;
        let mut items = Vec::new();
        for item in all {
            if total >= offset && items.len() < limit {
                items.push(item);
            }
            total += 1;
        }
        Self { items, total }
    }
}

impl Filter {
    /// Whether an instance is one of those.
    pub fn accepts(&self, one: &Instance) -> bool {
        fn is<T: PartialEq>(requested: &Option<T>, found: &T) -> bool {
            requested
                .as_ref()
                .is_none_or(|requested| requested == found)
        }
        is(&self.project, &one.project)
            && is(&self.kind, &one.spec.kind)
            && is(&self.state, &one.state)
            && (self.node.is_none() || self.node == one.node)
            && (self.workload.is_none() || self.workload == one.workload)
    }
}

/// Refuses what an operator may not request.
pub(super) fn check_host_access(principal: &Principal, spec: &InstanceSpec) -> Result<()> {
    if principal.role != Role::Admin && spec.reaches_the_machine() {
        let why = "only an admin may use images and directories of a node's own disk, or add capabilities";
        return Err(Error::new(ErrorKind::PermissionDenied, why));
    }
    if principal.projects.is_some() && spec.placement.preempts {
        let why = "callers limited to projects may not stop instances of others";
        return Err(Error::new(ErrorKind::PermissionDenied, why).in_field("placement.preempts"));
    }
    Ok(())
}

/// Refuses a priority that a caller who is limited to projects may not set: it
/// comes before the instances of others where there is no room for all. What an
/// admin has set stays.
pub(super) fn check_priority(
    principal: &Principal,
    spec: &InstanceSpec,
    before: Option<&InstanceSpec>,
) -> Result<()> {
    let priority = spec.placement.priority;
    let had = before.map_or(0, |before| before.placement.priority);
    if !principal.is_limited() || priority <= had.max(0) {
        return Ok(());
    }
    let why = "callers limited to projects may not set a priority above 0";
    Err(Error::new(ErrorKind::PermissionDenied, why).in_field("placement.priority"))
}

/// Refuses an operator what concerns an instance or a workload with access to
/// its host, which an admin made: what it may not begin it may not alter or end
/// either. Nodes have the same rule for their pods.
pub(super) fn check_management(
    principal: &Principal,
    noun: &str,
    name: &Label,
    spec: &InstanceSpec,
) -> Result<()> {
    if principal.role == Role::Admin || !spec.has_host_access() {
        return Ok(());
    }
    let why = format!("{noun} {name} has access to its host: only an admin may change or end it");
    Err(Error::new(ErrorKind::PermissionDenied, why))
}

impl Core {
    /// The names of instances that have a volume of the pool: all, or those
    /// that do not rest.
    fn users_of_pool_volume(&self, volume: &str, resting_too: bool) -> Vec<String> {
        let tables = self.tables();
        let has = |one: &Instance| {
            let named = one.spec.pool_volumes().into_iter();
            let mut own = named.filter_map(|name| one.own_volume(&name).ok());
            own.any(|name| name.as_str() == volume)
        };
        let users = tables.instances.values().filter(|one| has(one));
        let users = users.filter(|one| resting_too || one.state != InstanceState::Stopped);
        users.map(|one| one.name.to_string()).collect()
    }

    /// Refuses what removes a volume of the pool that is in use.
    pub(crate) fn ensure_volume_unused(&self, volume: &str) -> Result<()> {
        let users = self.users_of_pool_volume(volume, true);
        let hint = "delete those first: strata instance delete";
        refuse_for(volume, &users, hint)
    }

    /// The same where it is enough that they rest.
    pub(crate) fn ensure_volume_not_running(&self, volume: &str) -> Result<()> {
        let users = self.users_of_pool_volume(volume, false);
        let hint = "stop those first, and start them afterwards: strata instance stop";
        refuse_for(volume, &users, hint)
    }

    /// Makes an instance; placement does the rest. The flag says whether it is
    /// new: the same request again gives the same instance, which is started or
    /// stopped where the request says so.
    pub async fn create_instance(
        &self,
        principal: &Principal,
        new: NewInstance,
    ) -> Result<(Arc<Versioned<Instance>>, bool)> {
        principal.in_project(&new.project)?;
        let (own_id, asked) = (new.id.is_some(), new.desired_state);
        let mut record = self.record_of(principal, new)?;
        if let Some(same) = self.find_existing(principal, &record, own_id)? {
            return Ok((self.matches_request(principal, same, asked).await?, false));
        }
        self.check_instances(principal, &record.project)?;
        record.defaulted =
            self.projects()
                .with_defaults(principal, &record.project, &mut record.spec)?;
        let _room =
            self.projects()
                .reserve_quota(&record.project, &record.spec, record.defaulted, None)?;
        let (key, name) = (
            keys::instance(&record.id),
            keys::instance_name(&record.project, &record.name),
        );
        let text = encode(&record)?;
        self.check_bytes(principal, &record.project, &key, text.len())?;
        let mut tries = 0;
        loop {
            let transaction = Transaction::new()
                .if_absent(&*key)
                .if_absent(&*name)
                .put(&*key, text.clone())
                .put(&*name, record.id.as_str().to_owned());
            let transaction = self.projects().in_open(transaction, &record.project)?;
            let transaction = self
                .workloads()
                .in_open(transaction, record.workload.as_ref())?;
            match self.commit_effect(transaction, &key).await {
                Ok(_) => break,
                Err(StoreError::Conflict { key: taken }) if taken == key || taken == name => {
                    self.wait_until_visible(&taken).await?;
                    return match self.find_existing(principal, &record, own_id)? {
                        Some(same) => {
                            Ok((self.matches_request(principal, same, asked).await?, false))
                        }
                        None => Err(exists(&record, "with a different specification")),
                    };
                }
                // Its project or its workload was changed, or is gone.
                Err(StoreError::Conflict { key: changed }) if tries < MAX_ATTEMPTS => {
                    self.wait_until_visible(&changed).await?;
                    tries += 1;
                }
                Err(error) => return Err(public(error)),
            }
        }
        let made = self.tables().instances.get(&record.id).cloned();
        // A quick caller may have deleted it already.
        let made = made.unwrap_or_else(|| {
            Arc::new(Versioned {
                record,
                revision: 0,
            })
        });
        Ok((made, true))
    }

    /// Waits until the tables know of a key that another has written.
    pub(super) async fn wait_until_visible(&self, key: &str) -> Result<()> {
        let found = self.0.store.get(key).await.map_err(public)?;
        if let Some(entry) = found {
            self.wait_until_applied(entry.changed)
                .await
                .map_err(public)?;
        }
        Ok(())
    }

    fn record_of(&self, principal: &Principal, new: NewInstance) -> Result<Instance> {
        let workload = match &new.workload {
            Some(text) => Some(self.workloads().find(principal, Some(&new.project), text)?),
            None => None,
        };
        let spec = match &workload {
            Some(workload) => workload.spec.clone(),
            None => new.spec,
        };
        spec.check()?;
        placement_rules(&new.project, &spec)?;
        check_host_access(principal, &spec)?;
        let template = workload.as_ref().map(|workload| &workload.spec);
        check_priority(principal, &spec, template)?;
        self.projects()
            .check_ports(principal, &new.project, &spec, None)?;
        self.projects()
            .check_volumes(principal, &new.project, &spec, None)?;
        self.secrets().check_spec(&new.project, &spec)?;
        // An id that a client gives may have been another instance's before,
        // and a node may still have something of that one.
        let generation = match &new.id {
            Some(_) => u64::try_from(now_ms()).unwrap_or(1),
            None => 1,
        };
        let id = match new.id.or(new.fresh_id) {
            Some(id) => id,
            None => Uuid::now_v7().to_string().parse()?,
        };
        let desired_state = new.desired_state.unwrap_or_default();
        let name = match new.name {
            Some(name) => name,
            None => name_from(&id)?,
        };
        let now = now_ms();
        let project_succeeds_at_ms = self.projects().record(&new.project)?.succeeds_at_ms;
        Ok(Instance {
            id,
            name,
            project: new.project,
            workload: workload.map(|workload| workload.id.clone()),
            spec,
            defaulted: Defaulted::default(),
            desired_state,
            generation,
            starts: 0,
            state: match desired_state {
                DesiredState::Running => InstanceState::Scheduling,
                DesiredState::Stopped | DesiredState::Gone => InstanceState::Stopped,
            },
            description: String::new(),
            given_up: false,
            limited_description: None,
            node: None,
            epoch: 0,
            leaving: Vec::new(),
            restored: false,
            after: Vec::new(),
            address: None,
            restarts: 0,
            exit_code: None,
            healthy: None,
            refusals: Default::default(),
            project_succeeds_at_ms,
            sized_volumes: principal.is_limited(),
            owner: principal.name.clone(),
            created_at_ms: now,
            changed_at_ms: now,
        })
    }

    /// The instance that is there already, if the request is for the same. A
    /// client that gives an id of its own gets the instance of that id, or is
    /// refused: the answer is never another one's.
    fn find_existing(
        &self,
        principal: &Principal,
        requested: &Instance,
        own_id: bool,
    ) -> Result<Option<Arc<Versioned<Instance>>>> {
        let tables = self.tables();
        let by_id = tables.instances.get(&requested.id);
        let name = (requested.project.clone(), requested.name.clone());
        let by_name = tables.instance_names.get(&name);
        let by_name = by_name.and_then(|id| tables.instances.get(id));
        let found = match (by_id, by_name) {
            (None, None) => return Ok(None),
            (Some(found), _)
                if (&found.project, &found.name) != (&requested.project, &requested.name) =>
            {
                return Err(id_taken(principal, found));
            }
            (None, Some(found)) if own_id => {
                let how = format!("with the id {}, not {}", found.id, requested.id);
                let hint = "leave the id out, or give the one it has";
                return Err(exists(requested, &how).in_field("id").with_hint(hint));
            }
            (Some(found), _) | (None, Some(found)) => found,
        };
        if found.desired_state == DesiredState::Gone {
            return Err(exists(requested, "and is being deleted"));
        }
        let same =
            found.asked_for() == requested.asked_for() && found.workload == requested.workload;
        match same {
            true => Ok(Some(found.clone())),
            false => Err(exists(requested, "with a different specification")),
        }
    }

    /// One that is there already, started or stopped where that is requested.
    async fn matches_request(
        &self,
        principal: &Principal,
        found: Arc<Versioned<Instance>>,
        asked: Option<DesiredState>,
    ) -> Result<Arc<Versioned<Instance>>> {
        match asked {
            Some(DesiredState::Running) if found.desired_state == DesiredState::Stopped => {
                self.start_instance(principal, &found.id).await
            }
            Some(DesiredState::Stopped) if found.desired_state == DesiredState::Running => {
                self.stop_instance(principal, &found.id).await
            }
            _ => Ok(found),
        }
    }

    /// An instance by its id, its name, or `PROJECT/NAME`. A caller that may
    /// not see it is answered that there is none.
    pub fn instance(
        &self,
        principal: &Principal,
        project: Option<&Label>,
        text: &str,
    ) -> Result<Arc<Versioned<Instance>>> {
        let missing = || {
            let text: String = text.chars().take(140).collect();
            Error::not_found(format!("there is no instance {text}"))
                .with_hint("list them: strata instance list")
        };
        let asked = project;
        let (project, name) = super::workloads::split(project, text);
        let tables = self.tables();
        let by_id = tables.instances.get(text).filter(|one| {
            principal.sees_instance(one) && asked.is_none_or(|asked| *asked == one.project)
        });
        let by_name = || {
            let name = (project.clone()?, name.parse().ok()?);
            tables.instances.get(tables.instance_names.get(&name)?)
        };
        let found = by_id.or_else(by_name);
        match found {
            Some(found) if principal.sees_instance(found) => Ok(found.clone()),
            _ => Err(missing()),
        }
    }

    /// Those that `principal` may see, in the order of their ids.
    pub fn instances(
        &self,
        principal: &Principal,
        filter: &Filter,
        offset: usize,
        limit: usize,
    ) -> Page<Arc<Versioned<Instance>>> {
        let tables = self.tables();
        let requested =
            |one: &&Arc<Versioned<Instance>>| principal.sees_instance(one) && filter.accepts(one);
        Page::of(
            tables.instances.values().filter(requested).cloned(),
            offset,
            limit,
        )
    }

    /// An instance as it is, and every change to it from then on.
    pub fn watch_instance(
        &self,
        id: &InstanceId,
    ) -> (Option<Arc<Versioned<Instance>>>, InstanceWatch) {
        // Subscribe first, then read: a change in between is delivered twice
        // and never lost.
        let changes = InstanceWatch {
            core: self.clone(),
            id: id.clone(),
            changes: Some(self.subscriptions().instance(id)),
        };
        (self.tables().instances.get(id).cloned(), changes)
    }

    /// Every change to any record from now on.
    pub fn watch_all(&self) -> broadcast::Receiver<TableChange> {
        self.subscriptions().all()
    }
}

/// Changes to one instance, as they come.
pub struct InstanceWatch {
    core: Core,
    id: InstanceId,
    changes: Option<broadcast::Receiver<Update>>,
}

impl InstanceWatch {
    /// The next change; an error when so many came that some were left out.
    pub async fn next(&mut self) -> Result<Update, RecvError> {
        match &mut self.changes {
            Some(changes) => changes.recv().await,
            None => Err(RecvError::Closed),
        }
    }
}

impl Drop for InstanceWatch {
    fn drop(&mut self) {
        drop(self.changes.take());
        self.core.subscriptions().leave_instance(&self.id);
    }
}

fn exists(requested: &Instance, how: &str) -> Error {
    Error::already_exists(format!(
        "instance {} in project {} already exists {how}",
        requested.name, requested.project
    ))
    .in_field("name")
}

/// The id is that of an instance with another name.
fn id_taken(principal: &Principal, found: &Instance) -> Error {
    let whose = match principal.sees_instance(found) {
        true => format!("instance {} in project {}", found.name, found.project),
        false => "another instance".to_owned(),
    };
    Error::already_exists(format!("{} is the id of {whose}", found.id)).in_field("id")
}

/// A name for an instance without one: the end of the id, which differs most.
fn name_from(id: &InstanceId) -> Result<Label> {
    let plain: String = id.as_str().to_ascii_lowercase();
    let plain: String = plain
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let end = plain.len().saturating_sub(40);
    let text = format!("instance-{}", plain[end..].trim_matches('-'));
    Label::from_field("name", text.trim_end_matches('-'))
}

//! Instances: made, found, listed.

use std::sync::Arc;

use strata_store::{StoreError, Transaction};
use strata_types::instance::{InstanceId, InstanceKind, InstanceSpec, InstanceState, WorkloadId};
use strata_types::{Error, ErrorKind, Label, Result, Role};
use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use super::defaults::Defaulted;
use super::follow::public;
use super::record::{Instance, Wanted, encode};
use super::tables::Kept;
use super::{Changed, Core, Update, Who, keys, now_ms};
use crate::link::own_volume;

/// How often an instance is tried to be made while its project changes.
const TRIES: usize = 8;

fn refuse_for(volume: &str, users: &[String], hint: &str) -> Result<()> {
    if users.is_empty() {
        return Ok(());
    }
    let users = users.join(", ");
    let why = format!("volume {volume} is used by {users}");
    Err(Error::wrong_state(why).with_hint(hint))
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// The client's own id; one is made when none is given.
    pub id: Option<InstanceId>,
    /// The id to make in that case, for a caller that watches it already.
    pub fresh_id: Option<InstanceId>,
    /// Its name; made from the id when none is given.
    pub name: Option<Label>,
    /// Where.
    pub project: Label,
    /// The workload it is made from, by id or name, unless `spec` says all.
    pub workload: Option<String>,
    /// What it is asked to be.
    pub spec: InstanceSpec,
    /// Whether it runs or rests until it is started; runs when `None`.
    pub wanted: Option<Wanted>,
}

/// Which instances.
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
    /// The piece.
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
        fn is<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        is(&self.project, &one.project)
            && is(&self.kind, &one.spec.kind)
            && is(&self.state, &one.state)
            && (self.node.is_none() || self.node == one.node)
            && (self.workload.is_none() || self.workload == one.workload)
    }
}

/// Refuses what an operator may not ask for.
pub(super) fn check_reach(who: &Who, spec: &InstanceSpec) -> Result<()> {
    if who.role != Role::Admin && spec.reaches_the_machine() {
        let why =
            "only an admin may use images and folders of a node's own disk, or add capabilities";
        return Err(Error::new(ErrorKind::PermissionDenied, why));
    }
    if who.projects.is_some() && spec.placement.preempts {
        let why = "whoever is limited to projects may not stop instances of others";
        return Err(Error::new(ErrorKind::PermissionDenied, why).in_field("placement.preempts"));
    }
    Ok(())
}

impl Core {
    /// The names of instances that have a volume of the pool: all, or those
    /// that do not rest.
    fn users_of_pool_volume(&self, volume: &str, resting_too: bool) -> Vec<String> {
        let tables = self.tables();
        let has = |one: &Instance| {
            let named = one.spec.pool_volumes().into_iter();
            let mut own = named.filter_map(|name| own_volume(&one.project, &name).ok());
            own.any(|name| name.as_str() == volume)
        };
        let users = tables.instances.values().filter(|one| has(one));
        let users = users.filter(|one| resting_too || one.state != InstanceState::Stopped);
        users.map(|one| one.name.to_string()).collect()
    }

    /// Refuses what takes a volume of the pool from under those who use it.
    pub(crate) fn nobody_uses_pool_volume(&self, volume: &str) -> Result<()> {
        let users = self.users_of_pool_volume(volume, true);
        let hint = "delete those first: strata instance delete";
        refuse_for(volume, &users, hint)
    }

    /// The same where it is enough that they rest.
    pub(crate) fn nobody_runs_on_pool_volume(&self, volume: &str) -> Result<()> {
        let users = self.users_of_pool_volume(volume, false);
        let hint = "stop those first, and start them afterwards: strata instance stop";
        refuse_for(volume, &users, hint)
    }

    /// Makes an instance; placement does the rest. The flag says whether it is
    /// new: the same request again gives the same instance, which is started or
    /// stopped where the request says so.
    pub async fn create_instance(
        &self,
        who: &Who,
        new: NewInstance,
    ) -> Result<(Arc<Kept<Instance>>, bool)> {
        who.in_project(&new.project)?;
        let (own_id, asked) = (new.id.is_some(), new.wanted);
        let mut record = self.record_of(who, new)?;
        if let Some(same) = self.known(who, &record, own_id)? {
            return Ok((self.as_asked(who, same, asked).await?, false));
        }
        self.check_instances(who, &record.project)?;
        record.defaulted = self.with_defaults(who, &record.project, &mut record.spec)?;
        let _room = self.admit(&record.project, &record.spec, record.defaulted, None)?;
        let (key, name) = (
            keys::instance(&record.id),
            keys::instance_name(&record.project, &record.name),
        );
        let mut tries = 0;
        loop {
            let transaction = Transaction::new()
                .if_absent(&*key)
                .if_absent(&*name)
                .put(&*key, encode(&record)?)
                .put(&*name, record.id.as_str().to_owned());
            let transaction = self.in_open_project(transaction, &record.project)?;
            let transaction = self.of_open_workload(transaction, record.workload.as_ref())?;
            match self.commit_effect(transaction, &key).await {
                Ok(_) => break,
                Err(StoreError::Conflict { key: taken }) if taken == key || taken == name => {
                    self.seen(&taken).await?;
                    return match self.known(who, &record, own_id)? {
                        Some(same) => Ok((self.as_asked(who, same, asked).await?, false)),
                        None => Err(exists(&record, "it is another")),
                    };
                }
                // Its project or its workload was changed, or is gone.
                Err(StoreError::Conflict { key: changed }) if tries < TRIES => {
                    self.seen(&changed).await?;
                    tries += 1;
                }
                Err(error) => return Err(public(error)),
            }
        }
        let made = self.tables().instances.get(&record.id).cloned();
        // Whoever is quick may have deleted it already.
        let made = made.unwrap_or_else(|| {
            Arc::new(Kept {
                record,
                revision: 0,
            })
        });
        Ok((made, true))
    }

    /// Waits until the tables know of a key that another has written.
    async fn seen(&self, key: &str) -> Result<()> {
        let found = self.0.store.get(key).await.map_err(public)?;
        if let Some(entry) = found {
            self.settle(entry.changed).await.map_err(public)?;
        }
        Ok(())
    }

    fn record_of(&self, who: &Who, new: NewInstance) -> Result<Instance> {
        let workload = match &new.workload {
            Some(text) => Some(self.workload(who, Some(&new.project), text)?),
            None => None,
        };
        let spec = match &workload {
            Some(workload) => workload.spec.clone(),
            None => new.spec,
        };
        spec.check()?;
        crate::placement::rules(&new.project, &spec)?;
        check_reach(who, &spec)?;
        self.check_ports(who, &new.project, &spec, None)?;
        self.check_volumes(who, &new.project, &spec, None)?;
        self.check_secrets(&new.project, &spec)?;
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
        let wanted = new.wanted.unwrap_or_default();
        let name = match new.name {
            Some(name) => name,
            None => name_from(&id)?,
        };
        let now = now_ms();
        Ok(Instance {
            id,
            name,
            project: new.project,
            workload: workload.map(|workload| workload.id.clone()),
            spec,
            defaulted: Defaulted::default(),
            wanted,
            generation,
            starts: 0,
            state: match wanted {
                Wanted::Running => InstanceState::Scheduling,
                Wanted::Stopped | Wanted::Gone => InstanceState::Stopped,
            },
            description: String::new(),
            limited_description: None,
            node: None,
            epoch: 0,
            leaving: Vec::new(),
            after: Vec::new(),
            address: None,
            restarts: 0,
            exit_code: None,
            healthy: None,
            refusals: Default::default(),
            owner: who.name.clone(),
            created_at_ms: now,
            changed_at_ms: now,
        })
    }

    /// The instance that is there already, if the request asks for the same.
    /// A client that gives an id of its own gets the instance of that id, or is
    /// refused: the answer is never another one's.
    fn known(
        &self,
        who: &Who,
        wanted: &Instance,
        own_id: bool,
    ) -> Result<Option<Arc<Kept<Instance>>>> {
        let tables = self.tables();
        let by_id = tables.instances.get(&wanted.id);
        let name = (wanted.project.clone(), wanted.name.clone());
        let by_name = tables.instance_names.get(&name);
        let by_name = by_name.and_then(|id| tables.instances.get(id));
        let found = match (by_id, by_name) {
            (None, None) => return Ok(None),
            (Some(found), _)
                if (&found.project, &found.name) != (&wanted.project, &wanted.name) =>
            {
                return Err(id_taken(who, found));
            }
            (None, Some(found)) if own_id => {
                let why = format!("its id is {}, not {}", found.id, wanted.id);
                let hint = "leave the id out, or give the one it has";
                return Err(exists(wanted, &why).in_field("id").with_hint(hint));
            }
            (Some(found), _) | (None, Some(found)) => found,
        };
        if found.wanted == Wanted::Gone {
            return Err(exists(wanted, "it is being deleted"));
        }
        let same = found.asked_for() == wanted.asked_for() && found.workload == wanted.workload;
        match same {
            true => Ok(Some(found.clone())),
            false => Err(exists(wanted, "its specification is another")),
        }
    }

    /// One that is there already, started or stopped where that is asked for.
    async fn as_asked(
        &self,
        who: &Who,
        found: Arc<Kept<Instance>>,
        asked: Option<Wanted>,
    ) -> Result<Arc<Kept<Instance>>> {
        match asked {
            Some(Wanted::Running) if found.wanted == Wanted::Stopped => {
                self.start_instance(who, &found.id).await
            }
            Some(Wanted::Stopped) if found.wanted == Wanted::Running => {
                self.stop_instance(who, &found.id).await
            }
            _ => Ok(found),
        }
    }

    /// An instance by its id, its name, or `PROJECT/NAME`. Who may not see it
    /// is told that there is none.
    pub fn instance(
        &self,
        who: &Who,
        project: Option<&Label>,
        text: &str,
    ) -> Result<Arc<Kept<Instance>>> {
        let missing = || {
            let text: String = text.chars().take(140).collect();
            Error::not_found(format!("there is no instance {text}"))
                .with_hint("see those there are: strata instance list")
        };
        let asked = project;
        let (project, name) = super::workloads::split(project, text);
        let tables = self.tables();
        let by_id = tables.instances.get(text).filter(|one| {
            who.sees_instance(one) && asked.is_none_or(|asked| *asked == one.project)
        });
        let by_name = || {
            let name = (project.clone()?, name.parse().ok()?);
            tables.instances.get(tables.instance_names.get(&name)?)
        };
        let found = by_id.or_else(by_name);
        match found {
            Some(found) if who.sees_instance(found) => Ok(found.clone()),
            _ => Err(missing()),
        }
    }

    /// Those that `who` may see, in the order of their ids.
    pub fn instances(
        &self,
        who: &Who,
        filter: &Filter,
        offset: usize,
        limit: usize,
    ) -> Page<Arc<Kept<Instance>>> {
        let tables = self.tables();
        let wanted = |one: &&Arc<Kept<Instance>>| who.sees_instance(one) && filter.accepts(one);
        Page::of(
            tables.instances.values().filter(wanted).cloned(),
            offset,
            limit,
        )
    }

    /// An instance as it is, and every change to it from then on.
    pub fn watch_instance(&self, id: &InstanceId) -> (Option<Arc<Kept<Instance>>>, InstanceWatch) {
        // First the ear, then the look: what happens between is heard twice.
        let changes = InstanceWatch {
            core: self.clone(),
            id: id.clone(),
            changes: Some(self.subscriptions().instance(id)),
        };
        (self.tables().instances.get(id).cloned(), changes)
    }

    /// Every change to any record from now on.
    pub fn watch_all(&self) -> broadcast::Receiver<Changed> {
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

fn exists(wanted: &Instance, how: &str) -> Error {
    Error::already_exists(format!(
        "instance {} is in project {} already, and {how}",
        wanted.name, wanted.project
    ))
    .in_field("name")
}

/// The id is that of an instance with another name.
fn id_taken(who: &Who, found: &Instance) -> Error {
    let whose = match who.sees_instance(found) {
        true => format!("instance {} in project {}", found.name, found.project),
        false => "another instance".to_owned(),
    };
    Error::already_exists(format!("{} is the id of {whose}", found.id)).in_field("id")
}

/// A name for whoever gives none: the end of the id, which differs most.
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

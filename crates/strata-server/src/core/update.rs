//! Instances: started, stopped, changed, deleted.

use std::sync::Arc;

use strata_store::Revision;
use strata_types::instance::{DesiredState, InstanceId, InstanceSpec, InstanceState};
use strata_types::{Error, ErrorKind, Label, Result};

use super::commit::{WriteDecision, Writer};
use super::instances::{check_host_access, check_management, check_priority};
use super::record::{Instance, encode};
use super::tables::Versioned;
use super::{Core, Principal, keys, now_ms, placement_rules};

/// A change to an instance. What is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct InstanceUpdate {
    /// Another name.
    pub name: Option<Label>,
    /// Another specification.
    pub spec: Option<InstanceSpec>,
    pub desired_state: Option<DesiredState>,
    /// The generation that the specification was made from, where it was made
    /// from one: if it is another by now, nothing is changed.
    pub made_from: Option<u64>,
}

/// That a record must be as it was when a caller read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precondition(pub Option<Revision>);

impl Precondition {
    pub(crate) fn check<T>(self, now: &Versioned<T>) -> Result<()> {
        match self.0 {
            Some(revision) if revision != now.revision => Err(Error::new(
                ErrorKind::Aborted,
                "the record was changed since it was read",
            )
            .in_field("If-Match")),
            _ => Ok(()),
        }
    }
}

impl Core {
    /// Sets the desired state of an instance to running. One that runs goes on.
    pub async fn start_instance(
        &self,
        principal: &Principal,
        id: &InstanceId,
    ) -> Result<Arc<Versioned<Instance>>> {
        let desired_state = Some(DesiredState::Running);
        let change = InstanceUpdate {
            desired_state,
            ..InstanceUpdate::default()
        };
        self.update_instance(principal, id, change, Precondition::default())
            .await
    }

    /// Sets the desired state of an instance to stopped. One that is stopped
    /// stays so.
    pub async fn stop_instance(
        &self,
        principal: &Principal,
        id: &InstanceId,
    ) -> Result<Arc<Versioned<Instance>>> {
        let desired_state = Some(DesiredState::Stopped);
        let change = InstanceUpdate {
            desired_state,
            ..InstanceUpdate::default()
        };
        self.update_instance(principal, id, change, Precondition::default())
            .await
    }

    /// Changes an instance. Another specification replaces what a node has.
    pub async fn update_instance(
        &self,
        principal: &Principal,
        id: &InstanceId,
        change: InstanceUpdate,
        precondition: Precondition,
    ) -> Result<Arc<Versioned<Instance>>> {
        let now = self.instance(principal, None, id.as_str())?;
        principal.in_project(&now.project)?;
        let mut room = None;
        let mut defaulted = now.defaulted;
        let mut change = change;
        if let Some(spec) = &change.spec
            && *spec != now.spec
        {
            spec.check()?;
            placement_rules(&now.project, spec)?;
            check_host_access(principal, spec)?;
            check_priority(principal, spec, Some(&now.spec))?;
            self.projects()
                .check_ports(principal, &now.project, spec, Some(&now.spec))?;
            self.projects()
                .check_volumes(principal, &now.project, spec, Some(&now.spec))?;
            self.secrets().check_spec(&now.project, spec)?;
            let mut spec = spec.clone();
            let stored = now.defaulted.still(&now.spec, &spec);
            defaulted = stored.and(self.projects().with_defaults(
                principal,
                &now.project,
                &mut spec,
            )?);
            let old = Some(&now.spec);
            room = Some(
                self.projects()
                    .reserve_quota(&now.project, &spec, defaulted, old)?,
            );
            change.spec = Some(spec);
        } else if now.desired_state == DesiredState::Stopped
            && change.desired_state == Some(DesiredState::Running)
        {
            // Of before the project had a quota: it does not come back without
            // the limits that the quota requires.
            let mut spec = now.spec.clone();
            let more = self
                .projects()
                .with_defaults(principal, &now.project, &mut spec)?;
            if spec != now.spec {
                defaulted = now.defaulted.and(more);
                let old = Some(&now.spec);
                room = Some(
                    self.projects()
                        .reserve_quota(&now.project, &spec, defaulted, old)?,
                );
                change.spec = Some(spec);
                change.made_from = Some(now.generation);
            }
        }
        let changed = self
            .change::<Instance>(Writer::AnyServer, id, |now| {
                check_management(principal, "instance", &now.name, &now.spec)?;
                precondition.check(now)?;
                if now.desired_state == DesiredState::Gone {
                    let why = format!("{} is being deleted", now.name);
                    return Err(Error::wrong_state(why));
                }
                let outdated = |from: u64| from != now.generation;
                if change.spec.is_some() && change.made_from.is_some_and(outdated) {
                    let why = format!("{} was changed meanwhile", now.name);
                    return Err(Error::new(ErrorKind::Aborted, why)
                        .with_hint("look at it again, then repeat the request"));
                }
                if let Some(name) = &change.name
                    && *name != now.name
                {
                    let taken = (now.project.clone(), name.clone());
                    if self.tables().instance_names.contains_key(&taken) {
                        let why = format!("{name} is another instance's name");
                        return Err(Error::already_exists(why).in_field("name"));
                    }
                }
                let confirms = now.node.as_deref().is_some_and(|node| self.confirms(node));
                let mut next = changed(now, &change, confirms);
                if change.spec.is_some() {
                    next.defaulted = defaulted;
                    next.sized_volumes |= principal.is_limited();
                    let bytes = encode(&next)?.len();
                    self.check_bytes(principal, &now.project, &keys::instance(id), bytes)?;
                }
                Ok(match next == now.record {
                    true => WriteDecision::Keep,
                    false => WriteDecision::put(next),
                })
            })
            .await?;
        drop(room);
        changed.ok_or_else(|| Error::not_found(format!("there is no instance {id}")))
    }

    /// Sets the desired state of an instance to gone. The record goes when the
    /// node has nothing of it any more. Of one that is going already: success.
    pub async fn delete_instance(
        &self,
        principal: &Principal,
        id: &InstanceId,
        precondition: Precondition,
    ) -> Result<()> {
        let now = self.instance(principal, None, id.as_str())?;
        principal.in_project(&now.project)?;
        self.change::<Instance>(Writer::AnyServer, id, |now| {
            check_management(principal, "instance", &now.name, &now.spec)?;
            if now.desired_state == DesiredState::Gone {
                return Ok(WriteDecision::Keep);
            }
            precondition.check(now)?;
            if now.node.is_none() && now.leaving.is_empty() {
                return Ok(WriteDecision::Delete);
            }
            let mut next = now.record.clone();
            next.desired_state = DesiredState::Gone;
            set_state(&mut next, InstanceState::Destroying, "");
            Ok(WriteDecision::put(next))
        })
        .await
        .map(drop)
    }
}

/// The instance with the change in it.
fn changed(now: &Instance, change: &InstanceUpdate, confirms: bool) -> Instance {
    let mut next = now.clone();
    if let Some(name) = &change.name {
        next.name = name.clone();
    }
    if let Some(spec) = &change.spec
        && *spec != now.spec
    {
        next.spec = spec.clone();
        next.generation += 1;
        replace(&mut next, now, "its specification changed", confirms);
    } else if next.name != now.name && now.node.is_some() {
        // Its host name and its name in DNS are part of what the node made.
        next.generation += 1;
        replace(&mut next, now, "its name changed", confirms);
    }
    match change.desired_state {
        Some(DesiredState::Running) => start(&mut next),
        Some(DesiredState::Stopped) if next.desired_state == DesiredState::Running => {
            next.desired_state = DesiredState::Stopped;
            match (next.node.is_some(), next.state) {
                (true, InstanceState::Crashed | InstanceState::Failed) | (false, _) => {
                    set_state(&mut next, InstanceState::Stopped, "");
                }
                (true, InstanceState::Terminated) => {}
                (true, _) => set_state(&mut next, InstanceState::Stopping, ""),
            }
        }
        _ => {}
    }
    next
}

/// The specification is another: what the node has is replaced; it is placed
/// again when it requires something else of its place.
fn replace(next: &mut Instance, before: &Instance, why: &str, confirms: bool) {
    let place = |spec: &InstanceSpec| {
        (
            spec.kind,
            spec.resources,
            spec.ports.clone(),
            spec.placement.clone(),
        )
    };
    next.refusals.clear();
    let (old, new) = (place(&before.spec), place(&next.spec));
    if old != new || before.node.is_none() {
        match confirms {
            true => next.leave_node_as(before.spec.placement.runs),
            false => next.node = None,
        }
        next.address = None;
        let state = match next.desired_state {
            DesiredState::Running => InstanceState::Scheduling,
            DesiredState::Stopped | DesiredState::Gone => InstanceState::Stopped,
        };
        set_state(next, state, &format!("replaced: {why}"));
    } else if next.desired_state == DesiredState::Running {
        set_state(next, InstanceState::Starting, &format!("replaced: {why}"));
    }
}

fn start(next: &mut Instance) {
    use InstanceState::{Crashed, Failed, Stopped, Stopping, Terminated};
    let rests = next.desired_state == DesiredState::Stopped;
    next.desired_state = DesiredState::Running;
    if rests || matches!(next.state, Crashed | Failed | Terminated) {
        next.refusals.clear();
        next.starts += 1;
        match next.node {
            None => set_state(next, InstanceState::Scheduling, ""),
            Some(_)
                if matches!(
                    next.state,
                    Stopped | Stopping | Crashed | Failed | Terminated
                ) =>
            {
                set_state(next, InstanceState::Starting, "");
            }
            Some(_) => {}
        }
    }
}

/// Another state, now.
pub(crate) fn set_state(instance: &mut Instance, state: InstanceState, description: &str) {
    instance.state = state;
    description.clone_into(&mut instance.description);
    instance.limited_description = None;
    instance.given_up = false;
    instance.changed_at_ms = now_ms();
}

/// Why something is so: in full, and for callers limited to projects, without
/// nodes and instances of others.
#[derive(Clone, Debug)]
pub(crate) struct StateReason {
    pub(crate) full: String,
    pub(crate) limited: String,
}

/// The same with a description that not every caller is shown in full.
pub(crate) fn set_state_because(instance: &mut Instance, state: InstanceState, why: &StateReason) {
    set_state(instance, state, &why.full);
    instance.limited_description = Some(why.limited.clone());
}

//! Instances: started, stopped, changed, deleted.

use std::sync::Arc;

use strata_store::Revision;
use strata_types::instance::{InstanceId, InstanceSpec, InstanceState};
use strata_types::{Error, ErrorKind, Label, Result};

use super::commit::Verdict;
use super::instances::check_reach;
use super::record::{Instance, Wanted};
use super::tables::Kept;
use super::{Core, Who, now_ms};

/// A change to an instance. What is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Another name.
    pub name: Option<Label>,
    /// Another specification.
    pub spec: Option<InstanceSpec>,
    /// Runs or rests.
    pub wanted: Option<Wanted>,
    /// The generation that the specification was made from, where it was made
    /// from one: if it is another by now, nothing is changed.
    pub made_from: Option<u64>,
}

/// That a record must be as it was when somebody looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precondition(pub Option<Revision>);

impl Precondition {
    pub(crate) fn check<T>(self, now: &Kept<T>) -> Result<()> {
        match self.0 {
            Some(revision) if revision != now.revision => Err(Error::new(
                ErrorKind::Aborted,
                "it was changed since it was looked at",
            )
            .in_field("If-Match")),
            _ => Ok(()),
        }
    }
}

impl Core {
    /// Wants an instance to run. One that runs goes on.
    pub async fn start_instance(&self, who: &Who, id: &InstanceId) -> Result<Arc<Kept<Instance>>> {
        let wanted = Some(Wanted::Running);
        let change = Change {
            wanted,
            ..Change::default()
        };
        self.update_instance(who, id, change, Precondition::default())
            .await
    }

    /// Wants an instance to rest. One that rests goes on resting.
    pub async fn stop_instance(&self, who: &Who, id: &InstanceId) -> Result<Arc<Kept<Instance>>> {
        let wanted = Some(Wanted::Stopped);
        let change = Change {
            wanted,
            ..Change::default()
        };
        self.update_instance(who, id, change, Precondition::default())
            .await
    }

    /// Changes an instance. Another specification replaces what a node has.
    pub async fn update_instance(
        &self,
        who: &Who,
        id: &InstanceId,
        change: Change,
        precondition: Precondition,
    ) -> Result<Arc<Kept<Instance>>> {
        let now = self.instance(who, None, id.as_str())?;
        who.in_project(&now.project)?;
        let mut room = None;
        let mut defaulted = now.defaulted;
        let mut change = change;
        if let Some(spec) = &change.spec
            && *spec != now.spec
        {
            spec.check()?;
            crate::placement::rules(&now.project, spec)?;
            check_reach(who, spec)?;
            self.check_ports(who, &now.project, spec, Some(&now.spec))?;
            self.check_volumes(who, &now.project, spec, Some(&now.spec))?;
            self.check_secrets(&now.project, spec)?;
            let mut spec = spec.clone();
            let kept = now.defaulted.still(&now.spec, &spec);
            defaulted = kept.and(self.with_defaults(who, &now.project, &mut spec)?);
            let old = Some(&now.spec);
            room = Some(self.admit(&now.project, &spec, defaulted, old)?);
            change.spec = Some(spec);
        } else if now.wanted == Wanted::Stopped && change.wanted == Some(Wanted::Running) {
            // Of before the project had a quota: it does not come back without
            // the limits that the quota asks for.
            let mut spec = now.spec.clone();
            let more = self.with_defaults(who, &now.project, &mut spec)?;
            if spec != now.spec {
                defaulted = now.defaulted.and(more);
                let old = Some(&now.spec);
                room = Some(self.admit(&now.project, &spec, defaulted, old)?);
                change.spec = Some(spec);
                change.made_from = Some(now.generation);
            }
        }
        let changed = self
            .change_instance(id, |now| {
                precondition.check(now)?;
                if now.wanted == Wanted::Gone {
                    let why = format!("{} is being deleted", now.name);
                    return Err(Error::wrong_state(why));
                }
                let outdated = |from: u64| from != now.generation;
                if change.spec.is_some() && change.made_from.is_some_and(outdated) {
                    let why = format!("{} was changed by somebody else meanwhile", now.name);
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
                }
                Ok(match next == now.record {
                    true => Verdict::Keep,
                    false => Verdict::put(next),
                })
            })
            .await?;
        drop(room);
        changed.ok_or_else(|| Error::not_found(format!("there is no instance {id}")))
    }

    /// Wants an instance to be gone. The record goes when the node has nothing
    /// of it any more. Of one that is going already: success.
    pub async fn delete_instance(
        &self,
        who: &Who,
        id: &InstanceId,
        precondition: Precondition,
    ) -> Result<()> {
        let now = self.instance(who, None, id.as_str())?;
        who.in_project(&now.project)?;
        self.change_instance(id, |now| {
            if now.wanted == Wanted::Gone {
                return Ok(Verdict::Keep);
            }
            precondition.check(now)?;
            if now.node.is_none() && now.leaving.is_empty() {
                return Ok(Verdict::Delete);
            }
            let mut next = now.record.clone();
            next.wanted = Wanted::Gone;
            turn_to(&mut next, InstanceState::Destroying, "");
            Ok(Verdict::put(next))
        })
        .await
        .map(drop)
    }
}

/// The instance with the change in it.
fn changed(now: &Instance, change: &Change, confirms: bool) -> Instance {
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
    match change.wanted {
        Some(Wanted::Running) => start(&mut next),
        Some(Wanted::Stopped) if next.wanted == Wanted::Running => {
            next.wanted = Wanted::Stopped;
            match (next.node.is_some(), next.state) {
                (true, InstanceState::Crashed | InstanceState::Failed) | (false, _) => {
                    turn_to(&mut next, InstanceState::Stopped, "");
                }
                (true, InstanceState::Terminated) => {}
                (true, _) => turn_to(&mut next, InstanceState::Stopping, ""),
            }
        }
        _ => {}
    }
    next
}

/// The specification is another: what the node has is replaced; it is placed
/// anew when it asks for something else of its place.
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
            true => next.leave_node(),
            false => next.node = None,
        }
        next.address = None;
        let state = match next.wanted {
            Wanted::Running => InstanceState::Scheduling,
            Wanted::Stopped | Wanted::Gone => InstanceState::Stopped,
        };
        turn_to(next, state, &format!("replaced: {why}"));
    } else if next.wanted == Wanted::Running {
        turn_to(next, InstanceState::Starting, &format!("replaced: {why}"));
    }
}

fn start(next: &mut Instance) {
    use InstanceState::{Crashed, Failed, Stopped, Stopping, Terminated};
    let rests = next.wanted == Wanted::Stopped;
    next.wanted = Wanted::Running;
    if rests || matches!(next.state, Crashed | Failed | Terminated) {
        next.refusals.clear();
        next.starts += 1;
        match next.node {
            None => turn_to(next, InstanceState::Scheduling, ""),
            Some(_)
                if matches!(
                    next.state,
                    Stopped | Stopping | Crashed | Failed | Terminated
                ) =>
            {
                turn_to(next, InstanceState::Starting, "");
            }
            Some(_) => {}
        }
    }
}

/// Another state, now.
pub(crate) fn turn_to(instance: &mut Instance, state: InstanceState, description: &str) {
    instance.state = state;
    description.clone_into(&mut instance.description);
    instance.limited_description = None;
    instance.changed_at_ms = now_ms();
}

/// Why something is so: in full, and for callers limited to projects, without
/// nodes and instances of others.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    pub(crate) full: String,
    pub(crate) limited: String,
}

/// The same with a description that not every caller is shown in full.
pub(crate) fn turn_to_because(instance: &mut Instance, state: InstanceState, why: &Why) {
    turn_to(instance, state, &why.full);
    instance.limited_description = Some(why.limited.clone());
}

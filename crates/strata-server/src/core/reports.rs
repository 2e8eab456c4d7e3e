//! What nodes tell of instances, and what follows from it. The rule is a pure
//! function from the record and the report to the next record.

use std::net::Ipv4Addr;
use std::sync::Arc;

use strata_types::instance::{InstanceId, InstanceState};
use strata_types::pod::{PodState, RestartPolicy};
use strata_types::{Error, Result};

use super::Core;
use super::commit::{As, Verdict};
use super::record::{Instance, Wanted};
use super::tables::Kept;
use super::update::turn_to;

/// So many nodes that refused an instance are remembered.
const MOST_REFUSALS: usize = 64;

/// How an instance is on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) id: InstanceId,
    /// Of the assignment it is of; none when whoever reports knows none.
    pub(crate) generation: Option<u64>,
    pub(crate) told: Told,
    pub(crate) reason: String,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) restarts: Option<u32>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) healthy: Option<bool>,
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// How its pod or virtual machine is.
    Pod(PodState),
    /// How it is, by whoever knows only the words of the published APIs.
    State(InstanceState),
    /// The node has nothing of it.
    Gone,
}

impl Core {
    /// A node tells of one of its instances. Of others' it is refused.
    pub(crate) async fn report(&self, node: &str, report: &Report) -> Result<()> {
        self.change_instance(&report.id, |now| {
            if now.node.as_deref() != Some(node) {
                return Ok(Verdict::Keep);
            }
            Ok(follow(now, report))
        })
        .await
        .map(drop)
    }

    /// A node will not have an instance: it is placed elsewhere.
    pub(crate) async fn refuse(
        &self,
        node: &str,
        id: &InstanceId,
        generation: u64,
        why: &str,
    ) -> Result<()> {
        self.change_instance(id, |now| {
            if now.node.as_deref() != Some(node) || now.generation != generation {
                return Ok(Verdict::Keep);
            }
            if now.wanted == Wanted::Gone {
                return Ok(Verdict::Delete);
            }
            let mut next = now.record.clone();
            if next.refusals.len() >= MOST_REFUSALS {
                next.refusals.clear();
            }
            next.refusals.insert(node.to_owned(), shorten(why));
            displace(&mut next, &format!("{node} refused it: {}", shorten(why)));
            Ok(Verdict::put(next))
        })
        .await
        .map(drop)
    }

    /// The node of an instance is gone: it is placed elsewhere, unless it may
    /// not be started again.
    pub(crate) async fn move_off(&self, node: &str, id: &InstanceId, why: &str) -> Result<()> {
        self.change_instance_as(As::Leader, id, |now| {
            if now.node.as_deref() != Some(node) {
                return Ok(Verdict::Keep);
            }
            if now.wanted == Wanted::Gone {
                return Ok(Verdict::Delete);
            }
            Ok(Verdict::put(uproot(now, why)))
        })
        .await
        .map(drop)
    }

    /// An instance of the caller, for whoever speaks only of its own.
    pub(crate) fn own_instance(&self, node: &str, id: &str) -> Result<Arc<Kept<Instance>>> {
        let found = self.tables().instances.get(id).cloned();
        found
            .filter(|found| found.node.as_deref() == Some(node))
            .ok_or_else(|| Error::not_found(format!("{node} has no instance {id}")))
    }
}

/// Without its node. It wants another if it is to run and may be started
/// again: what has ended by itself is not begun anew, and what runs once has
/// run.
pub(crate) fn uproot(now: &Instance, why: &str) -> Instance {
    let mut next = now.clone();
    let once = next.spec.restart == RestartPolicy::Never;
    displace(&mut next, why);
    match now.state {
        InstanceState::Terminated => {
            next.wanted = Wanted::Stopped;
            turn_to(&mut next, now.state, &now.description);
        }
        InstanceState::Crashed if once => {
            next.wanted = Wanted::Stopped;
            turn_to(&mut next, now.state, &now.description);
        }
        InstanceState::Starting | InstanceState::Running if once => {
            next.wanted = Wanted::Stopped;
            turn_to(&mut next, InstanceState::Failed, why);
        }
        _ if now.wanted == Wanted::Stopped => {
            turn_to(&mut next, InstanceState::Stopped, why);
        }
        _ => {}
    }
    next
}

/// Off its node, and in want of another.
pub(crate) fn displace(instance: &mut Instance, why: &str) {
    instance.node = None;
    instance.address = None;
    instance.healthy = None;
    turn_to(instance, InstanceState::Scheduling, why);
}

/// What follows from a report.
fn follow(now: &Instance, report: &Report) -> Verdict<Instance> {
    if report.told == Told::Gone {
        return gone(now, report);
    }
    let outdated = report.generation.is_some_and(|of| of != now.generation);
    if outdated || now.wanted == Wanted::Gone {
        return Verdict::Keep;
    }
    let mut next = now.clone();
    next.address = report.address.or(next.address);
    next.restarts = report.restarts.unwrap_or(next.restarts);
    next.exit_code = report.exit_code.or(next.exit_code);
    next.healthy = report.healthy;
    let reason = shorten(&report.reason);
    let (state, description) = match report.told {
        // Where there is no word for a crash, the description says it.
        Told::State(InstanceState::Crashed) if !reason.starts_with("crashed") => {
            let how = if reason.is_empty() {
                "it ended"
            } else {
                &reason
            };
            (InstanceState::Crashed, format!("crashed: {how}"))
        }
        Told::State(state) => (state, reason),
        Told::Pod(state) => words(state, now, report, reason),
        Told::Gone => return Verdict::Keep,
    };
    if state == InstanceState::Running {
        next.refusals.clear();
    }
    if (next.state, &next.description) != (state, &description) {
        turn_to(&mut next, state, &description);
    }
    match next == *now {
        true => Verdict::Keep,
        false => Verdict::put(next),
    }
}

fn gone(now: &Instance, report: &Report) -> Verdict<Instance> {
    if now.wanted == Wanted::Gone {
        return Verdict::Delete;
    }
    // A node that follows its assignments has it, or will: this is of one that
    // was taken from it before it was given this one. Believed, it would be
    // placed again, taken away again, told of again, and so on for ever.
    if report.generation.is_some() {
        return Verdict::Keep;
    }
    let mut next = now.clone();
    displace(&mut next, "it is gone from its node");
    if next.wanted == Wanted::Stopped {
        turn_to(&mut next, InstanceState::Stopped, "");
    }
    Verdict::put(next)
}

/// The state of an instance whose pod is in this state.
fn words(
    state: PodState,
    now: &Instance,
    report: &Report,
    reason: String,
) -> (InstanceState, String) {
    let crashed = || {
        let how = match (report.exit_code, reason.as_str()) {
            (_, why) if !why.is_empty() => why.to_owned(),
            (Some(code), _) => format!("exit {code}"),
            (None, _) => "it ended".to_owned(),
        };
        (InstanceState::Crashed, format!("crashed: {how}"))
    };
    // What was on its way when somebody wanted something else is not told on:
    // it would look as if the wish had been taken back.
    let asked = || (now.state, now.description.clone());
    match (state, now.wanted, now.state) {
        (PodState::Starting | PodState::Running, Wanted::Stopped, InstanceState::Stopping)
        | (
            PodState::Stopping | PodState::Stopped,
            Wanted::Running,
            InstanceState::Starting | InstanceState::Scheduled,
        ) => return asked(),
        _ => {}
    }
    match state {
        PodState::Created if now.wanted == Wanted::Stopped => (InstanceState::Stopped, reason),
        PodState::Created => (InstanceState::Scheduled, reason),
        PodState::Starting => (InstanceState::Starting, reason),
        PodState::Running => (InstanceState::Running, reason),
        PodState::Stopping => (InstanceState::Stopping, reason),
        PodState::Stopped => (InstanceState::Stopped, reason),
        PodState::Waiting => crashed(),
        PodState::Exited if report.exit_code == Some(0) => {
            (InstanceState::Terminated, "exit 0".to_owned())
        }
        PodState::Exited => crashed(),
        PodState::Failed if now.wanted == Wanted::Stopped => (InstanceState::Stopped, reason),
        PodState::Failed => (InstanceState::Failed, reason),
        PodState::Destroying => asked(),
    }
}

/// Texts of nodes are kept in records: no longer than anybody reads.
fn shorten(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(1024).collect()
}

#[cfg(test)]
mod tests;

//! How a cluster stands, from what was seen of it.
//!
//! ```text
//! it is being deleted                          STOPPING
//! it is being built                            PROVISIONING
//! it was not observed to answer yet            RECONCILING (**)
//! its API does not answer                      ERROR (*)
//! it is being changed                          RECONCILING
//! something is not as specified                DEGRADED
//! otherwise                                    RUNNING
//! ```
//!
//! (*) While a control plane of one machine is upgraded, or any is restored to
//! a snapshot, the API goes away for a moment because it must: RECONCILING.
//!
//! (**) A server that has just started knows only records. The last observation
//! is not among them on purpose: a cluster that ran when the power failed may
//! not run now, and a client that waits for it would read RUNNING. So until the
//! first observation the cluster is reported as under way, which is true of the
//! observation, and the client goes on waiting.

mod outage_history;
mod problems;
mod remediation;

use std::collections::BTreeSet;

use strata_types::cluster::{ClusterRole, ClusterSpec, ClusterStatus, KubernetesVersion, Member};

use crate::Observed;
pub use outage_history::{OutageHistory, RemediationDelays};
pub use remediation::{FailedMember, failed_members};

/// What is being done to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work<'a> {
    Idle,
    /// It is being built.
    Creating,
    /// Its machines are being changed: `pool web from 1 to 3`.
    Changing(&'a str),
    Upgrading(KubernetesVersion),
    /// It is being restored to a snapshot.
    Restoring(&'a str),
    /// It is being deleted.
    Deleting,
}

/// What is known of a cluster without observing it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its name, for hints.
    pub name: &'a str,
    pub spec: &'a ClusterSpec,
    /// What was taken for it.
    pub members: &'a [Member],
    /// What is being done.
    pub work: Work<'a>,
    /// Why the last operation stopped half-way, where it did.
    pub stopped: Option<&'a str>,
    /// The machines that died and are not replaced, since none is free for it.
    pub unreplaced: &'a [String],
    /// The machines whose own nodes do not answer now. Kubernetes takes longer
    /// to notice.
    pub lost: &'a BTreeSet<String>,
}

/// How it stands, and what is the matter and what to do about it. `observed` is
/// none before the first observation.
pub fn status(
    facts: &Facts<'_>,
    seen: Option<&Observed>,
    outage_history: &OutageHistory,
    max_wait: &RemediationDelays,
    now_ms: i64,
) -> (ClusterStatus, String) {
    match facts.work {
        Work::Deleting => return (ClusterStatus::Stopping, with(facts, "it is being deleted")),
        Work::Creating => {
            return (
                ClusterStatus::Provisioning,
                with(facts, "it is being built"),
            );
        }
        Work::Idle | Work::Changing(_) | Work::Upgrading(_) | Work::Restoring(_) => {}
    }
    let Some(seen) = seen else {
        let unknown = "this server has just begun and has not seen it answer yet";
        let message = match under_way(facts) {
            Some(what) => format!("{what}; {unknown}"),
            None => unknown.into(),
        };
        return (ClusterStatus::Reconciling, with(facts, &message));
    };
    if !seen.serves {
        return match pause(facts) {
            Some(message) => (ClusterStatus::Reconciling, message),
            None => (ClusterStatus::Error, problems::silence(facts, seen)),
        };
    }
    let view = problems::View {
        facts,
        seen,
        outage_history,
        max_wait,
        now_ms,
    };
    let found = problems::find(&view);
    match under_way(facts) {
        None if found.is_empty() => (ClusterStatus::Running, String::new()),
        None => (ClusterStatus::Degraded, problems::describe(found)),
        Some(what) if found.is_empty() => (ClusterStatus::Reconciling, what),
        Some(what) => {
            let message = format!("{what}; {}", problems::describe(found));
            (ClusterStatus::Reconciling, message)
        }
    }
}

/// What is being done to a cluster that is there, for people.
fn under_way(facts: &Facts<'_>) -> Option<String> {
    match facts.work {
        Work::Changing(what) => Some(format!("it is being changed: {what}")),
        Work::Upgrading(to) => Some(format!("it is being upgraded to {to}")),
        Work::Restoring(snapshot) => {
            Some(format!("it is being restored to the snapshot {snapshot}"))
        }
        Work::Idle | Work::Creating | Work::Deleting => None,
    }
}

/// What is done, and why it stopped before.
fn with(facts: &Facts<'_>, what: &str) -> String {
    match facts.stopped {
        Some(why) => format!("{what}; {}", problems::cut(why)),
        None => what.into(),
    }
}

/// Why the API may be away for a moment, where it may.
fn pause(facts: &Facts<'_>) -> Option<String> {
    let controls = facts.members.iter();
    let controls = controls.filter(|member| member.role == ClusterRole::ControlPlane);
    match facts.work {
        Work::Upgrading(to) if controls.count() == 1 => Some(format!(
            "it is being upgraded to {to}; its API is away while its only control-plane machine is"
        )),
        Work::Restoring(snapshot) => Some(format!(
            "it is being restored to the snapshot {snapshot}; its API is unavailable meanwhile"
        )),
        _ => None,
    }
}

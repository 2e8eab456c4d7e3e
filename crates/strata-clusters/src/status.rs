//! How a cluster stands, from what was seen of it.
//!
//! ```text
//! it is being deleted                          STOPPING
//! it is being built                            PROVISIONING
//! nobody has looked yet                        UNSPECIFIED
//! its API does not answer                      ERROR (*)
//! it is being changed                          RECONCILING
//! something is not as asked                    DEGRADED
//! otherwise                                    RUNNING
//! ```
//!
//! (*) While a control plane of one machine is upgraded, or any is put back to
//! a snapshot, the API goes away for a moment because it must: RECONCILING.

mod heal;
mod memory;
mod problems;

use strata_types::cluster::{ClusterRole, ClusterSpec, ClusterStatus, KubernetesVersion, Member};

use crate::Observed;
pub use heal::{Heal, heal};
pub use memory::{Memory, Patience};

/// What is being done to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work<'a> {
    /// Nothing.
    Idle,
    /// It is being built.
    Creating,
    /// Its machines are being changed: `pool web from 1 to 3`.
    Changing(&'a str),
    /// Its version is.
    Upgrading(KubernetesVersion),
    /// It is being put back to a snapshot.
    Restoring(&'a str),
    /// It is being deleted.
    Deleting,
}

/// What is known of a cluster without looking at it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its name, for hints.
    pub name: &'a str,
    /// What is asked of it.
    pub spec: &'a ClusterSpec,
    /// What was taken for it.
    pub members: &'a [Member],
    /// What is being done.
    pub work: Work<'a>,
    /// Why the last operation stopped half-way, where it did.
    pub stopped: Option<&'a str>,
    /// The machines that died and are not replaced, since none is free for it.
    pub unreplaced: &'a [String],
}

/// How it stands, and what is the matter and what to do about it. `seen` is
/// none before anybody looked.
pub fn status(
    facts: &Facts<'_>,
    seen: Option<&Observed>,
    memory: &Memory,
    patience: &Patience,
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
        let message = with(facts, "nobody has looked at it yet");
        return (ClusterStatus::Unspecified, message);
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
        memory,
        patience,
        now_ms,
    };
    let found = problems::find(&view);
    let what = match facts.work {
        Work::Changing(what) => format!("it is being changed: {what}"),
        Work::Upgrading(to) => format!("it is being upgraded to {to}"),
        Work::Restoring(snapshot) => format!("it is being put back to the snapshot {snapshot}"),
        Work::Idle | Work::Creating | Work::Deleting if found.is_empty() => {
            return (ClusterStatus::Running, String::new());
        }
        Work::Idle | Work::Creating | Work::Deleting => {
            return (ClusterStatus::Degraded, problems::tell(found));
        }
    };
    let message = match found.is_empty() {
        true => what,
        false => format!("{what}; {}", problems::tell(found)),
    };
    (ClusterStatus::Reconciling, message)
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
            "it is being put back to the snapshot {snapshot}; its API is away meanwhile"
        )),
        _ => None,
    }
}

//! Nodes that use the published APIs alone: they read their instances by REST
//! and report them by `SchedulerService`. What a node of ours does by itself is
//! done for them here: restarts by the policy, and an end of waiting for a node
//! that takes nothing.

use std::time::Duration;

use strata_types::BackoffPolicy;
use strata_types::instance::{InstanceId, InstanceState};
use strata_types::pod::RestartPolicy;

use crate::core::{Core, DesiredState, Instance, Node, NodeCondition, Refusal, Versioned};

/// An instance that was assigned is taken within this, or goes elsewhere.
const TAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// A node has read its instances within this, or does not read them.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What is due for an instance of such a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// Its node did not take it.
    Refusal,
    /// Its node neither stops nor destroys it, and does not read that it should.
    Release,
    /// It has ended, and its restart policy starts it again.
    Restart,
}

/// Observes one node and its instances.
pub(super) async fn reconcile(core: &Core, node: &Node) {
    if node.follows || node.condition != NodeCondition::Ready {
        return;
    }
    let unread = core.live().unread_for(&node.name);
    let reads = unread.is_some_and(|unread| unread < READ_TIMEOUT);
    for one in core.instances_of_node(&node.name) {
        let acted = match due(&one, reads, crate::core::now_ms()) {
            Due::Nothing => continue,
            Due::Refusal => refuse(core, &node.name, &one).await,
            Due::Release => core.release_instance(&node.name, &one.id).await,
            Due::Restart => core.restart_instance(&node.name, &one.id).await,
        };
        if let Err(error) = acted {
            let (node, instance) = (&node.name, &one.id);
            tracing::warn!(node, %instance, %error, "instance of a status-only node not changed");
        }
    }
}

async fn refuse(core: &Core, node: &str, one: &Versioned<Instance>) -> strata_types::Result<()> {
    let seconds = TAKE_TIMEOUT.as_secs();
    let why = format!("it was not started within {seconds} s, nor was anything reported of it");
    let id: &InstanceId = &one.id;
    tracing::warn!(node, instance = %id, "node did not take its instance in time");
    core.set_ignores_instances(node, true).await?;
    let refusal = Refusal {
        id,
        generation: one.generation,
        epoch: one.epoch,
        why: &why,
    };
    core.refuse(node, &refusal).await
}

fn due(one: &Instance, reads: bool, now_ms: i64) -> Due {
    let age = u64::try_from(now_ms.saturating_sub(one.changed_at_ms)).unwrap_or(0);
    let age = Duration::from_millis(age);
    let restart = one.spec.restart;
    match (one.desired_state, one.state) {
        (DesiredState::Running, InstanceState::Scheduled) if age >= TAKE_TIMEOUT => Due::Refusal,
        (DesiredState::Running, InstanceState::Crashed | InstanceState::Failed)
            if restart != RestartPolicy::Never && age >= wait(one.restarts) =>
        {
            Due::Restart
        }
        (DesiredState::Running, InstanceState::Terminated)
            if restart == RestartPolicy::Always && age >= wait(one.restarts) =>
        {
            Due::Restart
        }
        (DesiredState::Stopped, InstanceState::Stopping) | (DesiredState::Gone, _)
            if !reads && age >= TAKE_TIMEOUT + one.spec.stop_grace() =>
        {
            Due::Release
        }
        _ => Due::Nothing,
    }
}

/// How long one that was started again so often waits.
fn wait(restarts: u32) -> Duration {
    let doubled = 1u32.checked_shl(restarts).unwrap_or(u32::MAX);
    let wait = BackoffPolicy::UNITS.first.saturating_mul(doubled);
    wait.min(BackoffPolicy::UNITS.longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(desired_state: &str, state: &str, restart: &str) -> Instance {
        let text = format!(
            r#"{{"id": "i1", "name": "web", "project": "default", "wanted": "{desired_state}",
            "spec": {{"uri": "x", "restart": "{restart}"}}, "node": "n1",
            "generation": 1, "state": "{state}", "createdAtMs": 0, "changedAtMs": 0}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn untaken_instance_goes_elsewhere_after_half_a_minute() {
        let one = instance("running", "SCHEDULED", "on-failure");
        assert_eq!(due(&one, true, 29_999), Due::Nothing);
        assert_eq!(due(&one, true, 30_000), Due::Refusal);
        let taken = instance("running", "STARTING", "on-failure");
        assert_eq!(due(&taken, true, 1_000_000), Due::Nothing);
    }

    #[test]
    fn ended_instance_is_restarted_by_its_policy_with_doubling_waits() {
        for (state, restart, expected) in [
            ("CRASHED", "on-failure", Due::Restart),
            ("CRASHED", "always", Due::Restart),
            ("CRASHED", "never", Due::Nothing),
            ("FAILED", "on-failure", Due::Restart),
            ("FAILED", "never", Due::Nothing),
            ("TERMINATED", "always", Due::Restart),
            ("TERMINATED", "on-failure", Due::Nothing),
        ] {
            let one = instance("running", state, restart);
            assert_eq!(due(&one, true, 1000), expected, "{state} {restart}");
            assert_eq!(due(&one, true, 999), Due::Nothing, "{state} {restart}");
        }
        let waits = [0, 1, 4, 20, 40].map(|restarts| wait(restarts).as_secs());
        assert_eq!(waits, [1, 2, 16, 300, 300]);
    }

    #[test]
    fn node_that_does_not_read_delays_no_instance() {
        let destroying = instance("gone", "DESTROYING", "on-failure");
        assert_eq!(due(&destroying, true, 1_000_000), Due::Nothing);
        assert_eq!(due(&destroying, false, 39_999), Due::Nothing);
        assert_eq!(due(&destroying, false, 40_000), Due::Release);
        let stopping = instance("stopped", "STOPPING", "on-failure");
        assert_eq!(due(&stopping, false, 40_000), Due::Release);
        let stopped = instance("stopped", "STOPPED", "on-failure");
        assert_eq!(due(&stopped, false, 1_000_000), Due::Nothing);
    }
}

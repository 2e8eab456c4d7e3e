//! Waits until an instance reaches a goal: each change of state is printed, and
//! Ctrl-C detaches.

use std::time::Duration;

use strata_api::rest::{Instance, InstanceState};
use strata_client::Error as ClientError;
use strata_client::rest::{Change, Query, RestClient};
use strata_types::ErrorKind;

use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;
use crate::view::status_word;

/// Retries while a server restarts, at [`RETRY_INTERVAL`].
const MAX_RETRIES: u32 = 30;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The state to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Running, or exited successfully.
    Running,
    /// Stopped.
    Stopped,
    /// Deleted.
    Gone,
}

/// Waits until `goal`. Fails with exit code 7 when it cannot be reached.
pub(crate) async fn follow(
    session: &mut Session,
    rest: &RestClient,
    instance: &Instance,
    goal: Goal,
) -> Result {
    let name = &instance.name;
    tokio::select! {
        done = wait(session, rest, instance, goal) => return done,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    session.printer.note(&format!(
        "\nthe server continues with {name}. See `strata instance show {}`",
        full(instance)
    ));
    Err(Failure::silent(Exit::Interrupted))
}

/// Its name on the command line.
pub(crate) fn full(instance: &Instance) -> String {
    match instance.project.as_str() {
        "default" => instance.name.clone(),
        project => format!("{project}/{}", instance.name),
    }
}

async fn wait(session: &mut Session, rest: &RestClient, instance: &Instance, goal: Goal) -> Result {
    let mut told = String::new();
    let mut lost = 0;
    loop {
        match attempt(session, rest, instance, goal, &mut told).await {
            Ok(Some(done)) => return done,
            Ok(None) if lost < MAX_RETRIES => lost += 1,
            Err(ClientError::Lost { .. } | ClientError::Connect { .. }) if lost < MAX_RETRIES => {
                lost += 1;
            }
            Ok(None) => {
                let what = format!("the server does not report the state of {}", instance.name);
                return Err(Failure::new(Exit::CannotConnect, what));
            }
            Err(error) => return Err(unable(format!("follow {}", instance.name))(error)),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Follows one watch stream. `None` if it ended before the goal was reached.
async fn attempt(
    session: &mut Session,
    rest: &RestClient,
    instance: &Instance,
    goal: Goal,
    told: &mut String,
) -> std::result::Result<Option<Result>, ClientError> {
    let mut changes = match rest
        .watch_one::<Instance>(&instance.id, &Query::new())
        .await
    {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
            return Ok(Some(gone(instance, goal)));
        }
        other => other?,
    };
    while let Some(change) = changes.next().await? {
        match change {
            Change::Put(now) => {
                let outcome = outcome(&now, goal);
                let line = step(&now);
                // What went wrong is told once, as the error.
                if *told != line && !matches!(outcome, Some(Err(_))) {
                    session.printer.note(&line);
                    *told = line;
                }
                if outcome.is_some() {
                    return Ok(outcome);
                }
            }
            Change::Delete(_) => return Ok(Some(gone(instance, goal))),
            Change::Synced | Change::Resync => {}
        }
    }
    Ok(None)
}

/// One change of state in one line.
fn step(now: &Instance) -> String {
    let mut line = format!("{}: {}", now.name, status_word(now.status));
    if let (InstanceState::Running, Some(node)) = (now.status, &now.node) {
        line.push_str(&format!(" on {node}"));
        if let Some(ip) = &now.ip {
            line.push_str(&format!(", {ip}"));
        }
    } else if !now.description.is_empty() {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let why: String = now.description.chars().map(plain).collect();
        line.push_str(&format!(" ({why})"));
    }
    line
}

/// Whether the waiting is over, and how it ended.
fn outcome(now: &Instance, goal: Goal) -> Option<Result> {
    use InstanceState::{Crashed, Failed, Running, Stopped, Terminated};
    let name = full(now);
    let bad = |word: &str| {
        let failure = Failure::new(Exit::Failed, format!("{} {word}", now.name));
        match now.description.as_str() {
            "" => failure,
            why => failure.because(why),
        }
    };
    match (goal, now.status) {
        (Goal::Running, Running | Terminated) => Some(Ok(())),
        (Goal::Running, Failed) => {
            let hint =
                format!("`strata instance explain {name}` explains the placement, node by node");
            Some(Err(bad("failed").hint(hint)))
        }
        (Goal::Running, Crashed) => {
            let hint = format!("`strata instance logs {name}` shows its output");
            Some(Err(bad("crashed").hint(hint)))
        }
        (Goal::Stopped, Stopped | Terminated | Failed | Crashed) => Some(Ok(())),
        _ => None,
    }
}

fn gone(instance: &Instance, goal: Goal) -> Result {
    match goal {
        Goal::Gone => Ok(()),
        _ => {
            let what = format!("{} was deleted meanwhile", instance.name);
            Err(Failure::new(Exit::Failed, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: InstanceState, goal: Goal) -> Option<u8> {
        let now = Instance {
            status,
            ..Default::default()
        };
        let outcome = outcome(&now, goal)?;
        Some(outcome.map_or_else(|failure| failure.exit().code(), |()| 0))
    }

    #[test]
    fn waiting_ends_where_nothing_better_can_come() {
        use InstanceState::{Crashed, Failed, Running, Scheduling, Starting, Stopped, Stopping};
        assert_eq!(code(Running, Goal::Running), Some(0));
        assert_eq!(code(Scheduling, Goal::Running), None);
        assert_eq!(code(Starting, Goal::Running), None);
        assert_eq!(code(Failed, Goal::Running), Some(7));
        assert_eq!(code(Crashed, Goal::Running), Some(7));
        assert_eq!(code(Stopping, Goal::Stopped), None);
        assert_eq!(code(Stopped, Goal::Stopped), Some(0));
        for state in InstanceState::ALL {
            assert_eq!(code(state, Goal::Gone), None);
        }
    }
}

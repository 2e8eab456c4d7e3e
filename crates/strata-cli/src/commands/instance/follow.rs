//! Staying with an instance until it is as was asked: each step is told, and
//! Ctrl-C leaves it to the server.

use std::time::Duration;

use strata_api::rest::{Instance, InstanceState};
use strata_client::Error as ClientError;
use strata_client::rest::{Change, Query, RestClient};
use strata_types::ErrorKind;

use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;
use crate::view::status_word;

/// A server that restarts is waited for so long, in steps of [`PAUSE`].
const RETRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It runs, or has run to a good end.
    Running,
    /// It rests.
    Stopped,
    /// It is no more.
    Gone,
}

/// Waits until `goal`. Fails with 7 when it cannot be any more.
pub(crate) async fn follow(
    session: &mut Session,
    rest: &RestClient,
    instance: &Instance,
    goal: Goal,
) -> Result {
    let name = &instance.name;
    tokio::select! {
        done = stay(session, rest, instance, goal) => return done,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    session.printer.note(&format!(
        "\nthe server goes on with {name}. See it with `strata instance show {}`",
        full(instance)
    ));
    Err(Failure::silent(Exit::Interrupted))
}

/// How it is found again on a command line.
pub(crate) fn full(instance: &Instance) -> String {
    match instance.project.as_str() {
        "default" => instance.name.clone(),
        project => format!("{project}/{}", instance.name),
    }
}

async fn stay(session: &mut Session, rest: &RestClient, instance: &Instance, goal: Goal) -> Result {
    let mut told = String::new();
    let mut lost = 0;
    loop {
        match attempt(session, rest, instance, goal, &mut told).await {
            Ok(Some(done)) => return done,
            Ok(None) if lost < RETRIES => lost += 1,
            Err(ClientError::Lost { .. } | ClientError::Connect { .. }) if lost < RETRIES => {
                lost += 1;
            }
            Ok(None) => {
                let what = format!("the server does not tell what becomes of {}", instance.name);
                return Err(Failure::new(Exit::CannotConnect, what));
            }
            Err(error) => return Err(unable(format!("follow {}", instance.name))(error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Follows one stream. Nothing when it ended before the instance was as
/// asked.
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
                let verdict = verdict(&now, goal);
                let line = step(&now);
                // What went wrong is told once, as the error.
                if *told != line && !matches!(verdict, Some(Err(_))) {
                    session.printer.note(&line);
                    *told = line;
                }
                if verdict.is_some() {
                    return Ok(verdict);
                }
            }
            Change::Delete(_) => return Ok(Some(gone(instance, goal))),
            Change::Synced | Change::Resync => {}
        }
    }
    Ok(None)
}

/// One step in one line.
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
fn verdict(now: &Instance, goal: Goal) -> Option<Result> {
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
            let hint = format!("`strata instance explain {name}` says why, node by node");
            Some(Err(bad("failed").hint(hint)))
        }
        (Goal::Running, Crashed) => {
            let hint = format!("`strata instance logs {name}` shows what it wrote");
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
        let verdict = verdict(&now, goal)?;
        Some(verdict.map_or_else(|failure| failure.exit().code(), |()| 0))
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

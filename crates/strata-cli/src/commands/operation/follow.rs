//! Staying with a long action until it has ended: its progress is shown, and
//! Ctrl-C leaves it to the server.

use std::time::Duration;

use strata_api::rest::{Operation, OperationStatus};
use strata_client::Error as ClientError;
use strata_client::rest::{Change, Query, RestClient};
use strata_types::ErrorKind;

use super::progress::Shown;
use super::title;
use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;

/// A server that restarts is waited for so long, in steps of [`PAUSE`].
const RETRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for the end, good or bad, and gives the action as it is then.
pub(crate) async fn follow(
    session: &mut Session,
    rest: &RestClient,
    id: &str,
) -> Result<Operation> {
    tokio::select! {
        ended = stay(session, rest, id) => return ended,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    session.printer.note(&format!(
        "\nthe server goes on. Come back with `strata operation wait {id}`,\n\
         call it off with `strata operation cancel {id}`"
    ));
    Err(Failure::silent(Exit::Interrupted))
}

/// How it ended, for the exit code.
pub(crate) fn verdict(ended: &Operation) -> Result {
    if ended.status != OperationStatus::Failed {
        return Ok(());
    }
    let mut failure = Failure::new(Exit::Failed, format!("{} failed", title(ended)));
    if !ended.message.is_empty() {
        failure = failure.because(&ended.message);
    }
    for left in &ended.leftovers {
        failure = failure.because(format!("not undone: {left}"));
    }
    Err(failure.hint(format!(
        "`strata operation log {}` tells what happened",
        ended.id
    )))
}

async fn stay(session: &mut Session, rest: &RestClient, id: &str) -> Result<Operation> {
    let mut shown = Shown::new(session.redraws());
    let mut lost = 0;
    loop {
        match attempt(session, rest, id, &mut shown).await {
            Ok(Some(ended)) => return Ok(ended),
            // It was long enough for the server: go on where we were.
            Ok(None) if lost < RETRIES => lost += 1,
            Err(error) if lost < RETRIES && passes(&error) => lost += 1,
            Ok(None) => {
                let what = format!("the server does not tell what becomes of {id}");
                return Err(Failure::new(Exit::CannotConnect, what));
            }
            Err(error) => return Err(unable(format!("follow the operation {id}"))(error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A server that comes back goes on with what it had begun.
fn passes(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Lost { .. } | ClientError::Connect { .. }
    ) || error.kind() == Some(ErrorKind::Unavailable)
}

/// Follows one stream. Nothing when it ended before the action did.
async fn attempt(
    session: &mut Session,
    rest: &RestClient,
    id: &str,
    shown: &mut Shown,
) -> std::result::Result<Option<Operation>, ClientError> {
    let mut changes = rest.watch_one::<Operation>(id, &Query::new()).await?;
    while let Some(change) = changes.next().await? {
        if let Change::Put(now) = change {
            let (failed, done) = match now.status {
                OperationStatus::Failed => (true, true),
                OperationStatus::Completed => (false, true),
                OperationStatus::Scheduled | OperationStatus::Active => (false, false),
            };
            // What went wrong is told once, as the error.
            if !failed {
                shown.show(&mut session.printer, &now);
            }
            if done {
                return Ok(Some(now));
            }
        }
    }
    Ok(None)
}

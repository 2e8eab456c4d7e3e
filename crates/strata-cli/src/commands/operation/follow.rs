//! Waits for an operation to complete: its progress is shown, and Ctrl-C
//! detaches.

use std::time::Duration;

use strata_api::rest::{Operation, OperationStatus};
use strata_client::Error as ClientError;
use strata_client::rest::{Change, Query, RestClient};
use strata_types::ErrorKind;

use super::progress::OperationProgress;
use super::title;
use crate::failure::{Exit, Failure, Result, unable};
use crate::session::Session;

/// Retries while a server restarts, at [`RETRY_INTERVAL`].
const MAX_RETRIES: u32 = 30;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for completion or failure, and returns the operation.
pub(crate) async fn follow(
    session: &mut Session,
    rest: &RestClient,
    id: &str,
) -> Result<Operation> {
    tokio::select! {
        ended = wait(session, rest, id) => return ended,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    session.printer.note(&format!(
        "\nthe operation continues on the server. Wait for it with `strata operation wait {id}`,\n\
         cancel it with `strata operation cancel {id}`"
    ));
    Err(Failure::silent(Exit::Interrupted))
}

/// The outcome, for the exit code.
pub(crate) fn outcome(ended: &Operation) -> Result {
    if ended.status != OperationStatus::Failed {
        return Ok(());
    }
    let mut failure = Failure::new(Exit::Failed, format!("{} failed", title(ended)));
    if !ended.message.is_empty() {
        failure = failure.because(&ended.message);
    }
    for left in &ended.leftovers {
        failure = failure.because(format!("not rolled back: {left}"));
    }
    Err(failure.hint(format!("see `strata operation log {}`", ended.id)))
}

async fn wait(session: &mut Session, rest: &RestClient, id: &str) -> Result<Operation> {
    let mut shown = OperationProgress::new(session.redraws());
    let mut lost = 0;
    loop {
        match attempt(session, rest, id, &mut shown).await {
            Ok(Some(ended)) => return Ok(ended),
            // It was long enough for the server: go on where we were.
            Ok(None) if lost < MAX_RETRIES => lost += 1,
            Err(error) if lost < MAX_RETRIES && passes(&error) => lost += 1,
            Ok(None) => {
                let what = format!("the server does not report the state of {id}");
                return Err(Failure::new(Exit::CannotConnect, what));
            }
            Err(error) => return Err(unable(format!("follow the operation {id}"))(error)),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// A restarted server resumes its operations.
fn passes(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Lost { .. } | ClientError::Connect { .. }
    ) || error.kind() == Some(ErrorKind::Unavailable)
}

/// Follows one watch stream. `None` if it ended before the operation.
async fn attempt(
    session: &mut Session,
    rest: &RestClient,
    id: &str,
    shown: &mut OperationProgress,
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

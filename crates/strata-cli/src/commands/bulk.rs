//! Bulk actions: each name is attempted and reported, and the command fails if
//! one of them failed.

use strata_client::NodeClient;
use tonic::Status;

use super::last;
use crate::failure::{Result, cannot};
use crate::session::Session;

/// A bulk action and its labels: `start`, `started`, `pod`.
pub(crate) struct BulkAction {
    pub(crate) verb: &'static str,
    pub(crate) done: &'static str,
    pub(crate) noun: &'static str,
}

impl BulkAction {
    /// Runs the action on each name.
    pub(crate) async fn each<T>(
        &self,
        session: &mut Session,
        node: &NodeClient,
        names: Vec<String>,
        mut call: impl AsyncFnMut(String) -> std::result::Result<T, Status>,
    ) -> Result {
        let Self { verb, noun, .. } = self;
        self.each_with(session, names, async |_, name| {
            let failed = cannot(node, format!("{verb} the {noun} {name}"));
            call(name).await.map_err(failed)
        })
        .await
    }

    /// As [`Self::each`], for calls with their own errors.
    pub(crate) async fn each_with<T>(
        &self,
        session: &mut Session,
        names: Vec<String>,
        mut call: impl AsyncFnMut(&mut Session, String) -> Result<T>,
    ) -> Result {
        let mut failures = Vec::new();
        for name in names {
            match call(session, name.clone()).await {
                Ok(_) => session.printer.note(&format!("{} {name}", self.done)),
                Err(failure) => failures.push(failure),
            }
        }
        last(session, failures)
    }
}

/// Prints for each name what would be done.
pub(crate) async fn preview(
    session: &mut Session,
    names: &[String],
    mut line: impl AsyncFnMut(&str) -> Result<String>,
) -> Result {
    for name in names {
        let line = line(name).await?;
        session.printer.data(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}

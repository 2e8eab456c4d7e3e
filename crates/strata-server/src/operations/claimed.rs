//! What operations have to themselves at present.

use std::collections::HashSet;

use strata_workflow::{Filter, Operations, WorkflowError};

/// The keys claimed by operations that have not ended, or that hold their
/// claims beyond their end.
pub(crate) async fn claimed(operations: &Operations) -> Result<HashSet<String>, WorkflowError> {
    let all = operations.list(&Filter::default()).await?;
    let held = all
        .into_iter()
        .filter(|one| !one.has_ended() || one.holds_claims());
    Ok(held
        .flat_map(|one| one.claims)
        .map(|claim| claim.key)
        .collect())
}

//! `/unreadable-record/`: records that this release cannot read, and keeps as
//! they are.

use axum::extract::State;
use axum::response::IntoResponse as _;
use http::StatusCode;
use strata_api::rest;
use strata_types::Error;

use super::RestState;
use super::answer;
use super::extract::{Asker, Parameters};
use super::refusal::Answer;
use crate::core::{Page, Unreadable};

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset"])?;
    let (limit, offset) = parameters.piece()?;
    let all = state.core.unreadable(&who)?;
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter().map(tell))
}

pub(super) async fn delete(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["key"])?;
    let key = parameters.text("key")?;
    let key = key.ok_or_else(|| Error::invalid("key", "is missing"))?;
    state.core.delete_unreadable(&who, key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn tell(one: Unreadable) -> rest::UnreadableRecord {
    rest::UnreadableRecord {
        key: one.key,
        name: one.name.unwrap_or_default(),
        project: one.project.unwrap_or_default(),
        node: one.node.unwrap_or_default(),
        workload: one.workload.unwrap_or_default(),
        reason: one.why,
    }
}

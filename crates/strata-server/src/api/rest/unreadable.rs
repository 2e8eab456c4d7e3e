//! `/unreadable-record/`: records that this release cannot read, and keeps as
//! they are.

use axum::extract::State;
use axum::response::IntoResponse as _;
use http::StatusCode;
use strata_api::rest;
use strata_identity::policy::ADMIN;
use strata_types::Error;

use super::RestState;
use super::answer;
use super::extract::{Auth, Parameters};
use super::rejection::Answer;
use super::route::{self, Noun};
use crate::core::{Effect, Page, Unreadable, expect_effect};

pub(super) fn routes() -> Noun {
    Noun::new("record", "Stored records that this release cannot read.").routes([
        route::get("/unreadable-record", ADMIN, list)
            .named("listUnreadableRecords", "List unreadable records")
            .about(
                "Records of the store that this release cannot read. They are kept \
                    unchanged.",
            )
            .returns_pages::<rest::UnreadableRecord>(),
        route::delete("/unreadable-record", ADMIN, delete)
            .named("deleteUnreadableRecord", "Delete an unreadable record")
            .about("Deletes one record that this release cannot read.")
            .parameters(&["record key"])
            .may_be_unavailable()
            .returns_no_content(),
    ])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset"])?;
    let (limit, offset) = parameters.pagination()?;
    let all = state.core.unreadable(&principal)?;
    let page = Page::of(all.into_iter(), offset, limit);
    answer::list(page.total, page.items.into_iter().map(render))
}

async fn delete(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["key"])?;
    let key = parameters.text("key")?;
    let key = key.ok_or_else(|| Error::invalid("key", "is missing"))?;
    expect_effect(Effect::deletes(key.into()).answered(204));
    state.core.delete_unreadable(&principal, key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn render(one: Unreadable) -> rest::UnreadableRecord {
    rest::UnreadableRecord {
        key: one.key,
        name: one.name.unwrap_or_default(),
        project: one.project.unwrap_or_default(),
        node: one.node.unwrap_or_default(),
        workload: one.workload.unwrap_or_default(),
        reason: one.why,
    }
}

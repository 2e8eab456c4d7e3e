//! `/secret/`. Values come in here, and none goes out.

use std::sync::Arc;

use axum::extract::State;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use strata_api::rest::{self, NewSecret, SecretPatch};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Thing};
use super::refusal::Answer;
use super::view::moment;
use super::{RestState, json};
use crate::core::{Core, DEFAULT_PROJECT, Kept, Page, Secret};

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "project"])?;
    let (limit, offset) = parameters.piece()?;
    let project = parameters.label("project")?;
    let all = state.core.secrets(&who, project.as_ref());
    let page = Page::of(all.into_iter(), offset, limit);
    let all = page.items.iter().map(|one| tell(&state.core, one));
    answer::list(page.total, all)
}

pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let new: NewSecret = json::parse(&body)?;
    let name = Label::from_field("name", &new.name)?;
    let project = new.project.as_deref().unwrap_or(DEFAULT_PROJECT);
    let project = Label::from_field("project", project)?;
    let value = value(new.value, new.value_base64)?;
    let made = state.core.create_secret(&who, &project, &name, &value);
    let (made, is_new) = made.await?;
    let location = format!("/secret/{name}?project={project}");
    let told = tell(&state.core, &made);
    answer::made(is_new, &location, made.revision, &told)
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["project"])?;
    let project = parameters.label("project")?;
    let found = state.core.secret(&who, project.as_ref(), &name)?;
    answer::one(StatusCode::OK, found.revision, &tell(&state.core, &found))
}

pub(super) async fn update(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.only(&["project"])?;
    let project = parameters.label("project")?;
    let found = state.core.secret(&who, project.as_ref(), &name)?;
    let precondition = conditions.to_change(found.revision)?;
    let patch: SecretPatch = json::parse(&body)?;
    let value = value(patch.value, patch.value_base64)?;
    let core = &state.core;
    let changed = core.update_secret(&who, &found, &value, precondition).await;
    let changed = changed.map_err(|error| conditions.judge(error))?;
    answer::one(StatusCode::OK, changed.revision, &tell(core, &changed))
}

pub(super) async fn delete(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(name): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["project"])?;
    let project = parameters.label("project")?;
    let found = state.core.secret(&who, project.as_ref(), &name)?;
    let precondition = conditions.to_change(found.revision)?;
    let gone = state.core.delete_secret(&who, &found, precondition).await;
    gone.map_err(|error| conditions.judge(error))?;
    Ok(accepted())
}

/// The value of a request, in whichever form it came.
fn value(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(text)) => BASE64_STANDARD
            .decode(text)
            .map_err(|_| Error::invalid("valueBase64", "is not in base64")),
        _ => Err(Error::invalid(
            "value",
            "one of these is to be given: value, valueBase64",
        )),
    }
}

fn tell(core: &Core, secret: &Arc<Kept<Secret>>) -> rest::Secret {
    rest::Secret {
        name: secret.name.to_string(),
        project: secret.project.to_string(),
        bytes: secret.size() as u64,
        version: secret.version,
        updated_by: secret.changed_by.clone(),
        used_by: core.users_of_secret(secret).into_iter().collect(),
        created_at: moment(secret.created_at_ms),
        updated_at: moment(secret.changed_at_ms),
    }
}

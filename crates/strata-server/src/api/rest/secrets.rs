//! `/secret/`. Values come in here, and none goes out.

use std::sync::Arc;

use axum::extract::State;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use serde_json::json;
use strata_api::rest::{self, NewSecret, SecretPatch};
use strata_identity::policy::{OPERATE, READ};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Auth, Json, Parameters, ResourceId};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::view::timestamp;
use super::{RestState, json};
use crate::core::{Core, DEFAULT_PROJECT, Effect, Page, Secret, Versioned, expect_effect, keys};

pub(super) fn routes() -> Noun {
    Noun::new(
        "secret",
        "Values that are passed to instances and never returned.",
    )
    .id("Name, or `PROJECT/NAME` with the slash encoded as `%2F`.")
    .in_projects()
    .routes([
        route::get("/secret", READ, list)
            .named("listSecrets", "List secrets")
            .about("Names and versions of secrets, without their values.")
            .parameters(&["project"])
            .returns_pages::<rest::Secret>(),
        route::put("/secret", OPERATE, create)
            .named("createSecret", "Create a secret")
            .about("The value is stored encrypted and never returned.")
            .body::<NewSecret>()
            .example(json!({ "name": "db-password", "value": "correct horse battery staple" }))
            .creates::<rest::Secret>(),
        route::get("/secret/{id}", READ, show)
            .named("getSecret", "Get a secret")
            .about("Name and version of one secret, without its value.")
            .parameters(&["project"])
            .returns::<rest::Secret>(),
        route::patch("/secret/{id}", OPERATE, update)
            .named("updateSecret", "Replace the value of a secret")
            .about("Instances that are started from now on receive the new value.")
            .parameters(&["project"])
            .body::<SecretPatch>()
            .updates::<rest::Secret>(),
        route::delete("/secret/{id}", OPERATE, delete)
            .named("deleteSecret", "Delete a secret")
            .about("Only a secret that no instance or workload refers to can be deleted.")
            .parameters(&["project"])
            .deletes_versioned(),
    ])
}

async fn list(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "project"])?;
    let (limit, offset) = parameters.pagination()?;
    let project = parameters.label("project")?;
    let all = state.core.secrets().list(&principal, project.as_ref());
    let page = Page::of(all.into_iter(), offset, limit);
    let all = page.items.iter().map(|one| render(&state.core, one));
    answer::list(page.total, all)
}

async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let new: NewSecret = json::parse(&body)?;
    let name = Label::from_field("name", &new.name)?;
    let project = new.project.as_deref().unwrap_or(DEFAULT_PROJECT);
    let project = Label::from_field("project", project)?;
    let value = value(new.value, new.value_base64)?;
    let made = state
        .core
        .secrets()
        .create(&principal, &project, &name, &value);
    let (made, is_new) = made.await?;
    let location = format!("/secret/{name}?project={project}");
    let told = render(&state.core, &made);
    answer::made(is_new, &location, made.revision, &told)
}

async fn show(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let project = parameters.label("project")?;
    let found = state
        .core
        .secrets()
        .find(&principal, project.as_ref(), &name)?;
    answer::one(StatusCode::OK, found.revision, &render(&state.core, &found))
}

async fn update(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let project = parameters.label("project")?;
    let found = state
        .core
        .secrets()
        .find(&principal, project.as_ref(), &name)?;
    let precondition = conditions.to_change(found.revision)?;
    let patch: SecretPatch = json::parse(&body)?;
    let value = value(patch.value, patch.value_base64)?;
    expect_effect(Effect::updates(keys::secret(&found.project, &found.name)));
    let core = &state.core;
    let changed = core
        .secrets()
        .update(&principal, &found, &value, precondition)
        .await;
    let changed = changed.map_err(|error| conditions.reject(error))?;
    answer::one(StatusCode::OK, changed.revision, &render(core, &changed))
}

async fn delete(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(name): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["project"])?;
    let project = parameters.label("project")?;
    let found = state
        .core
        .secrets()
        .find(&principal, project.as_ref(), &name)?;
    let precondition = conditions.to_change(found.revision)?;
    expect_effect(Effect::deletes(keys::secret(&found.project, &found.name)));
    let gone = state
        .core
        .secrets()
        .delete(&principal, &found, precondition)
        .await;
    gone.map_err(|error| conditions.reject(error))?;
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

fn render(core: &Core, secret: &Arc<Versioned<Secret>>) -> rest::Secret {
    rest::Secret {
        name: secret.name.to_string(),
        project: secret.project.to_string(),
        bytes: secret.size() as u64,
        version: secret.version,
        updated_by: secret.changed_by.clone(),
        used_by: core.secrets().users(secret),
        created_at: timestamp(secret.created_at_ms),
        updated_at: timestamp(secret.changed_at_ms),
    }
}

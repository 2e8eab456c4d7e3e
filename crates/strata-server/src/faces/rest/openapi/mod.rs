//! The REST API described: OpenAPI 3.1. Schemas are generated from the types
//! that go over the wire; what can be done with each path stands in
//! `paths.rs`. The whole is checked in as `docs/openapi.json`, and a test
//! fails when that is not what is served, or when a route is left out.

mod audit;
mod ca;
mod certificates;
mod clusters;
mod estate;
mod estate_schemas;
mod operation;
mod parameters;
mod paths;
mod schemas;
mod secrets;

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::extract::Parameters;
use super::refusal::Answer;

/// The description of the REST API.
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Strata",
            "description": "Instances, workloads, nodes, projects and events of a Strata control plane, \
                its machines, its storage pool, its backups and its clusters. \
                Every path works with and without a slash at the end. \
                Errors are `application/problem+json` with a `code` that stays the same.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "version": env!("CARGO_PKG_VERSION"),
        },
        "security": [{ "token": [] }, { "certificate": [] }],
        "tags": paths::tags(),
        "paths": paths::all(),
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "certificate": { "type": "mutualTLS" },
            },
        },
    })
}

pub(super) async fn serve(parameters: Parameters) -> Answer {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    parameters.only(&[])?;
    let text = TEXT.get_or_init(|| document().to_string().into()).clone();
    Ok(told(text))
}

fn told(text: Bytes) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind)], text).into_response()
}

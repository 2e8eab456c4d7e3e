//! The OpenAPI 3.1 document of the REST API. Operations follow from the
//! declarations of the routes, schemas from the types that are sent over the
//! wire. The document is checked in as `docs/openapi.json`; a test fails when
//! that differs from what is served.

mod cluster_schemas;
mod infrastructure_schemas;
mod operation;
mod parameters;
mod schemas;

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use super::extract::Parameters;
use super::rejection::Answer;
use super::route::Noun;
pub(super) use operation::{Content, Headers, Schema};

/// The OpenAPI document of the REST API.
pub fn document() -> Value {
    let nouns = super::nouns();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Strata",
            "description": "Instances, workloads, nodes, projects and events of a Strata control plane, \
                its machines, its storage pool, its backups and its clusters. \
                Every path is served with and without a trailing slash. \
                Errors are `application/problem+json` with a stable `code`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "version": env!("CARGO_PKG_VERSION"),
        },
        "servers": [{ "url": "/", "description": "The server that serves this document." }],
        "security": [{ "token": [] }, { "certificate": [] }],
        "tags": nouns.iter().map(tag).collect::<Vec<_>>(),
        "paths": paths(&nouns),
        "components": {
            "schemas": schemas::all(&nouns),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer",
                    "description": "An API token." },
                "certificate": { "type": "mutualTLS",
                    "description": "A client certificate issued by the CA of the server." },
            },
        },
    })
}

fn tag(noun: &Noun) -> Value {
    json!({ "name": noun.tag, "description": noun.description })
}

fn paths(nouns: &[Noun]) -> Value {
    let mut paths = Map::new();
    for noun in nouns {
        for route in &noun.routes {
            let rule = &route.rule;
            let path = paths.entry(rule.path).or_insert_with(|| json!({}));
            path[rule.method.to_ascii_lowercase()] = operation::build(noun.tag, route);
        }
    }
    Value::Object(paths)
}

pub(super) async fn serve(parameters: Parameters) -> Answer {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    parameters.deny_unknown(&[])?;
    let text = TEXT.get_or_init(|| document().to_string().into()).clone();
    Ok(json_response(text))
}

fn json_response(text: Bytes) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind)], text).into_response()
}

//! The HTTP routes that every daemon has.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use strata_identity::policy::{ANYONE, NAMED, READ};
use strata_transport::problem;
use strata_types::Error;

use super::rest::route::{self, Route};
use crate::Metrics;

/// The HTTP routes that every daemon has.
pub(super) fn routes() -> [Route<Arc<Metrics>>; 3] {
    [
        route::get("/healthz", ANYONE, async || "ok\n"),
        route::get("/version", NAMED, version).in_projects(),
        route::get("/metrics", READ, render),
    ]
}

async fn version(State(metrics): State<Arc<Metrics>>) -> Response {
    Json(metrics.build()).into_response()
}

async fn render(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.render() {
        Ok(text) => ([(CONTENT_TYPE, Metrics::MEDIA_TYPE)], text).into_response(),
        Err(error) => problem(&Error::internal(error.to_string())),
    }
}

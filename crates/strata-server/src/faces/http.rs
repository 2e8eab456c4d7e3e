//! The HTTP routes that every daemon has.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::CONTENT_TYPE;
use strata_transport::problem;
use strata_types::Error;

use crate::Metrics;

pub(super) fn routes(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/version", get(version))
        .route("/metrics", get(render))
        .with_state(metrics)
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

//! Everything that is served on one port: gRPC services with health and
//! reflection, and HTTP routes beside them. The control plane and a node that
//! runs alone are both put together here.

pub mod grpc;
mod http;
pub mod rest;
mod session;

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use strata_identity::policy::{HttpRoute, Policy};
use strata_transport::problem;
use strata_types::Error;
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic_health::server::HealthReporter;
use tonic_health::{ServingStatus, pb::FILE_DESCRIPTOR_SET as HEALTH};
use tower_service::Service;

use crate::Metrics;
use crate::metrics::count;

/// The largest request to health and reflection, which has a name in it.
const MAX_NAME_BYTES: usize = 64 << 10;
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";
const REFLECTION_SERVICES: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Who may call what, of everything that any daemon serves.
pub fn policy() -> Policy {
    static RULES: LazyLock<Vec<HttpRoute>> = LazyLock::new(|| {
        let every_daemon = http::routes().into_iter().map(|route| route.rule);
        every_daemon.chain(rest::rules()).collect()
    });
    Policy::new(&RULES)
}

/// The APIs could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    /// The compiled protos do not fit each other.
    #[error("reflection cannot be set up")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Collects services and routes, and makes one router of them.
pub struct ApiServer {
    services: RoutesBuilder,
    names: Vec<&'static str>,
    routes: axum::Router,
    metrics: Arc<Metrics>,
    health: HealthReporter,
}

impl ApiServer {
    /// Health, reflection, `/healthz`, `/version` and `/metrics`.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            services: RoutesBuilder::default(),
            names: Vec::new(),
            routes: rest::route::router(http::routes()).with_state(metrics.clone()),
            metrics,
            health: HealthReporter::new(),
        }
    }

    /// Adds a gRPC service; reflection and health know it by its name.
    #[must_use]
    pub fn grpc<S>(mut self, service: S) -> Self
    where
        S: Service<::http::Request<tonic::body::Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.services.add_service(service);
        self.names.push(S::NAME);
        self
    }

    /// The build of this server, as the API returns it.
    pub fn build(&self) -> &crate::Build {
        self.metrics.build()
    }

    #[must_use]
    pub fn http(mut self, routes: axum::Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Reports whether services are healthy; for the part of the server that
    /// detects that one is not.
    pub fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// One router for all of it.
    pub async fn router(mut self) -> Result<axum::Router, ApiServerError> {
        for name in &self.names {
            self.health
                .set_service_status(name, ServingStatus::Serving)
                .await;
        }
        let reflection = self.reflection().build_v1()?;
        let reflection_alpha = self.reflection().build_v1alpha()?;
        self.services
            .add_service(reflection.max_decoding_message_size(MAX_NAME_BYTES));
        self.services
            .add_service(reflection_alpha.max_decoding_message_size(MAX_NAME_BYTES));
        let health = tonic_health::server::HealthService::from_health_reporter(self.health);
        let health = tonic_health::pb::health_server::HealthServer::new(health);
        self.services
            .add_service(health.max_decoding_message_size(MAX_NAME_BYTES));
        let count = axum::middleware::from_fn_with_state(self.metrics, count);
        Ok(self
            .services
            .routes()
            .into_axum_router()
            .reset_fallback()
            .merge(self.routes)
            .fallback(nothing_here)
            .layer(count))
    }

    fn reflection(&self) -> tonic_reflection::server::Builder<'static> {
        let mut builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(strata_api::DESCRIPTORS)
            .register_encoded_file_descriptor_set(HEALTH)
            .with_service_name(HEALTH_SERVICE);
        for name in self.names.iter().chain(&REFLECTION_SERVICES) {
            builder = builder.with_service_name(*name);
        }
        builder
    }
}

/// The policy knows the call, and this daemon does not serve it.
async fn nothing_here(request: Request<Body>) -> Response {
    let path = request.uri().path();
    let kind = request.headers().get(::http::header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return tonic::Status::unimplemented(format!("{path} is not served here")).into_http();
    }
    problem(&Error::not_found(format!("there is nothing at {path}")))
}

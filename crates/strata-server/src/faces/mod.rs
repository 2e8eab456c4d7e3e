//! Everything that is served on one port: gRPC services with health and
//! reflection, and HTTP routes beside them. The control plane and a node that
//! runs alone are both put together here.

mod clusters;
mod controller;
mod http;
mod identity;
mod instances;
mod operations;
pub mod rest;
pub mod scheduler;
mod session;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use strata_transport::problem;
use strata_types::Error;
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic_health::server::HealthReporter;
use tonic_health::{ServingStatus, pb::FILE_DESCRIPTOR_SET as HEALTH};
use tower_service::Service;

use crate::Metrics;
use crate::metrics::count;
pub use clusters::ClusterFace;
pub use controller::ControllerFace;
pub use identity::IdentityFace;
pub use instances::InstancesFace;
pub use operations::OperationsFace;

const HEALTH_SERVICE: &str = "grpc.health.v1.Health";
const REFLECTION_SERVICES: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// The faces could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum FacesError {
    /// The compiled protos do not fit each other.
    #[error("reflection cannot be set up")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Collects services and routes, and makes one router of them.
pub struct Faces {
    services: RoutesBuilder,
    names: Vec<&'static str>,
    routes: axum::Router,
    metrics: Arc<Metrics>,
    health: HealthReporter,
}

impl Faces {
    /// Health, reflection, `/healthz`, `/version` and `/metrics`.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            services: RoutesBuilder::default(),
            names: Vec::new(),
            routes: http::routes(metrics.clone()),
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

    /// What was built, as it is told.
    pub fn build(&self) -> &crate::Build {
        self.metrics.build()
    }

    /// Adds HTTP routes.
    #[must_use]
    pub fn http(mut self, routes: axum::Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Tells whether services are well; for whoever knows that one is not.
    pub fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// One router for all of it.
    pub async fn router(mut self) -> Result<axum::Router, FacesError> {
        for name in &self.names {
            self.health
                .set_service_status(name, ServingStatus::Serving)
                .await;
        }
        self.services.add_service(self.reflection().build_v1()?);
        self.services
            .add_service(self.reflection().build_v1alpha()?);
        let health = tonic_health::server::HealthService::from_health_reporter(self.health);
        self.services
            .add_service(tonic_health::pb::health_server::HealthServer::new(health));
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

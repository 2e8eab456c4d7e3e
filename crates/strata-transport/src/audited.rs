//! The layer around the router that records what the auth layer decided: behind
//! the budget, so that a caller over its budget causes no lines, and before the
//! handler, so that a crash leaves a line too many and never one too few. It
//! waits for as much of the body as names the object; the handler is given all
//! of it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tower_service::Service;

use crate::audit::AuditedCall;
use crate::auth::is_grpc;
use crate::prefixed_body::PrefixedBody;

/// A service whose allowed requests are recorded.
#[derive(Clone)]
pub(crate) struct AuditedService<S>(S);

impl<S> AuditedService<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self(inner)
    }
}

impl<S, B> Service<Request<B>> for AuditedService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
    S: Send + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let handled = request.extensions_mut().remove::<Arc<AuditedCall>>();
        let Some(handled) = handled.filter(|handled| handled.is_audited()) else {
            return Box::pin(self.0.call(request.map(Body::new)));
        };
        let grpc = is_grpc(request.headers());
        let (method, path) = (request.method().as_str(), request.uri().path());
        if !handled.reads_body(method, path, grpc) || request.body().is_end_stream() {
            handled.allow(&request, grpc, &[]);
            return Box::pin(self.0.call(request.map(Body::new)));
        }
        // The service that is ready, as a clone of it need not be.
        let next = self.0.clone();
        let mut inner = std::mem::replace(&mut self.0, next);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let begun = PrefixedBody::read(body, grpc).await;
            let request = Request::from_parts(parts, begun);
            handled.allow(&request, grpc, &request.body().looked_at());
            inner.call(request.map(Body::new)).await
        })
    }
}

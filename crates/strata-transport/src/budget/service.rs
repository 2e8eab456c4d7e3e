//! The layer behind the auth layer: takes each request out of its caller's budget,
//! and gives it back when the last byte of the answer is gone.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as HttpBody;
use strata_api::status_from_error;
use strata_identity::Caller;
use strata_types::{Error, ErrorKind};
use tower_service::Service;

use super::body::{Guards, MeteredBody, UnreadBytes};
use super::request::{BODY_TIMEOUT, BodyKind, BodyRefused};
use super::{Admitted, Budgets, CallerKey, OverBudget, RequestSlots, TokenId};
use crate::audit::AuditedCall;
use crate::auth::is_grpc;
use crate::source::Source;
use crate::table::Connection;
use crate::{ShowsValues, problem, problem_as};

/// An answer shorter than this is not counted as unread: it fits into the
/// buffers of its stream.
const SMALL_RESPONSE_BYTES: u64 = 16 << 10;

/// A service whose requests are within budget. One for each connection.
#[derive(Clone)]
pub(crate) struct BudgetService<S> {
    inner: S,
    budgets: Budgets,
    /// None on a Unix socket.
    connection: Option<Arc<Connection>>,
    places: RequestSlots,
}

impl<S> BudgetService<S> {
    pub(crate) fn new(
        inner: S,
        budgets: Budgets,
        connection: Option<Arc<Connection>>,
        places: RequestSlots,
    ) -> Self {
        Self {
            inner,
            budgets,
            connection,
            places,
        }
    }

    /// Takes a request out of its caller's budget.
    fn admit<B>(&self, request: &mut Request<B>) -> Result<Option<Admitted>, OverBudget> {
        let token = request.extensions_mut().remove::<TokenId>();
        let caller = request.extensions().get::<Caller>();
        let connection = self.connection.as_ref();
        let source = connection.map_or(Source::Local, |connection| connection.source());
        let key = CallerKey::of(caller, token, source);
        if let (Some(caller), Some(connection)) = (caller, connection)
            && let Some(limit) = self.budgets.connections_of(caller)
            && connection.is_of(&key, limit).is_err()
        {
            let what = format!("{key} has {limit} connections, and all are in use");
            let retry_after = std::time::Duration::from_secs(1);
            return Err(OverBudget { what, retry_after });
        }
        self.budgets.admit(&key, caller)
    }
}

impl<S, B> Service<Request<B>> for BudgetService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let under_way = self.connection.as_ref().map(Connection::begin);
        let admitted = match self.admit(&mut request) {
            Ok(admitted) => admitted.map(Arc::new),
            Err(over) => {
                let refused = RequestHead::of(&request).refusal(&over);
                return Box::pin(std::future::ready(Ok(refused)));
            }
        };
        let account = admitted
            .as_ref()
            .filter(|admitted| admitted.metered)
            .map(|admitted| admitted.account.clone());
        let repeatable = [Method::GET, Method::HEAD].contains(request.method());
        let head = RequestHead::of(&request);
        let request = request.map(|body| match &account {
            None => Body::new(body),
            Some(_) => Body::new(MeteredBody::new(Body::new(body), account.clone(), None)),
        });
        let places = self.places.clone();
        let kind = BodyKind::of(&request, head.grpc);
        let handled = request.extensions().get::<Arc<AuditedCall>>().cloned();
        if let (Some(admitted), Some(handled)) = (&admitted, &handled) {
            admitted.pay_lines(handled.charge());
        }
        let budgets = self.budgets.clone();
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let place = match places.take().await {
                Ok(place) => place,
                Err(over) => return Ok(head.refusal(&over)),
            };
            if let (Some(admitted), Some(handled)) = (&admitted, &handled)
                && handled.is_audited()
                && let Err(over) = admitted.wait_for_audit().await
            {
                budgets.count_refusal();
                return Ok(head.refusal(&over));
            }
            let (parts, body) = request.into_parts();
            let (body, held) = match &admitted {
                None => (body, None),
                Some(admitted) => match kind.receive(body, admitted.account.held_bytes()).await {
                    Ok(received) => received,
                    Err(refused) => {
                        budgets.count_refusal();
                        return Ok(head.refused_body(&refused));
                    }
                },
            };
            let Ok(mut answer) = inner.call(Request::from_parts(parts, body)).await;
            drop(held);
            if answer.extensions_mut().remove::<ShowsValues>().is_some()
                && let Some(handled) = handled.filter(|handled| handled.is_new_read())
            {
                if let Some(admitted) = &admitted
                    && let Err(over) = admitted.wait_for_audit().await
                {
                    budgets.count_refusal();
                    return Ok(head.refusal(&over));
                }
                handled.record_read();
            }
            within_contract(answer.headers_mut());
            let length = answer.body().size_hint().exact().unwrap_or(0);
            let unread = match &admitted {
                Some(admitted) if length > SMALL_RESPONSE_BYTES => admitted.hold(length),
                _ => Ok(None),
            };
            let unread = match unread {
                Ok(unread) => unread,
                // The request changes nothing: the caller can repeat it.
                Err(over) if repeatable => return Ok(head.refusal(&over)),
                Err(_) => None,
            };
            let guards = Guards {
                _place: place,
                _admitted: admitted,
                _under_way: under_way,
                _unread: unread,
            };
            Ok(answer.map(|body| Body::new(MeteredBody::new(body, account, Some(guards)))))
        })
    }
}

impl Admitted {
    /// Counts a finished answer as unread until the guard is dropped.
    fn hold(self: &Arc<Self>, length: u64) -> Result<Option<UnreadBytes>, OverBudget> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let before = self.account.unread.fetch_add(length, Ordering::Relaxed);
        let unread = UnreadBytes(self.clone(), length);
        // One answer passes always, however large.
        if before > 0 && before.saturating_add(length) > self.unread_limit {
            let what = format!("{before} bytes of responses to this caller are unread");
            let retry_after = std::time::Duration::from_secs(1);
            return Err(OverBudget { what, retry_after });
        }
        Ok(Some(unread))
    }
}

/// What a refusal needs to know of its request.
#[derive(Clone, Copy)]
pub(crate) struct RequestHead {
    grpc: bool,
    version: Version,
}

impl RequestHead {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        Self {
            grpc: is_grpc(request.headers()),
            version: request.version(),
        }
    }

    /// The answer to a request whose body is not accepted.
    fn refused_body(self, refused: &BodyRefused) -> Response<Body> {
        let seconds = BODY_TIMEOUT.as_secs();
        match (refused, self.grpc) {
            (BodyRefused::Over(over), _) => self.refusal(over),
            (BodyRefused::TooSlow, true) => {
                let why = format!("the request was not received within {seconds} seconds");
                tonic::Status::deadline_exceeded(why).into_http()
            }
            (BodyRefused::TooSlow, false) => {
                let why = format!("did not come within {seconds} seconds");
                let error = Error::invalid("body", why);
                let mut response = problem_as(StatusCode::REQUEST_TIMEOUT, &error);
                self.close(response.headers_mut());
                response
            }
        }
    }

    /// What the body of the request still holds is not read.
    fn close(self, headers: &mut HeaderMap) {
        if self.version < Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// The answer to a request that is over budget.
    pub(crate) fn refusal(self, over: &OverBudget) -> Response<Body> {
        let whole = over.retry_after.as_secs() + u64::from(over.retry_after.subsec_nanos() > 0);
        let seconds = whole.clamp(1, 3600);
        let error = Error::new(ErrorKind::Exhausted, over.what.clone())
            .with_hint(format!("retry after {seconds} s"));
        let mut response = match self.grpc {
            true => status_from_error(&error).into_http(),
            false => problem(&error),
        };
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        self.close(headers);
        response
    }
}

/// A message above the size limit is OUT_OF_RANGE in the library and
/// RESOURCE_EXHAUSTED in every other implementation of gRPC, and here.
fn within_contract(headers: &mut HeaderMap) {
    if let Some(code) = headers.get_mut("grpc-status")
        && code.as_bytes() == b"11"
    {
        *code = HeaderValue::from_static("8");
    }
}

/// Whether a response of the auth layer is an authentication failure.
pub(crate) fn is_unauthenticated(response: &Response<Body>) -> bool {
    let grpc = response.headers().get("grpc-status");
    response.status() == StatusCode::UNAUTHORIZED
        || grpc.is_some_and(|code| code.as_bytes() == b"16")
}

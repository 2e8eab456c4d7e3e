//! A request does not outlive its credential: a watch, a log that is followed,
//! an exec, a tunnel, a node's stream all end when the certificate or token
//! they came with expires or is revoked, at once and in both directions.
//!
//! The auth layer wraps the answer and the body of every request whose caller
//! has a credential. The guard does not listen for its own name among
//! revocations, which it could miss: whenever tokens, roots or revocations
//! change, it has the auth layer check the credential again. It is polled
//! before what it guards, so a stream that always has data ends too. The stream
//! of a peer that does not read is not polled at all: a task of the answer
//! drops what is behind it then, so that a program that was executed ends at
//! once, read or not.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use strata_api::status_from_error;
use strata_types::{Error, ErrorKind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::AuthLayer;
use crate::auth::Authenticated;
use crate::problem;

/// The credential is checked again at least this often: the wall clock may be
/// set, which a long timer would not notice.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Watches over the proof of one request.
#[derive(Clone)]
pub(crate) struct Guard(Option<Watch>);

#[derive(Clone)]
struct Watch {
    auth: AuthLayer,
    authenticated: Authenticated,
}

/// Why a stream ends, once it does.
type Ended = BoxFuture<'static, String>;

impl Guard {
    /// Over this proof; over nothing, where it can neither end nor be revoked.
    pub(crate) fn new(auth: &AuthLayer, authenticated: Option<&Authenticated>) -> Self {
        let ends = |authenticated: &&Authenticated| {
            authenticated.credential.is_some() || authenticated.caller.expires_at.is_some()
        };
        Self(authenticated.filter(ends).map(|authenticated| Watch {
            auth: auth.clone(),
            authenticated: authenticated.clone(),
        }))
    }

    fn ended(&self) -> Option<Ended> {
        let watch = self.0.clone()?;
        Some(Box::pin(watch.ended()))
    }
}

impl Watch {
    async fn ended(self) -> String {
        // Before the first check, so that no change falls between.
        let mut changes = self.auth.changes();
        loop {
            if let Err(reason) = self.auth.check_valid(&self.authenticated) {
                return reason;
            }
            tokio::select! {
                () = changed(changes.tokens.as_mut()) => {}
                () = changed(changes.trust.as_mut()) => {}
                _ = changes.revocations.changed() => {}
                () = tokio::time::sleep(self.left()) => {}
            }
        }
    }

    fn left(&self) -> Duration {
        let Some(end) = self.authenticated.caller.expires_at else {
            return RECHECK_INTERVAL;
        };
        let left = end.duration_since(self.auth.clock().now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        // A little later than the end, never again and again before it.
        (left + Duration::from_millis(1)).min(RECHECK_INTERVAL)
    }
}

async fn changed(receiver: Option<&mut watch::Receiver<()>>) {
    let changed = match receiver {
        Some(receiver) => receiver.changed().await.is_ok(),
        None => false,
    };
    // There are no changes to watch, or their sender is gone.
    if !changed {
        std::future::pending::<()>().await;
    }
}

fn error(reason: &str) -> Error {
    Error::new(ErrorKind::Unauthenticated, reason.to_owned())
}

/// The body of a request: what is read from it fails once the proof is over.
pub struct GuardedBody<B> {
    inner: Option<B>,
    guard: Guard,
    /// Started with the first read: most bodies are never read.
    ended: Option<Ended>,
}

impl<B> GuardedBody<B> {
    pub(crate) fn new(inner: B, guard: &Guard) -> Self {
        Self {
            inner: Some(inner),
            guard: guard.clone(),
            ended: None,
        }
    }

    /// Why the proof is over, if it is.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Option<String> {
        if self.ended.is_none() {
            self.ended = self.guard.ended();
        }
        match self.ended.as_mut()?.as_mut().poll(context) {
            Poll::Ready(reason) => {
                // The other end of the body notices at once.
                (self.inner, self.guard, self.ended) = (None, Guard(None), None);
                Some(reason)
            }
            Poll::Pending => None,
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> HttpBody for GuardedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(reason) = self.poll_ended(context) {
            let ended = io::Error::new(io::ErrorKind::PermissionDenied, reason);
            return Poll::Ready(Some(Err(ended.into())));
        }
        match &mut self.inner {
            Some(inner) => Pin::new(inner)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(Into::into))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) => inner.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

/// What is behind an answer, until the proof is over.
struct Released {
    body: Arc<Mutex<Option<Body>>>,
    /// Ends with the answer.
    _watching: JoinSet<()>,
}

impl Released {
    fn new(body: Body, ended: Ended) -> Self {
        let body = Arc::new(Mutex::new(Some(body)));
        let mut watching = JoinSet::new();
        watching.spawn({
            let body = Arc::downgrade(&body);
            async move {
                ended.await;
                let body = body.upgrade();
                // Dropped outside of the lock: it may do anything.
                drop(body.map(|body| lock(&body).take()));
            }
        });
        Self {
            body,
            _watching: watching,
        }
    }
}

fn lock(body: &Mutex<Option<Body>>) -> MutexGuard<'_, Option<Body>> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpBody for Released {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match lock(&self.body).as_mut() {
            Some(body) => Pin::new(body).poll_frame(context),
            // The guard before it gives the reason.
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.body)
            .as_ref()
            .is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = lock(&self.body);
        body.as_ref()
            .map_or_else(SizeHint::new, HttpBody::size_hint)
    }
}

/// The body of an answer: ends with the credential. A gRPC caller receives the
/// reason in the trailers; the stream of another is cut, so that it is not
/// taken for whole.
struct AnswerBody {
    body: GuardedBody<Released>,
    grpc: bool,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let grpc = self.grpc;
        if let Some(reason) = self.body.poll_ended(context) {
            tracing::debug!(reason, "stream closed: its credential is no longer valid");
            return Poll::Ready(Some(match grpc {
                true => Ok(Frame::trailers(trailers(&reason))),
                false => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into()),
            }));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn trailers(reason: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status_from_error(&error(reason))
        .add_header(&mut trailers)
        .is_err()
    {
        trailers.insert("grpc-status", HeaderValue::from_static("16"));
    }
    trailers
}

/// An answer that does not outlive the proof of its request.
pub(crate) type GuardedResponse = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// Guards an answer, from now to the end of its body.
pub(crate) fn guarded<F>(answering: F, guard: Guard, grpc: bool) -> GuardedResponse
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
{
    Box::pin(async move {
        let Some(ended) = guard.ended() else {
            return answering.await;
        };
        let response = tokio::select! {
            biased;
            reason = ended => {
                let error = error(&reason);
                return Ok(match grpc {
                    true => status_from_error(&error).into_http(),
                    false => problem(&error),
                });
            }
            response = answering => response?,
        };
        // What is whole already need not be watched.
        if response.body().size_hint().exact().is_some() {
            return Ok(response);
        }
        let Some(ended) = guard.ended() else {
            return Ok(response);
        };
        Ok(response.map(|body| {
            let body = GuardedBody::new(Released::new(body, ended), &guard);
            Body::new(AnswerBody { body, grpc })
        }))
    })
}

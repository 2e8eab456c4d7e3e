//! The layer around the router that writes down what the gate decided: behind
//! the budget, so that whoever is over it writes no lines, and before the
//! handler, so that a crash leaves a line too many and never one too few. It
//! waits for as much of the body as names the object; the handler is given all
//! of it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tower_service::Service;

use crate::audit::Handled;
use crate::gate::is_grpc;
use crate::subject::{self, LOOKED_AT};

/// How long the beginning of a body is waited for. Then the line is written
/// without it, and the handler waits for the rest as it does for any.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A service whose allowed requests are written down.
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
        let handled = request.extensions_mut().remove::<Arc<Handled>>();
        let Some(handled) = handled.filter(|handled| handled.is_audited()) else {
            return Box::pin(self.0.call(request.map(Body::new)));
        };
        let grpc = is_grpc(request.headers());
        let (method, path) = (request.method().as_str(), request.uri().path());
        if !subject::is_in_body(method, path, grpc) || request.body().is_end_stream() {
            handled.allow(&request, grpc, &[]);
            return Box::pin(self.0.call(request.map(Body::new)));
        }
        // The one that is ready, as a clone of it need not be.
        let next = self.0.clone();
        let mut inner = std::mem::replace(&mut self.0, next);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let begun = Begun::read(body, grpc).await;
            let request = Request::from_parts(parts, begun);
            handled.allow(&request, grpc, &request.body().looked_at());
            inner.call(request.map(Body::new)).await
        })
    }
}

/// A body of which the beginning was read already.
struct Begun<B> {
    frames: VecDeque<Result<Frame<Bytes>, axum::Error>>,
    rest: B,
    /// All of it was read.
    ended: bool,
}

impl<B> Begun<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Reads as much as there is to know.
    async fn read(body: B, grpc: bool) -> Self {
        let mut begun = Self {
            frames: VecDeque::new(),
            rest: body,
            ended: false,
        };
        let _ = tokio::time::timeout(BODY_TIMEOUT, begun.read_on(grpc)).await;
        begun
    }

    async fn read_on(&mut self, grpc: bool) {
        let (mut beginning, mut length) = (Vec::new(), 0);
        while length < LOOKED_AT && !subject::is_whole(&beginning, length, grpc) {
            let frame =
                std::future::poll_fn(|context| Pin::new(&mut self.rest).poll_frame(context));
            let Some(frame) = frame.await else {
                self.ended = true;
                return;
            };
            let frame = frame.map_err(axum::Error::new);
            if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
                let missing = subject::BEGINNING.saturating_sub(beginning.len());
                beginning.extend_from_slice(&data[..missing.min(data.len())]);
                length += data.len();
            }
            self.ended = frame.is_err();
            self.frames.push_back(frame);
            if self.ended {
                return;
            }
        }
    }

    /// A copy of what was read.
    fn looked_at(&self) -> Vec<u8> {
        let frames = self.frames.iter().flatten();
        let data: Vec<&[u8]> = frames
            .filter_map(Frame::data_ref)
            .map(AsRef::as_ref)
            .collect();
        data.concat()
    }
}

impl<B> HttpBody for Begun<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(frame));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut self.rest).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(axum::Error::new)))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && (self.ended || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let frames = self.frames.iter().flatten();
        let read: usize = frames.filter_map(Frame::data_ref).map(Bytes::len).sum();
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        let rest = match self.ended {
            true => SizeHint::with_exact(0),
            false => self.rest.size_hint(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;

    use super::*;

    fn pieces(pieces: &'static [&'static [u8]]) -> stream::Iter<std::vec::IntoIter<Piece>> {
        let pieces = pieces.iter().map(|piece| Ok(Bytes::from_static(piece)));
        stream::iter(pieces.collect::<Vec<_>>())
    }

    type Piece = Result<Bytes, std::io::Error>;

    #[tokio::test]
    async fn body_that_was_looked_at_is_handed_on_whole() {
        let body = Body::from_stream(pieces(&[b"{\"na", b"", b"me\":", b"\"web\"}"]));
        let begun = Begun::read(body, false).await;
        assert_eq!(begun.looked_at(), b"{\"name\":\"web\"}");
        let whole = begun.collect().await.unwrap().to_bytes();
        assert_eq!(&whole[..], b"{\"name\":\"web\"}");
    }

    /// The rest may never come: only the first message is waited for.
    #[tokio::test(start_paused = true)]
    async fn first_message_of_a_stream_is_enough() {
        let first = pieces(&[b"\0\0\0", b"\0\x02ab"]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let before = tokio::time::Instant::now();
        let mut begun = Begun::read(body, true).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(begun.looked_at(), b"\0\0\0\0\x02ab");
        for expected in [&b"\0\0\0"[..], b"\0\x02ab"] {
            let frame = begun.frame().await.unwrap().unwrap();
            assert_eq!(&frame.into_data().unwrap()[..], expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_stops_is_waited_for_no_longer_than_that() {
        let body = Body::from_stream(pieces(&[b"{"]).chain(stream::pending()));
        let before = tokio::time::Instant::now();
        let begun = Begun::read(body, false).await;
        assert!(before.elapsed() <= BODY_TIMEOUT + Duration::from_millis(10));
        assert_eq!(begun.looked_at(), b"{");
        assert!(!begun.is_end_stream());
    }

    #[tokio::test]
    async fn body_that_fails_fails_for_the_handler_too() {
        let gone = Err(std::io::ErrorKind::ConnectionReset.into());
        let body = Body::from_stream(pieces(&[b"{"]).chain(stream::iter([gone])));
        let begun = Begun::read(body, false).await;
        assert!(begun.collect().await.is_err());
    }

    #[tokio::test]
    async fn no_more_than_the_bound_is_read_ahead() {
        let chunk = Bytes::from(vec![b' '; 64 << 10]);
        let endless = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
        let begun = Begun::read(Body::from_stream(endless), false).await;
        assert_eq!(begun.looked_at().len(), LOOKED_AT);
    }
}

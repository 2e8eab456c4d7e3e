//! The body of a request before its handler sees it. One that ends by itself is
//! read whole first, within [`BODY_TIMEOUT`] and the bytes that its caller may
//! hold: so a request that was begun and not finished occupies no handler, and
//! nothing of it is decoded. The messages of a stream are handed on as they
//! come, and the unfinished one is counted.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::OverBudget;
use super::held::HeldBytes;
use crate::prefixed_body::PrefixedBody;

/// How long the body of a request may take, from its head to its end.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// More than any handler of REST reads of a body.
const REST_BYTES: usize = 256 << 10;
/// As much as the message of any unary call may have, with its header.
const UNARY_BYTES: usize = (2 << 20) + FRAME_HEADER;
/// Before a message of gRPC: whether it is compressed, and its length.
const FRAME_HEADER: usize = 5;

/// Calls whose requests are streams, which last as long as their session.
pub(crate) const STREAMING_CALLS: [&str; 9] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/runtime.Instances/Console",
    "/runtime.Pods/Attach",
    "/runtime.Pods/Exec",
    "/schedule.Assignments/Follow",
    "/schedule.Assignments/Tunnel",
    "/scheduler.NodeService/Status",
    "/strata.v1.Instances/Exec",
];

/// Why a body goes no further.
pub(super) enum BodyRefused {
    Over(OverBudget),
    TooSlow,
}

/// How the body of a request is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    Stream,
    Unary,
    Rest,
}

impl BodyKind {
    pub(super) fn of<B>(request: &Request<B>, grpc: bool) -> Self {
        match grpc {
            true if STREAMING_CALLS.contains(&request.uri().path()) => Self::Stream,
            true => Self::Unary,
            false => Self::Rest,
        }
    }

    /// The body to hand on, and what it holds until its handler has answered.
    pub(super) async fn receive(
        self,
        body: Body,
        mut held: HeldBytes,
    ) -> Result<(Body, Option<HeldBytes>), BodyRefused> {
        if self == Self::Stream {
            return Ok((Body::new(StreamedBody::new(body, held)), None));
        }
        if body.is_end_stream() {
            return Ok((body, None));
        }
        let received = tokio::time::timeout(BODY_TIMEOUT, self.collect(body, &mut held)).await;
        match received {
            Ok(Ok(body)) => Ok((body, Some(held))),
            Ok(Err(over)) => Err(BodyRefused::Over(over)),
            Err(_) => Err(BodyRefused::TooSlow),
        }
    }

    /// All of a body; of one that is too large for any handler the beginning
    /// with the rest unread, for the handler refuses it in its own words.
    async fn collect(self, mut body: Body, held: &mut HeldBytes) -> Result<Body, OverBudget> {
        let most = match self {
            Self::Rest => REST_BYTES,
            Self::Unary | Self::Stream => UNARY_BYTES,
        };
        let most_hint = u64::try_from(most).unwrap_or(u64::MAX);
        if body.size_hint().lower() > most_hint {
            return Ok(body);
        }
        // Copied into one piece: small frames would keep the buffers that they
        // were read into.
        let (mut data, mut trailers, mut failed) = (BytesMut::new(), None, None);
        let mut ended = true;
        while let Some(frame) = body.frame().await {
            match frame.map(Frame::into_data) {
                Ok(Ok(bytes)) => {
                    held.add(bytes.len())?;
                    data.extend_from_slice(&bytes);
                }
                Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            if data.len() > most || self == Self::Unary && announced(&data) > most {
                ended = false;
                break;
            }
        }
        let data = (!data.is_empty()).then(|| Ok(Frame::data(data.freeze())));
        let trailers = trailers.map(|trailers: HeaderMap| Ok(Frame::trailers(trailers)));
        let frames = data.into_iter().chain(trailers).chain(failed.map(Err));
        Ok(Body::new(PrefixedBody::new(frames.collect(), body, ended)))
    }
}

/// The size that the header of a message announces; 0 before it is there.
fn announced(data: &[u8]) -> usize {
    let length = data.get(1..FRAME_HEADER).and_then(|it| it.try_into().ok());
    length.map_or(0, |length| size(length).saturating_add(FRAME_HEADER))
}

fn size(length: [u8; 4]) -> usize {
    usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX)
}

/// Where in a stream of messages its reader is.
#[derive(Debug, Default)]
struct Framing {
    header: [u8; FRAME_HEADER],
    /// How much of the header is there.
    begun: usize,
    /// The size that the header announces.
    length: usize,
    /// What is missing of the message.
    missing: usize,
    /// What is there of the unfinished message.
    unfinished: usize,
}

impl Framing {
    /// What the unfinished message takes: its reader makes room for all of it
    /// when its header is there, and refuses one that is too large.
    fn held(&self) -> usize {
        let is_open = self.begun == FRAME_HEADER && self.unfinished > 0;
        match self.length.saturating_add(FRAME_HEADER) {
            whole if is_open && whole <= UNARY_BYTES => whole,
            _ => self.unfinished,
        }
    }

    fn feed(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.begun < FRAME_HEADER {
                let taken = data.len().min(FRAME_HEADER - self.begun);
                let (header, rest) = data.split_at(taken);
                self.header[self.begun..self.begun + taken].copy_from_slice(header);
                self.begun += taken;
                self.unfinished += taken;
                data = rest;
                if self.begun < FRAME_HEADER {
                    return;
                }
                let [_, length @ ..] = self.header;
                self.length = size(length);
                self.missing = self.length;
            }
            let taken = data.len().min(self.missing);
            self.missing -= taken;
            self.unfinished += taken;
            data = &data[taken..];
            if self.missing == 0 {
                (self.begun, self.unfinished) = (0, 0);
            }
        }
    }
}

/// The body of a stream of messages, of which the unfinished one is counted. It fails where its caller holds too much.
struct StreamedBody {
    inner: Body,
    held: HeldBytes,
    framing: Framing,
}

impl StreamedBody {
    fn new(inner: Body, held: HeldBytes) -> Self {
        Self {
            inner,
            held,
            framing: Framing::default(),
        }
    }
}

impl HttpBody for StreamedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.framing.feed(data);
            if let Err(over) = this.held.set(this.framing.held()) {
                let error = tonic::Status::resource_exhausted(over.what);
                return Poll::Ready(Some(Err(axum::Error::new(error))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

//! A body of which the beginning was read already: for the audit log, which
//! looks for the object in it, or all of it, within the budget of its caller.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::subject::{self, INSPECTED_BYTES};

/// How long the beginning of a body is waited for. Then the line is written
/// without it, and the handler waits for the rest as it does for any.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A body of which the beginning was read already.
pub(crate) struct PrefixedBody<B> {
    frames: VecDeque<Result<Frame<Bytes>, axum::Error>>,
    rest: B,
    /// All of it was read.
    ended: bool,
}

impl<B> PrefixedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// What was read before, and what is to come; nothing if that was the end.
    pub(crate) fn new(
        frames: VecDeque<Result<Frame<Bytes>, axum::Error>>,
        rest: B,
        ended: bool,
    ) -> Self {
        Self {
            frames,
            rest,
            ended,
        }
    }

    /// Reads as much as there is to know.
    pub(crate) async fn read(body: B, grpc: bool) -> Self {
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
        while length < INSPECTED_BYTES && !subject::is_whole(&beginning, length, grpc) {
            let frame =
                std::future::poll_fn(|context| Pin::new(&mut self.rest).poll_frame(context));
            let Some(frame) = frame.await else {
                self.ended = true;
                return;
            };
            let frame = frame.map_err(axum::Error::new);
            if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
                let missing = subject::PREFIX_BYTES.saturating_sub(beginning.len());
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
    pub(crate) fn looked_at(&self) -> Vec<u8> {
        let frames = self.frames.iter().flatten();
        let data: Vec<&[u8]> = frames
            .filter_map(Frame::data_ref)
            .map(AsRef::as_ref)
            .collect();
        data.concat()
    }
}

impl<B> HttpBody for PrefixedBody<B>
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
    use axum::body::Body;
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
        let begun = PrefixedBody::read(body, false).await;
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
        let mut begun = PrefixedBody::read(body, true).await;
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
        let begun = PrefixedBody::read(body, false).await;
        assert!(before.elapsed() <= BODY_TIMEOUT + Duration::from_millis(10));
        assert_eq!(begun.looked_at(), b"{");
        assert!(!begun.is_end_stream());
    }

    #[tokio::test]
    async fn body_that_fails_fails_for_the_handler_too() {
        let gone = Err(std::io::ErrorKind::ConnectionReset.into());
        let body = Body::from_stream(pieces(&[b"{"]).chain(stream::iter([gone])));
        let begun = PrefixedBody::read(body, false).await;
        assert!(begun.collect().await.is_err());
    }

    #[tokio::test]
    async fn no_more_than_the_bound_is_read_ahead() {
        let chunk = Bytes::from(vec![b' '; 64 << 10]);
        let endless = stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
        let begun = PrefixedBody::read(Body::from_stream(endless), false).await;
        assert_eq!(begun.looked_at().len(), INSPECTED_BYTES);
    }
}

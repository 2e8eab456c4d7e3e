//! The body of a request or an answer, counted as it passes.
//!
//! An answer is cut into small pieces: HTTP/2 takes a piece only while less
//! than `Limits::send_buffer` of the stream waits to be sent, so what a peer
//! does not read stays here, where it is counted, until it does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

use super::places::RequestSlot;
use super::{Account, Admitted, lock};
use crate::table::InFlight;

/// Largest chunk of a body that is charged at once.
const CHUNK_BYTES: usize = 16 << 10;

/// What ends with the body.
pub(super) struct Guards {
    pub(super) _place: RequestSlot,
    pub(super) _admitted: Option<Arc<Admitted>>,
    pub(super) _under_way: Option<InFlight>,
    pub(super) _unread: Option<UnreadBytes>,
}

/// Bytes of a finished answer that wait to be read.
pub(super) struct UnreadBytes(pub(super) Arc<Admitted>, pub(super) usize);

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        let unread = &self.0.account.unread;
        unread.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// A body that is counted, and slowed down while its caller is in debt.
pub(super) struct MeteredBody {
    inner: Body,
    /// What of the last frame was not passed on yet.
    rest: Bytes,
    account: Option<Arc<Account>>,
    pause: Option<Pin<Box<Sleep>>>,
    _guards: Option<Guards>,
}

impl MeteredBody {
    /// `account` is none for those whose bytes are not counted.
    pub(super) fn new(inner: Body, account: Option<Arc<Account>>, guards: Option<Guards>) -> Self {
        Self {
            inner,
            rest: Bytes::new(),
            account,
            pause: None,
            _guards: guards,
        }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let length = self.rest.len().min(CHUNK_BYTES);
        let piece = self.rest.split_to(length);
        if let Some(account) = &self.account {
            let bytes = u64::try_from(length).unwrap_or(u64::MAX);
            lock(&account.bytes).charge(Instant::now(), bytes);
        }
        Frame::data(piece)
    }

    /// Ready once the caller is out of debt.
    fn poll_paid(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(account) = &self.account else {
            return Poll::Ready(());
        };
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let debt = lock(&account.bytes).debt(Instant::now());
            if debt.is_zero() {
                return Poll::Ready(());
            }
            self.pause = Some(Box::pin(tokio::time::sleep(debt)));
        }
    }
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        ready!(this.poll_paid(cx));
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        Poll::Ready(Some(Ok(this.piece())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let inner = self.inner.size_hint();
        match inner.exact() {
            Some(inner) => SizeHint::with_exact(inner + rest),
            None => {
                let mut hint = SizeHint::new();
                hint.set_lower(inner.lower() + rest);
                hint
            }
        }
    }
}

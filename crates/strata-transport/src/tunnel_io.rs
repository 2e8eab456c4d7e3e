//! The bytes of a connection as a stream of chunks in each direction, so that
//! HTTP/2 runs inside one gRPC call. A side that does not read makes the other
//! wait: nothing is buffered beyond a few chunks.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_util::Stream as _;
use strata_api::strata::v1::Chunk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::PollSender;
use tonic::{Status, Streaming};

/// The largest chunk that is sent.
const CHUNK: usize = 64 << 10;
/// Chunks on their way to the transport.
const CHANNEL_CAPACITY: usize = 4;

/// Where chunks go to.
enum Outgoing {
    Request(PollSender<Chunk>),
    Answer(PollSender<Result<Chunk, Status>>),
}

impl Outgoing {
    fn poll_reserve(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Request(sender) => sender.poll_reserve(cx).map_err(|_| gone()),
            Self::Answer(sender) => sender.poll_reserve(cx).map_err(|_| gone()),
        }
    }

    fn send(&mut self, chunk: Chunk) -> io::Result<()> {
        match self {
            Self::Request(sender) => sender.send_item(chunk).map_err(|_| gone()),
            Self::Answer(sender) => sender.send_item(Ok(chunk)).map_err(|_| gone()),
        }
    }

    fn close(&mut self) {
        match self {
            Self::Request(sender) => sender.close(),
            Self::Answer(sender) => sender.close(),
        }
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// The side of a tunnel that opens it, before its other end has answered.
pub struct TunnelSender(mpsc::Sender<Chunk>);

impl TunnelSender {
    /// The tunnel, once there is an answer.
    pub fn with(self, incoming: Streaming<Chunk>) -> TunnelIo {
        TunnelIo::new(incoming, Outgoing::Request(PollSender::new(self.0)))
    }
}

/// One end of a tunnel.
pub struct TunnelIo {
    incoming: Streaming<Chunk>,
    /// What of the last chunk is still to be read.
    rest: Bytes,
    outgoing: Outgoing,
}

impl TunnelIo {
    fn new(incoming: Streaming<Chunk>, outgoing: Outgoing) -> Self {
        Self {
            incoming,
            rest: Bytes::new(),
            outgoing,
        }
    }

    /// For the side that opens the tunnel (the node): what to call
    /// `schedule.Assignments/Tunnel` with, and what makes the tunnel of its
    /// answer.
    pub fn opening() -> (ReceiverStream<Chunk>, TunnelSender) {
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        (ReceiverStream::new(receiver), TunnelSender(sender))
    }

    /// For the side that accepts a tunnel (the server): the tunnel, and what to
    /// answer the call with.
    pub fn answering(incoming: Streaming<Chunk>) -> (Self, ReceiverStream<Result<Chunk, Status>>) {
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let tunnel = Self::new(incoming, Outgoing::Answer(PollSender::new(sender)));
        (tunnel, ReceiverStream::new(receiver))
    }
}

impl AsyncRead for TunnelIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.incoming).poll_next(cx)) {
                Some(Ok(chunk)) => self.rest = chunk.data,
                Some(Err(status)) => return Poll::Ready(Err(io::Error::other(status))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..length]);
        self.rest.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.outgoing.poll_reserve(cx))?;
        let piece = &bytes[..bytes.len().min(CHUNK)];
        let data = Bytes::copy_from_slice(piece);
        self.outgoing.send(Chunk { data })?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.close();
        Poll::Ready(Ok(()))
    }
}

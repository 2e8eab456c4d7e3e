//! A TCP socket that can go from one runtime to another under a TLS session:
//! connections are accepted and do their handshake on the runtime of nodes, and
//! those of people then go on where people are served.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

pub(crate) struct Socket {
    /// None only while it moves, and after a move that failed.
    stream: Option<TcpStream>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Some(stream),
        }
    }

    /// Registers the socket with the runtime of the task that calls this. To
    /// be called before the first read there.
    pub(crate) fn adopt(&mut self) -> io::Result<()> {
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        self.stream = Some(TcpStream::from_std(stream.into_std()?)?);
        Ok(())
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut TcpStream>> {
        let stream = self.get_mut().stream.as_mut();
        Ok(Pin::new(stream.ok_or(io::ErrorKind::NotConnected)?))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}

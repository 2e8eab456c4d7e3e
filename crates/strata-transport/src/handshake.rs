//! The TLS handshake of an unauthenticated connection.
//!
//! The ClientHello is read first, within a short time and without taking
//! anything from others. Permits are held for cryptographic work alone: each
//! poll of the handshake takes one and gives it back, so a peer that stops in
//! the middle keeps a socket and nothing else.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::sync::Semaphore;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::Limits;
use crate::socket::Socket;

pub(crate) struct Handshakes {
    tls: Arc<ServerConfig>,
    permits: Semaphore,
    hello_timeout: Duration,
    timeout: Duration,
}

impl Handshakes {
    pub(crate) fn new(tls: Arc<ServerConfig>, limits: &Limits) -> Self {
        Self {
            tls,
            permits: Semaphore::new(limits.handshake_permits.max(1)),
            hello_timeout: limits.hello_timeout,
            timeout: limits.handshake_timeout,
        }
    }

    /// Waits for the ClientHello.
    pub(crate) async fn hello(&self, socket: Socket) -> io::Result<StartHandshake<Socket>> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), socket);
        in_time(self.hello_timeout, hello).await
    }

    /// The rest of the handshake.
    pub(crate) async fn finish(
        &self,
        hello: StartHandshake<Socket>,
    ) -> io::Result<TlsStream<Socket>> {
        let rest = hello.into_stream(self.tls.clone());
        in_time(self.timeout, by_turns(&self.permits, rest)).await
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(limit, work).await.map_err(timed_out)?
}

/// Polls `work` with a permit each time. A poll does what can be done with
/// the bytes that are there, and ends: so a permit is never held while the
/// peer is waited for.
async fn by_turns<T>(
    permits: &Semaphore,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut work = pin!(work);
    let mut turn = None;
    std::future::poll_fn(|cx| {
        let waiting = turn.get_or_insert_with(|| Box::pin(permits.acquire()));
        let permit = ready!(waiting.as_mut().poll(cx));
        turn = None;
        let polled = work.as_mut().poll(cx);
        match permit {
            Ok(_) => polled,
            // The semaphore is never closed.
            Err(closed) => Poll::Ready(Err(io::Error::other(closed))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn peer_that_is_waited_for_holds_no_permit() {
        let permits = Semaphore::new(1);
        let silent = by_turns(&permits, std::future::pending::<io::Result<()>>());
        let mut silent = pin!(silent);
        let polled = std::future::poll_fn(|cx| Poll::Ready(silent.as_mut().poll(cx).is_pending()));
        assert!(polled.await);
        assert_eq!(permits.available_permits(), 1);
        assert_eq!(by_turns(&permits, async { Ok(7) }).await.unwrap(), 7);
    }
}

//! The TLS handshake of an unauthenticated connection.
//!
//! The ClientHello is read first, within a short time and without taking
//! anything from others. Permits are held for cryptographic work alone: each
//! poll of the handshake takes one and gives it back, so a peer that stops in
//! the middle keeps a socket and nothing else. Sources take turns: one has one
//! handshake in the queue, however many it has begun.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::Acceptor;
use strata_tasks::spawn_detached;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::Limits;
use crate::socket::Socket;
use crate::source::Source;

pub(crate) struct Handshakes {
    tls: Arc<ServerConfig>,
    turns: Turns,
    hello_timeout: Duration,
    timeout: Duration,
}

impl Handshakes {
    pub(crate) fn new(tls: Arc<ServerConfig>, limits: &Limits) -> Self {
        Self {
            tls,
            turns: Turns::new(limits.handshake_permits),
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
        source: Source,
    ) -> io::Result<TlsStream<Socket>> {
        let rest = hello.into_stream(self.tls.clone());
        in_time(self.timeout, by_turns(&self.turns.of(source), rest)).await
    }
}

/// The permits, and one place of each source in the queue for them. In a queue
/// of all handshakes a flood of one source would be before those of others.
struct Turns {
    permits: Semaphore,
    sources: Mutex<HashMap<Source, (Arc<Semaphore>, usize)>>,
}

impl Turns {
    fn new(permits: usize) -> Self {
        Self {
            permits: Semaphore::new(permits.max(1)),
            sources: Mutex::default(),
        }
    }

    /// The turns of a handshake of this source.
    fn of(&self, source: Source) -> SourceTurns<'_> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let one_place = || (Arc::new(Semaphore::new(1)), 0);
        let (place, handshakes) = sources.entry(source).or_insert_with(one_place);
        *handshakes += 1;
        SourceTurns {
            turns: self,
            source,
            place: Arc::clone(place),
        }
    }
}

type Turn<'a> = (OwnedSemaphorePermit, SemaphorePermit<'a>);

/// Lets the next handshake of a source have its place once all that is ready has
/// run. A permit is held for one poll, so most polls find one: in the queue of
/// the runtime the handshakes of a flood would have theirs one after the other.
fn release_later(place: OwnedSemaphorePermit) {
    spawn_detached("handshake-turn", async move {
        tokio::task::yield_now().await;
        drop(place);
    });
}

struct SourceTurns<'a> {
    turns: &'a Turns,
    source: Source,
    place: Arc<Semaphore>,
}

impl SourceTurns<'_> {
    async fn acquire(&self) -> Result<Turn<'_>, AcquireError> {
        let place = Arc::clone(&self.place).acquire_owned().await?;
        Ok((place, self.turns.permits.acquire().await?))
    }
}

impl Drop for SourceTurns<'_> {
    fn drop(&mut self) {
        let sources = self.turns.sources.lock();
        let mut sources = sources.unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handshakes)) = sources.get_mut(&self.source) {
            *handshakes -= 1;
            if *handshakes == 0 {
                sources.remove(&self.source);
            }
        }
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
    turns: &SourceTurns<'_>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut work = pin!(work);
    let mut turn = None;
    std::future::poll_fn(|cx| {
        let waiting = turn.get_or_insert_with(|| Box::pin(turns.acquire()));
        let acquired = ready!(waiting.as_mut().poll(cx));
        turn = None;
        match acquired {
            Ok((place, permit)) => {
                let polled = work.as_mut().poll(cx);
                drop(permit);
                release_later(place);
                polled
            }
            // No semaphore is closed.
            Err(closed) => Poll::Ready(Err(io::Error::other(closed))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn peer_that_is_waited_for_holds_no_permit() {
        let turns = Turns::new(1);
        let one = turns.of(Source::V4(1));
        let silent = by_turns(&one, std::future::pending::<io::Result<()>>());
        let mut silent = pin!(silent);
        let polled = std::future::poll_fn(|cx| Poll::Ready(silent.as_mut().poll(cx).is_pending()));
        assert!(polled.await);
        assert_eq!(turns.permits.available_permits(), 1);
        assert_eq!(by_turns(&one, async { Ok(7) }).await.unwrap(), 7);
    }

    /// Goes on when all tasks that are ready have had a turn. The function of
    /// the runtime waits until none is ready.
    async fn next_turn() {
        let mut waited = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Work of so many polls, which counts them.
    async fn work(polls: usize, count: Arc<AtomicUsize>) -> io::Result<()> {
        for _ in 0..polls {
            count.fetch_add(1, Ordering::Relaxed);
            next_turn().await;
        }
        Ok(())
    }

    #[tokio::test]
    async fn flood_of_one_source_delays_no_handshake_of_another() {
        let turns = Arc::new(Turns::new(1));
        let (of_flood, of_other) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let handshake = |source, count: &Arc<AtomicUsize>| {
            let (turns, count) = (turns.clone(), count.clone());
            tokio::spawn(async move { by_turns(&turns.of(source), work(20, count)).await })
        };
        let flood: Vec<_> = (0..500)
            .map(|_| handshake(Source::V4(1), &of_flood))
            .collect();
        while of_flood.load(Ordering::Relaxed) < 10 {
            next_turn().await;
        }
        let before = of_flood.load(Ordering::Relaxed);
        let other = handshake(Source::V4(2), &of_other);
        other.await.unwrap().unwrap();
        // In one queue of all it would wait for 500 others at each of its turns.
        let meanwhile = of_flood.load(Ordering::Relaxed) - before;
        assert!(meanwhile <= 200, "{meanwhile} turns of the flood");
        assert_eq!(turns.sources.lock().unwrap().len(), 1);
        flood.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

//! The accept loop: takes one connection after the other, as many as there are
//! places, and goes on after errors of the kernel that pass.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How long to wait after the first failure; doubled up to a second.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(10);
const MAX_ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// Where connections come from.
pub(crate) trait Acceptor: Send + Sync {
    /// What a connection is.
    type Stream: Send;

    /// The next one. Cancelling it loses nothing.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Acceptor for TcpListener {
    type Stream = (TcpStream, SocketAddr);

    async fn accept(&self) -> io::Result<Self::Stream> {
        let (stream, remote) = Self::accept(self).await?;
        // Small messages to and fro: waiting to fill a packet only delays.
        stream.set_nodelay(true)?;
        Ok((stream, remote))
    }
}

impl Acceptor for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(Self::accept(self).await?.0)
    }
}

/// Accepts until shutdown. A place is taken before a connection is, so those
/// beyond the bound wait in the kernel's queue and cost us nothing.
pub(crate) async fn accept_all<D: Acceptor>(
    acceptor: &D,
    places: &Arc<Semaphore>,
    shutdown: &CancellationToken,
    mut start: impl FnMut(D::Stream, OwnedSemaphorePermit) + Send,
) {
    let mut pause = ACCEPT_BACKOFF;
    loop {
        let place = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            place = places.clone().acquire_owned() => place,
        };
        // The semaphore is never closed.
        let Ok(place) = place else { return };
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            accepted = acceptor.accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                pause = ACCEPT_BACKOFF;
                start(stream, place);
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                // Out of descriptors or memory: trying again at once would
                // only burn the processor while others release theirs.
                tracing::warn!(%error, ?pause, "cannot accept connections");
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(MAX_ACCEPT_BACKOFF);
            }
        }
    }
}

/// The caller went away while it waited.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::io::Errno;
    use tokio::time::Instant;

    use super::*;

    /// Answers with what it was given, then never again.
    struct Scripted(Mutex<Vec<io::Result<u32>>>);

    impl Acceptor for Scripted {
        type Stream = u32;

        async fn accept(&self) -> io::Result<u32> {
            let next = self.0.lock().unwrap().pop();
            match next {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    }

    fn script(answers: impl IntoIterator<Item = Result<u32, Errno>>) -> Scripted {
        let mut answers: Vec<_> = answers
            .into_iter()
            .map(|it| it.map_err(Into::into))
            .collect();
        answers.reverse();
        Scripted(Mutex::new(answers))
    }

    #[tokio::test(start_paused = true)]
    async fn goes_on_after_the_kernel_ran_out_of_descriptors_but_not_in_a_hurry() {
        let acceptor = script([
            Err(Errno::MFILE),
            Err(Errno::NFILE),
            Err(Errno::CONNABORTED),
            Ok(7),
        ]);
        let shutdown = CancellationToken::new();
        let begin = Instant::now();
        accept_all(
            &acceptor,
            &Arc::new(Semaphore::new(1)),
            &shutdown,
            |stream, _| {
                assert_eq!(stream, 7);
                shutdown.cancel();
            },
        )
        .await;
        assert_eq!(begin.elapsed(), ACCEPT_BACKOFF * 3);
    }

    #[tokio::test]
    async fn takes_no_more_than_there_are_places() {
        let acceptor = script((0..5).map(Ok));
        let (places, shutdown) = (Arc::new(Semaphore::new(2)), CancellationToken::new());
        let (held, taken) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let serve = accept_all(&acceptor, &places, &shutdown, |_, place| {
            held.lock().unwrap().push(place);
            taken.fetch_add(1, Ordering::SeqCst);
        });
        let watch = async {
            for expected in [2, 3, 4, 5] {
                while taken.load(Ordering::SeqCst) < expected {
                    tokio::task::yield_now().await;
                }
                // Let the loop run as far as it can.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(taken.load(Ordering::SeqCst), expected);
                held.lock().unwrap().pop();
            }
            shutdown.cancel();
        };
        tokio::join!(serve, watch);
    }
}

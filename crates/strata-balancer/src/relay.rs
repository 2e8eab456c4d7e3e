//! One connection: bytes both ways until both sides are done.
//!
//! A side that has finished speaking may go on listening, so an end in one
//! direction is passed on and the other direction goes on, as long as bytes
//! pass: a side that neither sends nor ends would hold both sockets for good.
//! Space for bytes is
//! taken only while there are some: most connections are watches, and idle.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::connections::Connection;
use super::health::Health;

/// As much as is moved at once.
const PIECE: usize = 16 * 1024;

/// What one side of a connection has done so far.
#[derive(Default)]
struct RelaySide {
    spoke: AtomicBool,
    ended: AtomicBool,
    first_word: Notify,
}

impl RelaySide {
    fn note_word(&self) {
        if !self.spoke.swap(true, Ordering::Relaxed) {
            self.first_word.notify_one();
        }
    }

    fn has(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }
}

/// A connection to a server, and how long its sides are waited for.
pub(super) struct Relay<'a> {
    pub(super) connection: &'a Connection,
    pub(super) health: &'a Health,
    pub(super) server: SocketAddr,
    pub(super) answer: Duration,
    pub(super) half_open: Duration,
}

impl Relay<'_> {
    /// Carries one connection, and notes what it shows of the server.
    pub(super) async fn run(&self, mut client_stream: TcpStream, mut server_stream: TcpStream) {
        let (client, server) = (RelaySide::default(), RelaySide::default());
        let (from_client, to_client) = client_stream.split();
        let (from_server, to_server) = server_stream.split();
        let hung_up = AtomicBool::new(false);
        let one_ended = Notify::new();
        let up = async {
            let done = self.pump(from_client, to_server, &client, false).await;
            one_ended.notify_one();
            done
        };
        let down = async {
            let done = self.pump(from_server, to_client, &server, true).await;
            // A server that ends because its client did is not to blame.
            hung_up.store(!RelaySide::has(&client.ended), Ordering::Relaxed);
            one_ended.notify_one();
            done
        };
        let both = async { tokio::try_join!(up, down) };
        let listening = async {
            client.first_word.notified().await;
            match timeout(self.answer, server.first_word.notified()).await {
                Ok(()) => self.health.note_answer(self.server),
                Err(_) => self.health.note_silence(self.server),
            }
            pending::<()>().await;
        };
        tokio::select! {
            _ = both => {}
            () = listening => {}
            () = self.half_open(&one_ended) => {}
        }
        let mute = RelaySide::has(&client.spoke) && !RelaySide::has(&server.spoke);
        if mute && RelaySide::has(&hung_up) {
            self.health.note_silence(self.server);
        }
    }

    /// Waits until one side has ended and nothing has passed for too long.
    async fn half_open(&self, one_ended: &Notify) {
        one_ended.notified().await;
        self.connection.note_bytes(false);
        loop {
            let idle = Duration::from_millis(self.connection.idle_ms());
            match self.half_open.checked_sub(idle) {
                Some(rest) if !rest.is_zero() => sleep(rest).await,
                _ => return,
            }
        }
    }

    /// Carries what one side sends to the other, until it has no more to send.
    async fn pump(
        &self,
        from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
        side: &RelaySide,
        is_server: bool,
    ) -> io::Result<()> {
        loop {
            from.readable().await?;
            let mut piece = Vec::with_capacity(PIECE);
            loop {
                piece.clear();
                match from.try_read_buf(&mut piece) {
                    Ok(0) => {
                        side.ended.store(true, Ordering::Relaxed);
                        return to.shutdown().await;
                    }
                    Ok(_) => {
                        side.note_word();
                        self.connection.note_bytes(is_server);
                        to.write_all(&piece).await?;
                        self.connection.note_bytes(is_server);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

//! One connection: bytes both ways until both sides are done.
//!
//! A side that has finished speaking may go on listening, so an end in one
//! direction is passed on and the other direction goes on. Space for bytes is
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
use tokio::time::timeout;

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

/// Carries one connection, and returns what it shows of the server.
pub(super) async fn run(
    mut client_stream: TcpStream,
    mut server_stream: TcpStream,
    (health, address): (&Health, SocketAddr),
    max_wait: Duration,
) {
    let (client, server) = (RelaySide::default(), RelaySide::default());
    let (from_client, to_client) = client_stream.split();
    let (from_server, to_server) = server_stream.split();
    let hung_up = AtomicBool::new(false);
    let up = pump(from_client, to_server, &client);
    let down = async {
        let done = pump(from_server, to_client, &server).await;
        // A server that ends because its client did is not to blame.
        hung_up.store(!RelaySide::has(&client.ended), Ordering::Relaxed);
        done
    };
    let both = async { tokio::try_join!(up, down) };
    let listening = async {
        client.first_word.notified().await;
        match timeout(max_wait, server.first_word.notified()).await {
            Ok(()) => health.note_answer(address),
            Err(_) => health.note_silence(address),
        }
        pending::<()>().await;
    };
    tokio::select! {
        _ = both => {}
        () = listening => {}
    }
    let mute = RelaySide::has(&client.spoke) && !RelaySide::has(&server.spoke);
    if mute && RelaySide::has(&hung_up) {
        health.note_silence(address);
    }
}

/// Carries what one side sends to the other, until it has no more to send.
async fn pump(from: ReadHalf<'_>, mut to: WriteHalf<'_>, side: &RelaySide) -> io::Result<()> {
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
                    to.write_all(&piece).await?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
}

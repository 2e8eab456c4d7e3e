//! Servers that behave and servers that do not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Connections leave from 127.0.0.1 and take ports there. No process takes one
/// of this address between the death of a server and its return.
const OWN: Ipv4Addr = Ipv4Addr::new(127, 77, 77, 77);

/// How a server behaves.
#[derive(Clone, Copy)]
pub(crate) enum ServerBehaviour {
    /// Sends its name, then echoes what it receives.
    Echo(u8),
    /// Reads to the end, then sends how much it was.
    Count,
    /// Accepts and sends nothing.
    Hang,
    /// Accepts, listens for a word and ends.
    HangUp,
}

/// A server, until it is dropped, and its connections with it.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Backend {
    pub(crate) async fn new(manner: ServerBehaviour) -> Self {
        Self::at((OWN, 0).into(), manner).await
    }

    pub(crate) async fn at(address: SocketAddr, manner: ServerBehaviour) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                connections.spawn(async move { manner.serve(stream).await.ok() });
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            accepted,
            task,
        }
    }

    /// How many connections it has accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// An address at which no host is.
    pub(crate) async fn nobody() -> SocketAddr {
        let listener = TcpListener::bind((OWN, 0)).await.unwrap();
        listener.local_addr().unwrap()
    }

    /// Ends, and is gone when this returns.
    pub(crate) async fn die(mut self) -> SocketAddr {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.address
    }
}

impl ServerBehaviour {
    async fn serve(self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut piece = vec![0; 4096];
        match self {
            Self::Echo(name) => {
                let mut length = stream.read(&mut piece).await?;
                stream.write_all(&[name]).await?;
                while length > 0 {
                    stream.write_all(&piece[..length]).await?;
                    length = stream.read(&mut piece).await?;
                }
            }
            Self::Count => {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await?;
                stream.write_all(all.len().to_string().as_bytes()).await?;
            }
            Self::Hang => std::future::pending().await,
            Self::HangUp => {
                stream.read_u8().await?;
            }
        }
        Ok(())
    }
}

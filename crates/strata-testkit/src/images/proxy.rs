//! A wire that can be held: a proxy that passes so many bytes of a server's
//! answers and then nothing more, until it is released.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy in front of one server.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    left: Arc<watch::Sender<usize>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// In front of `server`; answers pass until this many bytes have.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn start(server: &str, bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let left = Arc::new(watch::Sender::new(bytes));
        let (server, shared) = (server.to_owned(), Arc::clone(&left));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(&server).await else {
                    continue;
                };
                tokio::spawn(pass(client, upstream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            left,
            accepting,
        }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Lets this many bytes more pass.
    pub fn allow(&self, bytes: usize) {
        self.left
            .send_modify(|left| *left = left.saturating_add(bytes));
    }

    /// Waits until everything that may pass has passed.
    pub async fn held(&self) {
        let mut left = self.left.subscribe();
        // The sender lives as long as we do.
        let _ = left.wait_for(|left| *left == 0).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(client: TcpStream, upstream: TcpStream, left: Arc<watch::Sender<usize>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let asking = async move {
        let _ = copy(&mut from_client, &mut to_server).await;
        // A client that sends no more requests needs no answers.
    };
    let answering = async move {
        let mut allowed = left.subscribe();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let Ok(may) = allowed.wait_for(|left| *left > 0).await.map(|left| *left) else {
                return;
            };
            let most = may.min(buffer.len());
            let Ok(got @ 1..) = from_server.read(&mut buffer[..most]).await else {
                return;
            };
            left.send_modify(|left| *left = left.saturating_sub(got));
            if to_client.write_all(&buffer[..got]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

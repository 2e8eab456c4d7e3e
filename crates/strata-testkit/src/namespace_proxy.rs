//! A way into another network namespace: a port of this one that leads to an
//! address of the other. Sockets stay in the namespace they were made in, so
//! a thread of its own goes there, connects, and hands the connection over.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::NetworkNamespace;

/// How long a connection over there may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A way into another network namespace. Closed when it is dropped.
#[derive(Debug)]
pub struct NamespaceProxy {
    near: SocketAddr,
    task: AbortHandle,
}

impl NamespaceProxy {
    /// Opens a way from a free port of this namespace to an address of the
    /// other one.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn to(network: &NetworkNamespace, far: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        Self::between(listener.expect("a port is free"), network.path(), far)
    }

    /// Opens a way from an address of the other namespace to another one of it.
    ///
    /// # Panics
    /// When the address is not free.
    pub async fn within(network: &NetworkNamespace, near: SocketAddr, far: SocketAddr) -> Self {
        let listener = inside(&network.path(), move || std::net::TcpListener::bind(near));
        let listener = listener.expect("the address is free");
        listener.set_nonblocking(true).expect("a socket is one");
        let listener = TcpListener::from_std(listener).expect("a socket is one");
        Self::between(listener, network.path(), far)
    }

    /// The same, and whatever passes arrives this much later, either way.
    ///
    /// # Panics
    /// When the address is not free.
    pub async fn slow(
        network: &NetworkNamespace,
        near: SocketAddr,
        far: SocketAddr,
        delay: Duration,
    ) -> Self {
        let listener = inside(&network.path(), move || std::net::TcpListener::bind(near));
        let listener = listener.expect("the address is free");
        listener.set_nonblocking(true).expect("a socket is one");
        let listener = TcpListener::from_std(listener).expect("a socket is one");
        Self::delayed(listener, network.path(), far, delay)
    }

    fn between(listener: TcpListener, network: PathBuf, far: SocketAddr) -> Self {
        Self::delayed(listener, network, far, Duration::ZERO)
    }

    fn delayed(listener: TcpListener, network: PathBuf, far: SocketAddr, delay: Duration) -> Self {
        let near = listener
            .local_addr()
            .expect("a bound socket has an address");
        let task = tokio::spawn(serve(listener, network, far, delay)).abort_handle();
        Self { near, task }
    }

    /// Where it begins.
    pub fn near(&self) -> SocketAddr {
        self.near
    }
}

impl Drop for NamespaceProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, network: PathBuf, far: SocketAddr, delay: Duration) {
    let mut all = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let network = network.clone();
        all.spawn(async move {
            let connect = move || inside(&network, move || connect(far));
            let Ok(Ok(far)) = tokio::task::spawn_blocking(connect).await else {
                return;
            };
            let Ok(mut far) = tokio::net::TcpStream::from_std(far) else {
                return;
            };
            if delay.is_zero() {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                return;
            }
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            let there = pass_later(from_near, to_far, delay);
            let back = pass_later(from_far, to_near, delay);
            tokio::select! {
                _ = there => {}
                _ = back => {}
            }
        });
    }
}

/// Passes on what comes, each piece this long after it came.
async fn pass_later(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    let read = async {
        loop {
            let mut piece = vec![0; 16 << 10];
            let len = from.read(&mut piece).await?;
            piece.truncate(len);
            let sent = sender.send((Instant::now() + delay, piece)).await;
            if len == 0 || sent.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async {
        while let Some((at, piece)) = pieces.recv().await {
            tokio::time::sleep_until(at).await;
            if piece.is_empty() {
                break;
            }
            to.write_all(&piece).await?;
        }
        io::Result::Ok(())
    };
    tokio::try_join!(read, write).map(drop)
}

fn connect(far: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&far, CONNECT_TIMEOUT)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Does something in a network namespace, on a thread that ends there.
pub(crate) fn inside<T: Send + 'static>(
    network: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = std::fs::File::open(network)?;
    let thread = std::thread::spawn(move || {
        use std::os::fd::AsFd as _;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    });
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
}

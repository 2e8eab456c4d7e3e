//! A way into another network namespace: a port of this one that leads to an
//! address of the other. Sockets stay in the namespace they were made in, so
//! a thread of its own goes there, connects, and hands the connection over.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use crate::NetworkNamespace;

/// How long a connection over there may take.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// A way into another network namespace. Closed when it is dropped.
#[derive(Debug)]
pub struct Way {
    near: SocketAddr,
    task: AbortHandle,
}

impl Way {
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

    fn between(listener: TcpListener, network: PathBuf, far: SocketAddr) -> Self {
        let near = listener
            .local_addr()
            .expect("a bound socket has an address");
        let task = tokio::spawn(serve(listener, network, far)).abort_handle();
        Self { near, task }
    }

    /// Where it begins.
    pub fn near(&self) -> SocketAddr {
        self.near
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, network: PathBuf, far: SocketAddr) {
    let mut all = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let network = network.clone();
        all.spawn(async move {
            let connect = move || inside(&network, move || connect(far));
            let Ok(Ok(far)) = tokio::task::spawn_blocking(connect).await else {
                return;
            };
            if let Ok(mut far) = tokio::net::TcpStream::from_std(far) {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}

fn connect(far: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&far, CONNECTS_WITHIN)?;
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

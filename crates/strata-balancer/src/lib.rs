//! A balancer of TCP connections: one address in front of several servers.
//!
//! ```text
//!   accept ──▶ choice: who is tried, in which order (pure)
//!                 │  ▲ health: probes, and what became of connections
//!                 ▼  │
//!              relay: bytes both ways until both sides are done
//! ```
//!
//! It looks at no byte: what it carries is encrypted from end to end, and whose
//! certificate a client accepts stays with the client. So a server is known by
//! how it behaves. One that takes no connection is passed over until it does.
//! One that takes a connection and then sends nothing, or closes it without an
//! answer, is suspected for a while: a program that hangs still has a kernel
//! that accepts.

#![forbid(unsafe_code)]

mod choice;
mod health;
mod relay;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strata_tasks::log_panics;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use health::Health;

/// The system refuses more files for a moment.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How a balancer behaves. The default is for API servers of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// How many connections there may be; others wait to be accepted.
    pub connections: usize,
    /// How long a server may take to accept.
    pub connect: Duration,
    /// The interval at which each server is tried without a client.
    pub probe: Duration,
    /// How long a server may take for its first byte to a client that has sent
    /// something.
    pub answer: Duration,
    /// How long a server is suspected; twice as long each time in a row.
    pub suspicion: Duration,
    /// How long connections go on to a server that is no longer in the list.
    pub farewell: Duration,
}

impl Default for Balancer {
    fn default() -> Self {
        Self {
            connections: 4096,
            connect: Duration::from_secs(1),
            probe: Duration::from_secs(2),
            answer: Duration::from_secs(3),
            suspicion: Duration::from_secs(5),
            farewell: Duration::from_secs(10),
        }
    }
}

impl Balancer {
    /// Serves until it is dropped, and all its connections with it. The
    /// servers may change at any time; when their sender is gone they stay.
    pub async fn run(self, listener: TcpListener, servers: watch::Receiver<Vec<SocketAddr>>) {
        let room = Arc::new(Semaphore::new(self.connections));
        let shared = Arc::new(Shared {
            health: Health::new(self.suspicion),
            settings: self,
            servers,
        });
        // In this task: without its probes a balancer is not to go on.
        tokio::select! {
            () = shared.probe() => {}
            () = accept(&shared, &listener, &room) => {}
        }
    }
}

async fn accept(shared: &Arc<Shared>, listener: &TcpListener, room: &Arc<Semaphore>) {
    let mut tasks = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(room).acquire_owned().await else {
            return;
        };
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        match client {
            Ok((client, _)) => {
                let shared = Arc::clone(shared);
                tasks.spawn(log_panics("balancer-connection", async move {
                    shared.serve(client).await;
                    drop(place);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

struct Shared {
    settings: Balancer,
    health: Health,
    servers: watch::Receiver<Vec<SocketAddr>>,
}

impl Shared {
    async fn serve(&self, client: TcpStream) {
        let servers = self.servers.borrow().clone();
        for server in self.health.order(&servers) {
            let Some(stream) = self.connect(server).await else {
                continue;
            };
            socket::prepare(&client);
            let health = (&self.health, server);
            tokio::select! {
                () = relay::run(client, stream, health, self.settings.answer) => {}
                () = self.gone(server) => {
                    tracing::debug!(%server, "connection to a removed server closed");
                }
            }
            return;
        }
        tracing::debug!("no server accepts connections");
        socket::refuse(&client);
    }

    async fn connect(&self, server: SocketAddr) -> Option<TcpStream> {
        let connected = timeout(self.settings.connect, TcpStream::connect(server)).await;
        let stream = connected.ok().and_then(Result::ok);
        self.health.note_reachable(server, stream.is_some());
        if let Some(stream) = &stream {
            socket::prepare(stream);
        }
        stream
    }

    /// Tries all servers periodically, and at once when they change.
    async fn probe(&self) {
        let mut servers = self.servers.clone();
        loop {
            let now = servers.borrow_and_update().clone();
            self.health.keep(&now);
            let mut probes = JoinSet::new();
            for server in now {
                let max_wait = self.settings.connect;
                probes.spawn(async move {
                    let connected = timeout(max_wait, TcpStream::connect(server)).await;
                    (server, matches!(connected, Ok(Ok(_))))
                });
            }
            while let Some(probed) = probes.join_next().await {
                if let Ok((server, reachable)) = probed {
                    self.health.note_reachable(server, reachable);
                }
            }
            tokio::select! {
                () = sleep(self.settings.probe) => {}
                Ok(()) = servers.changed() => {}
            }
        }
    }

    /// Waits until a server has been out of the list for long enough.
    async fn gone(&self, server: SocketAddr) {
        let mut servers = self.servers.clone();
        loop {
            if servers
                .wait_for(|all| !all.contains(&server))
                .await
                .is_err()
            {
                return std::future::pending().await;
            }
            let back = async {
                if servers.wait_for(|all| all.contains(&server)).await.is_err() {
                    // No task will put it back.
                    std::future::pending::<()>().await;
                }
            };
            if timeout(self.settings.farewell, back).await.is_err() {
                return;
            }
        }
    }
}

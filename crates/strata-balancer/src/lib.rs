//! A balancer of TCP connections: one address in front of several servers.
//!
//! ```text
//!   accept ──▶ connections: which one makes room for a new one
//!                 │ first byte of the client
//!                 ▼
//!              choice: who is tried, in which order (pure)
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
mod connections;
mod health;
mod relay;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strata_tasks::log_panics;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use connections::Connection;
pub use connections::Connections;
use health::Health;
use relay::Relay;

/// The system refuses more files for a moment.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How a balancer behaves. The default is for API servers of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// How long a client may take for its first byte. No server is tried
    /// before: a client that sends nothing costs one descriptor for so long.
    pub first_byte: Duration,
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
    /// After one side has ended, how long the other one may take for each of
    /// its bytes.
    pub half_open: Duration,
}

impl Default for Balancer {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(10),
            connect: Duration::from_secs(1),
            probe: Duration::from_secs(2),
            answer: Duration::from_secs(3),
            suspicion: Duration::from_secs(5),
            farewell: Duration::from_secs(10),
            half_open: Duration::from_secs(5),
        }
    }
}

impl Balancer {
    /// Serves until it is dropped, and all its connections with it. The
    /// servers may change at any time; when their sender is gone they stay.
    /// The bounds of connections may be those of further balancers.
    pub async fn run(
        self,
        listener: TcpListener,
        servers: watch::Receiver<Vec<SocketAddr>>,
        connections: Arc<Connections>,
    ) {
        let shared = Arc::new(Shared {
            health: Health::new(self.suspicion),
            settings: self,
            servers,
        });
        // In this task: without its probes a balancer is not to go on.
        tokio::select! {
            () = shared.probe() => {}
            () = accept(&shared, &listener, &connections) => {}
        }
    }
}

async fn accept(shared: &Arc<Shared>, listener: &TcpListener, connections: &Arc<Connections>) {
    let mut tasks = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        match client {
            Ok((client, from)) => {
                let Some(connection) = connections.enter(from.ip()).await else {
                    return;
                };
                let shared = Arc::clone(shared);
                tasks.spawn(log_panics("balancer-connection", async move {
                    tokio::select! {
                        () = shared.serve(client, &connection) => {}
                        () = connection.evicted() => {
                            tracing::debug!(%from, "silent connection closed for a new one");
                        }
                    }
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
    async fn serve(&self, client: TcpStream, connection: &Connection) {
        let speaks = timeout(self.settings.first_byte, client.peek(&mut [0])).await;
        if !matches!(speaks, Ok(Ok(1..))) {
            return;
        }
        connection.note_bytes(false);
        let servers = self.servers.borrow().clone();
        for server in self.health.order(&servers) {
            let Some(stream) = self.connect(server).await else {
                continue;
            };
            socket::prepare(&client);
            let relay = Relay {
                connection,
                health: &self.health,
                server,
                answer: self.settings.answer,
                half_open: self.settings.half_open,
            };
            tokio::select! {
                () = relay.run(client, stream) => {}
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

//! The server: a bounded number of queries at once, each for a bounded time.
//! What exceeds that is dropped, and repeated by the client.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use strata_tasks::log_panics;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::forward::{Upstreams, receive, send};
use super::message::{QueryAction, failure, react};
use super::shares::{Share, Shares};
use crate::Network;
use crate::error::{NetworkError, Result};
use crate::network::Inner;

/// Questions that wait for others at the same time.
const MAX_CONCURRENT_QUERIES: usize = 256;
/// Connections at the same time.
const CONNECTIONS: usize = 64;
/// How long a connection may be silent, or an answer take to be sent.
const IDLE: Duration = Duration::from_secs(10);
/// Questions have no business to be longer.
const MAX_QUERY_LEN: usize = 4096;

struct Server {
    inner: Arc<Inner>,
    upstreams: Upstreams,
    questions: Arc<Shares>,
    connections: Arc<Shares>,
}

impl Network {
    /// Answers queries for names until it is stopped.
    pub async fn serve_names(&self, stop: CancellationToken) -> Result<()> {
        let (udp, tcp) = self.name_sockets().map_err(|source| NetworkError::Listen {
            what: "questions for names",
            source,
        })?;
        let config = &self.0.config;
        let server = Arc::new(Server {
            inner: Arc::clone(&self.0),
            upstreams: Upstreams::new(&config.dns_upstreams, config.subnet.gateway()),
            questions: Shares::of(MAX_CONCURRENT_QUERIES),
            connections: Shares::of(CONNECTIONS),
        });
        let mut tasks = JoinSet::new();
        let mut buffer = vec![0; MAX_QUERY_LEN];
        let udp = Arc::new(udp);
        loop {
            tokio::select! {
                // Ends everything that is under way: dropping the set does.
                () = stop.cancelled() => return Ok(()),
                Some(_) = tasks.join_next() => {}
                received = udp.recv_from(&mut buffer) => {
                    if let Ok((length, client)) = received {
                        let question = &buffer[..length];
                        Arc::clone(&server).on_packet(&udp, question, client, &mut tasks);
                    }
                }
                accepted = tcp.accept() => match accepted {
                    Ok((stream, client)) => {
                        Arc::clone(&server).on_connect(stream, client, &mut tasks);
                    }
                    // Out of descriptors, most likely: not at full speed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
    }

    fn name_sockets(&self) -> io::Result<(UdpSocket, TcpListener)> {
        let held = &self.0.name_sockets;
        let udp = held.udp.try_clone()?;
        let tcp = held.tcp.try_clone()?;
        Ok((UdpSocket::from_std(udp)?, TcpListener::from_std(tcp)?))
    }
}

impl Server {
    /// What we know is answered at once; only what others know takes a task.
    /// It has its share before it has a task: tasks that were not run yet would
    /// take the room of others.
    fn on_packet(
        self: Arc<Self>,
        udp: &Arc<UdpSocket>,
        question: &[u8],
        client: SocketAddr,
        tasks: &mut JoinSet<()>,
    ) {
        if !self.inner.directory.may_ask(client.ip()) {
            return;
        }
        match react(question, &self.inner.directory, client.ip()) {
            QueryAction::Ignore => {}
            QueryAction::Reply(reply) => {
                let _ = udp.try_send_to(&reply, client);
            }
            QueryAction::Forward => {
                let Some(share) = self.share_of(&self.questions, client.ip()) else {
                    return;
                };
                let (udp, question) = (Arc::clone(udp), question.to_vec());
                tasks.spawn(log_panics("dns-question", async move {
                    let _share = share;
                    if let Some(answer) = self.ask(&question, false).await {
                        let _ = udp.send_to(&answer, client).await;
                    }
                }));
            }
        }
    }

    fn on_connect(self: Arc<Self>, stream: TcpStream, client: SocketAddr, tasks: &mut JoinSet<()>) {
        if !self.inner.directory.may_ask(client.ip()) {
            return;
        }
        if let Some(share) = self.share_of(&self.connections, client.ip()) {
            tasks.spawn(log_panics("dns-connection", async move {
                let _share = share;
                self.answer_all(stream, client.ip()).await;
            }));
        }
    }

    async fn answer_all(&self, mut stream: TcpStream, client: IpAddr) {
        while let Ok(Ok(question)) = timeout(IDLE, receive(&mut stream)).await {
            let answer = match react(&question, &self.inner.directory, client) {
                QueryAction::Ignore => return,
                QueryAction::Reply(reply) => Some(reply),
                QueryAction::Forward => {
                    let Some(_share) = self.share_of(&self.questions, client) else {
                        return;
                    };
                    self.ask(&question, true).await
                }
            };
            let Some(answer) = answer else { return };
            if !matches!(timeout(IDLE, send(&mut stream, &answer)).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    fn share_of(&self, shares: &Arc<Shares>, client: IpAddr) -> Option<Share> {
        shares.take(client, self.inner.directory.project_of(client))
    }

    async fn ask(&self, question: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
        match self.upstreams.ask(question, over_tcp).await {
            Some(answer) => Some(answer),
            None => failure(question),
        }
    }
}

//! The server: a bounded number of questions at once, each for a bounded
//! time. What comes beyond that is dropped, and asked again by those who
//! asked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::forward::{Upstreams, receive, send};
use super::message::{Reaction, failure, react};
use crate::Network;
use crate::error::{NetworkError, Result};
use crate::network::Inner;

/// Questions that wait for others at the same time.
const AT_ONCE: usize = 256;
/// Connections at the same time.
const CONNECTIONS: usize = 64;
/// How long a connection may be silent, or an answer take to be sent.
const IDLE: Duration = Duration::from_secs(10);
/// Questions have no business to be longer.
const LONGEST_QUESTION: usize = 4096;

struct Server {
    inner: Arc<Inner>,
    upstreams: Upstreams,
    questions: Semaphore,
    connections: Semaphore,
}

impl Network {
    /// Answers questions for names until told to stop.
    pub async fn serve_names(&self, stop: CancellationToken) -> Result<()> {
        let (udp, tcp) = self.name_sockets().map_err(|source| NetworkError::Listen {
            what: "questions for names",
            source,
        })?;
        let config = &self.0.config;
        let server = Arc::new(Server {
            inner: Arc::clone(&self.0),
            upstreams: Upstreams::new(&config.dns_upstreams, config.subnet.gateway()),
            questions: Semaphore::new(AT_ONCE),
            connections: Semaphore::new(CONNECTIONS),
        });
        let mut tasks = JoinSet::new();
        let mut buffer = vec![0; LONGEST_QUESTION];
        let udp = Arc::new(udp);
        loop {
            tokio::select! {
                // Ends everything that is under way: dropping the set does.
                () = stop.cancelled() => return Ok(()),
                Some(_) = tasks.join_next() => {}
                received = udp.recv_from(&mut buffer) => {
                    if let Ok((length, asker)) = received {
                        let question = &buffer[..length];
                        Arc::clone(&server).on_packet(&udp, question, asker, &mut tasks).await;
                    }
                }
                accepted = tcp.accept() => match accepted {
                    Ok((stream, asker)) => {
                        tasks.spawn(Arc::clone(&server).on_connection(stream, asker));
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
    async fn on_packet(
        self: Arc<Self>,
        udp: &Arc<UdpSocket>,
        question: &[u8],
        asker: SocketAddr,
        tasks: &mut JoinSet<()>,
    ) {
        if !self.inner.directory.may_ask(asker.ip()) {
            return;
        }
        match react(question, &self.inner.directory, asker.ip()) {
            Reaction::Ignore => {}
            Reaction::Reply(reply) => {
                let _ = udp.try_send_to(&reply, asker);
            }
            Reaction::Forward if tasks.len() >= AT_ONCE + CONNECTIONS => {}
            Reaction::Forward => {
                let (udp, question) = (Arc::clone(udp), question.to_vec());
                tasks.spawn(async move {
                    if let Some(answer) = self.ask(&question, false).await {
                        let _ = udp.send_to(&answer, asker).await;
                    }
                });
            }
        }
    }

    async fn on_connection(self: Arc<Self>, mut stream: TcpStream, asker: SocketAddr) {
        if !self.inner.directory.may_ask(asker.ip()) {
            return;
        }
        let Ok(_permit) = self.connections.try_acquire() else {
            return;
        };
        while let Ok(Ok(question)) = timeout(IDLE, receive(&mut stream)).await {
            let answer = match react(&question, &self.inner.directory, asker.ip()) {
                Reaction::Ignore => return,
                Reaction::Reply(reply) => Some(reply),
                Reaction::Forward => self.ask(&question, true).await,
            };
            let Some(answer) = answer else { return };
            if !matches!(timeout(IDLE, send(&mut stream, &answer)).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    async fn ask(&self, question: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
        let _permit = self.questions.try_acquire().ok()?;
        match self.upstreams.ask(question, over_tcp).await {
            Some(answer) => Some(answer),
            None => failure(question),
        }
    }
}

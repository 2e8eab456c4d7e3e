//! The balancer in front of servers that refuse, hang, hang up and die.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use strata_cluster_agent::{Balancer, Connections};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::backend::{Backend, ServerBehaviour};
use crate::world::TEST_TIMEOUT;

const SHORT_DELAY: Duration = Duration::from_millis(200);

/// A balancer that runs, until dropped.
struct Running {
    address: SocketAddr,
    servers: watch::Sender<Vec<SocketAddr>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    async fn new(settings: Balancer, servers: &[SocketAddr]) -> Self {
        Self::with(settings, servers, Connections::of_process()).await
    }

    async fn with(
        settings: Balancer,
        servers: &[SocketAddr],
        connections: Arc<Connections>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, receiver) = watch::channel(servers.to_vec());
        let task = tokio::spawn(settings.run(listener, receiver, connections));
        Self {
            address,
            servers: sender,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The same from another address of this host.
    async fn connect_from(&self, address: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a word to the server behind it; which that is, and the connection.
    async fn greet(&self) -> std::io::Result<(u8, TcpStream)> {
        let mut stream = self.connect().await;
        let name = say(&mut stream).await?;
        Ok((name, stream))
    }

    /// How often each server is met.
    async fn count(&self, times: usize) -> BTreeMap<u8, usize> {
        let mut met = BTreeMap::new();
        for _ in 0..times {
            let (name, _) = self.greet().await.unwrap();
            *met.entry(name).or_default() += 1;
        }
        met
    }
}

/// Sends the first word; the name of the server.
async fn say(stream: &mut TcpStream) -> std::io::Result<u8> {
    stream.write_all(b"x").await?;
    let mut heard = [0; 2];
    timeout(TEST_TIMEOUT, stream.read_exact(&mut heard)).await??;
    assert_eq!(heard[1], b'x');
    Ok(heard[0])
}

/// Waits until the other side ends the connection.
async fn ends(stream: &mut TcpStream) {
    let ended = timeout(TEST_TIMEOUT, stream.read(&mut [0])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

/// Sends something on a connection that is under way, and receives it.
async fn still_there(stream: &mut TcpStream) {
    stream.write_all(b"y").await.unwrap();
    let mut heard = [0];
    let read = stream.read_exact(&mut heard);
    timeout(TEST_TIMEOUT, read).await.unwrap().unwrap();
    assert_eq!(heard, *b"y");
}

#[tokio::test]
async fn connections_are_spread_over_the_servers_that_take_them() {
    let (one, two) = (
        Backend::new(ServerBehaviour::Echo(1)).await,
        Backend::new(ServerBehaviour::Echo(2)).await,
    );
    let all = [one.address, Backend::nobody().await, two.address];
    let balancer = Running::new(Balancer::default(), &all).await;
    let met = balancer.count(30).await;
    assert_eq!(met.len(), 2, "{met:?}");
    assert!(met.values().all(|times| *times >= 10), "{met:?}");
    // One dies, with all its connections, and is back.
    let (name, mut stream) = balancer.greet().await.unwrap();
    let (dead, other, alive) = if name == 1 {
        (one, two, 2)
    } else {
        (two, one, 1)
    };
    let address = dead.die().await;
    ends(&mut stream).await;
    assert_eq!(balancer.count(10).await, BTreeMap::from([(alive, 10)]));
    let again = Backend::at(address, ServerBehaviour::Echo(name)).await;
    let back = async { while balancer.count(4).await.len() < 2 {} };
    timeout(TEST_TIMEOUT, back).await.unwrap();
    drop((again, other));
}

#[tokio::test]
async fn a_server_that_hangs_is_passed_over_after_the_first_who_waited() {
    let (good, bad) = (
        Backend::new(ServerBehaviour::Echo(1)).await,
        Backend::new(ServerBehaviour::Hang).await,
    );
    let settings = Balancer {
        answer: SHORT_DELAY,
        suspicion: TEST_TIMEOUT,
        ..Balancer::default()
    };
    let balancer = Running::new(settings, &[good.address, bad.address]).await;
    // Two in a row are one of each.
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut stream = balancer.connect().await;
        stream.write_all(b"x").await.unwrap();
        waiting.push(stream);
    }
    let noticed = async {
        loop {
            let many = timeout(SHORT_DELAY, balancer.count(4)).await;
            if many.is_ok_and(|met| met == BTreeMap::from([(1, 4)])) {
                return;
            }
        }
    };
    timeout(TEST_TIMEOUT, noticed).await.unwrap();
    assert_eq!(balancer.count(20).await, BTreeMap::from([(1, 20)]));
    // It is the last choice, and not none.
    let address = good.die().await;
    balancer.servers.send_replace(vec![bad.address]);
    let mut stream = balancer.connect().await;
    let nothing = timeout(SHORT_DELAY, stream.read(&mut [0])).await;
    assert!(nothing.is_err(), "held by the one that hangs: {nothing:?}");
    drop((address, waiting));
}

#[tokio::test]
async fn a_server_that_hangs_up_is_passed_over() {
    let (good, bad) = (
        Backend::new(ServerBehaviour::Echo(1)).await,
        Backend::new(ServerBehaviour::HangUp).await,
    );
    let settings = Balancer {
        suspicion: TEST_TIMEOUT,
        ..Balancer::default()
    };
    let balancer = Running::new(settings, &[bad.address, good.address]).await;
    let mut failed = 0;
    for _ in 0..20 {
        failed += usize::from(balancer.greet().await.is_err());
    }
    assert_eq!(failed, 1, "the first one alone");
}

#[tokio::test]
async fn half_closed_client_still_receives_the_response() {
    let server = Backend::new(ServerBehaviour::Count).await;
    let balancer = Running::new(Balancer::default(), &[server.address]).await;
    let mut stream = balancer.connect().await;
    stream.write_all(&vec![7; 3_000_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    timeout(TEST_TIMEOUT, stream.read_to_string(&mut said))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(said, "3000000");
}

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).unwrap();
}

#[tokio::test]
async fn a_thousand_connections_at_once() {
    raise_open_files();
    let (one, two) = (
        Backend::new(ServerBehaviour::Echo(1)).await,
        Backend::new(ServerBehaviour::Echo(2)).await,
    );
    let servers = [one.address, two.address];
    let connections = Connections::new(1000, 1000);
    let balancer = Running::with(Balancer::default(), &servers, connections).await;
    let mut streams = Vec::new();
    let mut met: BTreeMap<u8, usize> = BTreeMap::new();
    for _ in 0..1000 {
        let (name, stream) = balancer.greet().await.unwrap();
        *met.entry(name).or_default() += 1;
        streams.push(stream);
    }
    assert_eq!(met, BTreeMap::from([(1, 500), (2, 500)]));
    for stream in &mut streams {
        still_there(stream).await;
    }
}

#[tokio::test]
async fn connections_to_a_server_that_left_the_list_end_after_a_while() {
    let (one, two) = (
        Backend::new(ServerBehaviour::Echo(1)).await,
        Backend::new(ServerBehaviour::Echo(2)).await,
    );
    let settings = Balancer {
        farewell: SHORT_DELAY,
        ..Balancer::default()
    };
    let balancer = Running::new(settings, &[one.address]).await;
    let (_, mut leaving) = balancer.greet().await.unwrap();
    balancer.servers.send_replace(vec![two.address]);
    still_there(&mut leaving).await;
    let (name, mut wait) = balancer.greet().await.unwrap();
    assert_eq!(name, 2);
    ends(&mut leaving).await;
    still_there(&mut wait).await;
    // One that is back in time is as if it had never left.
    balancer.servers.send_replace(vec![one.address]);
    balancer
        .servers
        .send_replace(vec![two.address, one.address]);
    assert!(timeout(SHORT_DELAY * 2, wait.read(&mut [0])).await.is_err());
    still_there(&mut wait).await;
}

#[tokio::test]
async fn silent_connections_of_one_source_lock_out_no_client_and_reach_no_server() {
    raise_open_files();
    let server = Backend::new(ServerBehaviour::Echo(1)).await;
    let balancer = Running::new(Balancer::default(), &[server.address]).await;
    let client = Ipv4Addr::new(127, 0, 0, 2);
    let mut watch = balancer.connect_from(client).await;
    say(&mut watch).await.unwrap();
    let probes = server.accepted();
    let mut silent = Vec::new();
    for _ in 0..5000 {
        silent.push(balancer.connect().await);
    }
    let mut other = balancer.connect_from(client).await;
    assert_eq!(say(&mut other).await.unwrap(), 1);
    still_there(&mut watch).await;
    // The source has made room at its own cost.
    ends(&mut silent[0]).await;
    let reached = server.accepted() - probes;
    assert!(reached < 500, "{reached} connections to the server");
    // Its own next client is served, too.
    assert_eq!(balancer.greet().await.unwrap().0, 1);
}

#[tokio::test]
async fn full_balancers_close_the_oldest_silent_connection_of_all_together() {
    let server = Backend::new(ServerBehaviour::Echo(1)).await;
    let connections = Connections::new(20, 100);
    let servers = [server.address];
    let run = || Running::with(Balancer::default(), &servers, connections.clone());
    let (one, two) = (run().await, run().await);
    let mut silent = Vec::new();
    for _ in 0..30 {
        silent.push(one.connect().await);
    }
    let mut other = two.connect_from(Ipv4Addr::new(127, 0, 0, 2)).await;
    assert_eq!(say(&mut other).await.unwrap(), 1);
    ends(&mut silent[0]).await;
}

#[tokio::test]
async fn client_that_sends_nothing_is_closed_without_a_connection_to_a_server() {
    let server = Backend::new(ServerBehaviour::Echo(1)).await;
    let settings = Balancer {
        first_byte: SHORT_DELAY,
        probe: TEST_TIMEOUT,
        ..Balancer::default()
    };
    let balancer = Running::new(settings, &[server.address]).await;
    balancer.greet().await.unwrap();
    let before = server.accepted();
    ends(&mut balancer.connect().await).await;
    assert_eq!(server.accepted(), before);
}

#[tokio::test]
async fn silent_client_is_closed_after_its_server_ended() {
    let server = Backend::new(ServerBehaviour::HangUp).await;
    let settings = Balancer {
        half_open: SHORT_DELAY,
        ..Balancer::default()
    };
    let connections = Connections::new(1, 1);
    let balancer = Running::with(settings, &[server.address], connections.clone()).await;
    let mut client = balancer.connect().await;
    client.write_all(b"x").await.unwrap();
    // The end is passed on, and this client keeps its side open.
    ends(&mut client).await;
    let free = async {
        while connections.in_use() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, free).await.unwrap();
    drop(client);
}

#[tokio::test]
async fn connection_is_reset_without_servers_and_all_servers_are_retried_each_time() {
    let settings = Balancer {
        probe: TEST_TIMEOUT,
        ..Balancer::default()
    };
    let nobody = Backend::nobody().await;
    let balancer = Running::new(settings, &[]).await;
    let reset = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    reset(balancer.greet().await.unwrap_err());
    balancer.servers.send_replace(vec![nobody]);
    reset(balancer.greet().await.unwrap_err());
    // It is known as down until far in the future, and found all the same.
    let _server = Backend::at(nobody, ServerBehaviour::Echo(1)).await;
    assert_eq!(balancer.count(3).await, BTreeMap::from([(1, 3)]));
}

#[tokio::test]
async fn connections_are_closed_when_the_balancer_stops() {
    let server = Backend::new(ServerBehaviour::Echo(1)).await;
    let balancer = Running::new(Balancer::default(), &[server.address]).await;
    let (_, mut stream) = balancer.greet().await.unwrap();
    drop(balancer);
    ends(&mut stream).await;
}

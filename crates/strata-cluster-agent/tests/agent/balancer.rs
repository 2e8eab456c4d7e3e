//! The balancer in front of servers that refuse, hang, hang up and die.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use strata_cluster_agent::Balancer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::backend::{Backend, Manner};
use crate::world::PATIENCE;

const MOMENT: Duration = Duration::from_millis(200);

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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, receiver) = watch::channel(servers.to_vec());
        let task = tokio::spawn(settings.run(listener, receiver));
        Self {
            address,
            servers: sender,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Says a word to whoever is behind it; who that is, and the connection.
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

/// Says the first word; the name of the server.
async fn say(stream: &mut TcpStream) -> std::io::Result<u8> {
    stream.write_all(b"x").await?;
    let mut heard = [0; 2];
    timeout(PATIENCE, stream.read_exact(&mut heard)).await??;
    assert_eq!(heard[1], b'x');
    Ok(heard[0])
}

/// Waits until the other side ends the connection.
async fn ends(stream: &mut TcpStream) {
    let ended = timeout(PATIENCE, stream.read(&mut [0])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

/// Says something on a connection that is under way, and hears it.
async fn still_there(stream: &mut TcpStream) {
    stream.write_all(b"y").await.unwrap();
    let mut heard = [0];
    let read = stream.read_exact(&mut heard);
    timeout(PATIENCE, read).await.unwrap().unwrap();
    assert_eq!(heard, *b"y");
}

#[tokio::test]
async fn connections_are_spread_over_the_servers_that_take_them() {
    let (one, two) = (
        Backend::new(Manner::Echo(1)).await,
        Backend::new(Manner::Echo(2)).await,
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
    let again = Backend::at(address, Manner::Echo(name)).await;
    let back = async { while balancer.count(4).await.len() < 2 {} };
    timeout(PATIENCE, back).await.unwrap();
    drop((again, other));
}

#[tokio::test]
async fn a_server_that_hangs_is_passed_over_after_the_first_who_waited() {
    let (good, bad) = (
        Backend::new(Manner::Echo(1)).await,
        Backend::new(Manner::Hang).await,
    );
    let settings = Balancer {
        answer: MOMENT,
        suspicion: PATIENCE,
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
            let many = timeout(MOMENT, balancer.count(4)).await;
            if many.is_ok_and(|met| met == BTreeMap::from([(1, 4)])) {
                return;
            }
        }
    };
    timeout(PATIENCE, noticed).await.unwrap();
    assert_eq!(balancer.count(20).await, BTreeMap::from([(1, 20)]));
    // It is the last choice, and not none.
    let address = good.die().await;
    balancer.servers.send_replace(vec![bad.address]);
    let mut stream = balancer.connect().await;
    let nothing = timeout(MOMENT, stream.read(&mut [0])).await;
    assert!(nothing.is_err(), "held by the one that hangs: {nothing:?}");
    drop((address, waiting));
}

#[tokio::test]
async fn a_server_that_hangs_up_is_passed_over() {
    let (good, bad) = (
        Backend::new(Manner::Echo(1)).await,
        Backend::new(Manner::HangUp).await,
    );
    let settings = Balancer {
        suspicion: PATIENCE,
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
async fn a_client_that_has_said_everything_still_hears_the_answer() {
    let server = Backend::new(Manner::Count).await;
    let balancer = Running::new(Balancer::default(), &[server.address]).await;
    let mut stream = balancer.connect().await;
    stream.write_all(&vec![7; 3_000_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut said))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(said, "3000000");
}

#[tokio::test]
async fn a_thousand_connections_at_once() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).unwrap();
    let (one, two) = (
        Backend::new(Manner::Echo(1)).await,
        Backend::new(Manner::Echo(2)).await,
    );
    let balancer = Running::new(Balancer::default(), &[one.address, two.address]).await;
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
        Backend::new(Manner::Echo(1)).await,
        Backend::new(Manner::Echo(2)).await,
    );
    let settings = Balancer {
        farewell: MOMENT,
        ..Balancer::default()
    };
    let balancer = Running::new(settings, &[one.address]).await;
    let (_, mut leaving) = balancer.greet().await.unwrap();
    balancer.servers.send_replace(vec![two.address]);
    still_there(&mut leaving).await;
    let (name, mut staying) = balancer.greet().await.unwrap();
    assert_eq!(name, 2);
    ends(&mut leaving).await;
    still_there(&mut staying).await;
    // One that is back in time is as if it had never left.
    balancer.servers.send_replace(vec![one.address]);
    balancer
        .servers
        .send_replace(vec![two.address, one.address]);
    assert!(timeout(MOMENT * 2, staying.read(&mut [0])).await.is_err());
    still_there(&mut staying).await;
}

#[tokio::test]
async fn more_than_allowed_wait_until_there_is_room() {
    let server = Backend::new(Manner::Echo(1)).await;
    let settings = Balancer {
        connections: 2,
        ..Balancer::default()
    };
    let balancer = Running::new(settings, &[server.address]).await;
    let (first, second) = (
        balancer.greet().await.unwrap(),
        balancer.greet().await.unwrap(),
    );
    let mut third = balancer.connect().await;
    assert!(timeout(MOMENT, say(&mut third)).await.is_err());
    drop(first);
    let mut heard = [0; 2];
    timeout(PATIENCE, third.read_exact(&mut heard))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(heard, [1, b'x']);
    drop(second);
}

#[tokio::test]
async fn nobody_there_is_a_reset_and_everybody_is_tried_again_each_time() {
    let settings = Balancer {
        probe: PATIENCE,
        ..Balancer::default()
    };
    let nobody = Backend::nobody().await;
    let balancer = Running::new(settings, &[]).await;
    let reset = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    reset(balancer.connect().await.read(&mut [0]).await.unwrap_err());
    balancer.servers.send_replace(vec![nobody]);
    reset(balancer.connect().await.read(&mut [0]).await.unwrap_err());
    // It is known as down until far in the future, and found all the same.
    let _server = Backend::at(nobody, Manner::Echo(1)).await;
    assert_eq!(balancer.count(3).await, BTreeMap::from([(1, 3)]));
}

#[tokio::test]
async fn all_connections_end_with_the_balancer() {
    let server = Backend::new(Manner::Echo(1)).await;
    let balancer = Running::new(Balancer::default(), &[server.address]).await;
    let (_, mut stream) = balancer.greet().await.unwrap();
    drop(balancer);
    ends(&mut stream).await;
}

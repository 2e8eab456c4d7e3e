//! A client that asks a web server again and again, each time by a connection
//! of its own, and remembers what was not answered.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use strata_testkit::{NamespaceProxy, NetworkNamespace, wait_for};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// A connection that lost its first packet comes about by the second.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    pub(crate) answered: u64,
    /// When, since the beginning, and why.
    pub(crate) failed: Vec<(Duration, String)>,
    pub(crate) slowest: Duration,
}

/// A client that asks on until it is told to stop.
pub(crate) struct Asking {
    count: Arc<Mutex<Count>>,
    task: JoinHandle<()>,
    _way: NamespaceProxy,
}

impl Asking {
    /// Begins to ask an address of the network, once somebody answers there.
    pub(crate) async fn begin(network: &NetworkNamespace, far: SocketAddr) -> Self {
        let way = NamespaceProxy::to(network, far).await;
        let near = way.near();
        wait_for("the first answer", TEST_TIMEOUT, async || ask(near).await).await;
        let count = Arc::new(Mutex::new(Count::default()));
        let task = tokio::spawn(ask_on(near, Arc::clone(&count)));
        Self {
            count,
            task,
            _way: way,
        }
    }

    /// Stops; what came of it.
    pub(crate) fn end(self) -> Count {
        self.task.abort();
        self.count.lock().unwrap().clone()
    }
}

/// Waits until an address of the network is answered from.
pub(crate) async fn is_answered(network: &NetworkNamespace, far: SocketAddr, max_wait: Duration) {
    let way = NamespaceProxy::to(network, far).await;
    wait_for("an answer", max_wait, async || ask(way.near()).await).await;
}

async fn ask_on(near: SocketAddr, count: Arc<Mutex<Count>>) {
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(REQUEST_INTERVAL);
    loop {
        ticks.tick().await;
        let asked = Instant::now();
        let answer = tokio::time::timeout(TEST_TIMEOUT, ask(near)).await;
        let mut count = count.lock().unwrap();
        count.slowest = count.slowest.max(asked.elapsed());
        match answer {
            Ok(Ok(())) => count.answered += 1,
            Ok(Err(why)) => count.failed.push((begin.elapsed(), why)),
            Err(_) => count.failed.push((begin.elapsed(), "no answer".into())),
        }
    }
}

async fn ask(near: SocketAddr) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(near).await.map_err(told)?;
    let request = b"GET / HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(told)?;
    match answer.starts_with("HTTP/1.") && answer.contains(" 200 ") {
        true => Ok(()),
        false => Err(format!("{answer:?}")),
    }
}

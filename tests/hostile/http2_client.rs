//! A client that speaks HTTP/2 as badly as it likes: with windows of any size,
//! and without reading.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use strata_identity::{Clock, Credentials, Expect, LiveIdentity, client_config};
use strata_testkit::Daemon;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Somebody who knows the CA of a server, and perhaps a token.
#[derive(Clone)]
pub(super) struct Caller {
    address: SocketAddr,
    tls: TlsConnector,
    token: Option<String>,
}

impl Caller {
    pub(super) fn new(address: SocketAddr, ca: &Path, token: Option<&str>) -> Self {
        let ca = std::fs::read_to_string(ca).expect("the CA can be read");
        let tls = client_config(&ca, None, Expect::Any, Clock::system());
        Self {
            address,
            tls: TlsConnector::from(Arc::new(tls.expect("TLS can be set up"))),
            token: token.map(ToOwned::to_owned),
        }
    }

    /// With a certificate, instead of a token.
    pub(super) fn certified(daemon: &Daemon, credentials: &Credentials) -> Self {
        let identity = LiveIdentity::new(credentials).expect("a certificate can be shown");
        let ca = std::fs::read_to_string(daemon.data_dir().join("client/ca.crt"));
        let ca = ca.expect("the CA can be read");
        let identity = Some(Arc::new(identity));
        let tls = client_config(&ca, identity, Expect::Any, Clock::system());
        Self {
            tls: TlsConnector::from(Arc::new(tls.expect("TLS can be set up"))),
            ..Self::of(daemon, None)
        }
    }

    /// Of a daemon on the loopback.
    pub(super) fn of(daemon: &Daemon, token: Option<&str>) -> Self {
        let url = daemon.endpoints().server.expect("there is a server");
        let address = url.trim_start_matches("https://").parse();
        let address = address.expect("a server has an address");
        Self::new(address, &daemon.data_dir().join("client/ca.crt"), token)
    }

    pub(super) async fn tls(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        // Without it every answer waits 40 ms for an acknowledgement.
        stream.set_nodelay(true)?;
        let host = "localhost".to_owned().try_into();
        let host = host.map_err(io::Error::other)?;
        self.tls.connect(host, stream).await
    }

    /// A connection whose streams have windows of this size.
    pub(super) async fn connect(&self, window: u32) -> io::Result<Connection> {
        let stream = self.tls().await?;
        let tap = Tap::on(stream.get_ref().0)?;
        let tapped = Tapped {
            inner: stream,
            tap: tap.clone(),
        };
        let (send, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .initial_connection_window_size(1 << 30)
            .handshake(TokioIo::new(tapped))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Connection {
            send,
            tap,
            token: self.token.clone(),
        })
    }

    /// One request on a connection of its own, as a command of the CLI makes
    /// it; how long it took.
    pub(super) async fn ask_once(&self, path: &str) -> io::Result<(u16, Duration)> {
        let begin = Instant::now();
        let mut connection = self.connect(1 << 20).await?;
        let (status, _) = connection.ask(Method::GET, path, "").await?;
        Ok((status, begin.elapsed()))
    }
}

/// Stops what is read of a connection, and closes it.
struct Tap {
    frozen: AtomicBool,
    waiting: Mutex<Option<Waker>>,
    socket: std::net::TcpStream,
}

impl Tap {
    fn on(stream: &TcpStream) -> io::Result<Arc<Self>> {
        let socket = stream.as_fd().try_clone_to_owned()?;
        Ok(Arc::new(Self {
            frozen: AtomicBool::new(false),
            waiting: Mutex::default(),
            socket: socket.into(),
        }))
    }

    fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.frozen.store(false, Ordering::SeqCst);
        if let Some(waker) = self.waiting.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// A connection with a tap: the library has tasks of its own that read.
struct Tapped {
    inner: TlsStream<TcpStream>,
    tap: Arc<Tap>,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        *self.tap.waiting.lock().unwrap() = Some(cx.waker().clone());
        if self.tap.frozen.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// One connection. Closed when it is dropped, whatever of it is still held.
pub(super) struct Connection {
    send: SendRequest<Full<Bytes>>,
    tap: Arc<Tap>,
    token: Option<String>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tap.close();
    }
}

impl Connection {
    fn request(&self, method: Method, path: &str, body: &str) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = Full::new(Bytes::from(body.to_owned()));
        request.body(body).expect("a request is one")
    }

    /// Only the head of the answer is waited for.
    pub(super) async fn begin(&mut self, path: &str) -> io::Result<Response<Incoming>> {
        let request = self.request(Method::GET, path, "");
        self.send.ready().await.map_err(io::Error::other)?;
        let sent = self.send.send_request(request).await;
        sent.map_err(io::Error::other)
    }

    pub(super) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> io::Result<(u16, Option<u32>)> {
        let request = self.request(method, path, body);
        self.send.ready().await.map_err(io::Error::other)?;
        let answer = self.send.send_request(request).await;
        let answer = answer.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let wait = answer.headers().get("retry-after");
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
        let whole = answer.into_body().collect().await;
        whole.map_err(io::Error::other)?;
        Ok((status, wait))
    }

    /// One request; its status and what was answered.
    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> io::Result<(u16, String)> {
        let mut request = self.request(method, path, body);
        if request.method() == Method::PATCH {
            let kind = http::HeaderValue::from_static("application/merge-patch+json");
            request.headers_mut().insert("content-type", kind);
        }
        self.send.ready().await.map_err(io::Error::other)?;
        let answer = self.send.send_request(request).await;
        let answer = answer.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let whole = answer.into_body().collect().await;
        let bytes = whole.map_err(io::Error::other)?.to_bytes();
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// One gRPC call with one message; its status and what was answered.
    pub(super) async fn grpc(
        &mut self,
        path: &str,
        message: &[u8],
    ) -> io::Result<(Option<u16>, Bytes)> {
        let mut request = self.request(Method::POST, path, "");
        let kind = http::HeaderValue::from_static("application/grpc");
        request.headers_mut().insert("content-type", kind);
        let te = http::HeaderValue::from_static("trailers");
        request.headers_mut().insert("te", te);
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        let framed = [&[0][..], &length.to_be_bytes(), message].concat();
        *request.body_mut() = Full::new(framed.into());
        self.send.ready().await.map_err(io::Error::other)?;
        let answer = self.send.send_request(request).await;
        let answer = answer.map_err(io::Error::other)?;
        let status =
            |headers: &http::HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
        let first = status(answer.headers());
        let whole = answer.into_body().collect().await;
        let whole = whole.map_err(io::Error::other)?;
        let last = whole.trailers().and_then(status);
        Ok((first.or(last), whole.to_bytes()))
    }

    /// Sends so many requests, and reads nothing from then on: neither their
    /// answers nor anything else.
    pub(super) fn ask_and_freeze(&mut self, path: &str, many: usize) {
        for _ in 0..many {
            let request = self.request(Method::GET, path, "");
            tokio::spawn(self.send.clone().send_request(request));
        }
        self.tap.frozen.store(true, Ordering::SeqCst);
    }
}

/// How long requests took, the shortest first.
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Of so many requests, one after the other, on a connection each. All
    /// must be answered.
    pub(super) async fn of(caller: &Caller, path: &str, many: usize) -> Self {
        let mut all = Vec::new();
        for n in 0..many {
            let (status, took) = caller
                .ask_once(path)
                .await
                .unwrap_or_else(|error| panic!("request {n} of {many}: {error}"));
            assert_eq!(status, 200, "request {n} of {many}");
            all.push(took);
        }
        all.sort();
        Self(all)
    }

    pub(super) fn p99(&self) -> Duration {
        self.0[(self.0.len() * 99).div_ceil(100) - 1]
    }
}

/// What an attack may add beside twice the time: a handshake and a request are
/// some milliseconds of computing on both sides, on two processors that the
/// attacker of the test computes on, too.
const FLOOR: Duration = Duration::from_millis(80);
/// The same where others compute on this machine meanwhile. The attacks cost
/// seconds before they were closed.
const FLOOR_OF_BUSY: Duration = Duration::from_millis(300);

/// Time that processors worked and rested, in ticks since the machine started.
fn ticks() -> (u64, u64) {
    let all = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = all.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = first
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    let rested: u64 = numbers.iter().skip(3).take(2).sum();
    (numbers.iter().take(8).sum::<u64>() - rested, rested)
}

/// Whether nothing else computes on this machine: half a second at rest.
async fn is_idle() -> bool {
    let (worked, rested) = ticks();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (then_worked, then_rested) = ticks();
    (then_worked - worked) * 4 < then_rested - rested
}

/// Requests with and without an attack, in turns: what else happens on the
/// machine meets both alike, and the medians leave out what met one round.
#[derive(Default)]
pub(super) struct Rounds {
    base: Vec<Duration>,
    during: Vec<Duration>,
    /// In one of the rounds others computed.
    busy: bool,
}

impl Rounds {
    pub(super) async fn base(&mut self, caller: &Caller, path: &str, many: usize) {
        self.busy |= !is_idle().await;
        self.base
            .push(Latencies::of(caller, path, many).await.p99());
    }

    pub(super) async fn during(&mut self, caller: &Caller, path: &str, many: usize) {
        self.during
            .push(Latencies::of(caller, path, many).await.p99());
    }

    /// The medians of the p99 of each round, without the attack and with it.
    pub(super) fn medians(&self) -> (Duration, Duration) {
        let median = |all: &[Duration]| {
            let mut all = all.to_vec();
            all.sort();
            all[all.len() / 2]
        };
        (median(&self.base), median(&self.during))
    }

    pub(super) fn assert_within_twice(&self, attack: &str) {
        let (base, during) = self.medians();
        let floor = if self.busy { FLOOR_OF_BUSY } else { FLOOR };
        assert!(during <= base * 2 + floor, "{attack}: {self}");
    }
}

impl std::fmt::Display for Rounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (base, during) = self.medians();
        let host = if self.busy { "busy" } else { "idle" };
        write!(f, "p99 {during:?}, without {base:?}, {host} host")
    }
}

/// The resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kilobytes: u64 = kilobytes.map_or(0, |number| number.trim().parse().unwrap_or(0));
    kilobytes * 1024
}

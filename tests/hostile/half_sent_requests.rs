//! Requests that are begun and never finished: what has come of them is in the
//! memory of the server, so it is bounded for each caller, whatever credential
//! it has, and for how long it is waited.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use strata_testkit::{Credentials, Daemon};

use super::STRATA;
use super::http2_client::{Caller, resident};
use super::load_ledger::Ledger;
use super::silent_connections::{LATE, node_certificate};

/// Of the server while requests are held, beyond what it takes before.
const MAX_GROWTH: u64 = 50 << 20;
const ATTACK: Duration = Duration::from_secs(8);
const CONNECTIONS: usize = 8;
const STREAMS: usize = 64;
const CHUNK: usize = 64 << 10;

/// A body that stops one byte before its end, and stays open.
struct HalfSent {
    header: Option<Bytes>,
    left: usize,
    sent: Arc<AtomicUsize>,
}

impl Body for HalfSent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        static SPACES: [u8; CHUNK] = [b' '; CHUNK];
        if let Some(header) = self.header.take() {
            return Poll::Ready(Some(Ok(Frame::data(header))));
        }
        let many = self.left.min(CHUNK);
        if many == 0 {
            return Poll::Pending;
        }
        self.left -= many;
        self.sent.fetch_add(many, Ordering::Relaxed);
        let chunk = Bytes::from_static(&SPACES[..many]);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
}

/// Which request is half sent.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Grpc(&'static str, usize),
    Rest(&'static str, usize),
}

impl Kind {
    fn request(self, token: Option<&str>, sent: &Arc<AtomicUsize>) -> Request<HalfSent> {
        let (method, path, kind, size) = match self {
            Self::Grpc(path, size) => (Method::POST, path, "application/grpc", size),
            Self::Rest(path, size) => (Method::PUT, path, "application/json", size),
        };
        let announced = u32::try_from(size).unwrap().to_be_bytes();
        let header = match self {
            Self::Grpc(..) => Some([&[0][..], &announced].concat().into()),
            Self::Rest(..) => None,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .header("content-type", kind);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = HalfSent {
            header,
            left: size - 1,
            sent: sent.clone(),
        };
        request.body(body).unwrap()
    }
}

async fn connect(caller: &Caller) -> io::Result<SendRequest<HalfSent>> {
    let (send, connection) = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1 << 16)
        .handshake(TokioIo::new(caller.tls().await?))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(send)
}

/// Holds as many requests as it gets, and begins those anew that were answered.
async fn hold(
    send: SendRequest<HalfSent>,
    kind: Kind,
    token: Option<String>,
    sent: Arc<AtomicUsize>,
) {
    loop {
        let request = kind.request(token.as_deref(), &sent);
        let mut send = send.clone();
        if send.ready().await.is_err() {
            return;
        }
        if let Ok(answer) = send.send_request(request).await {
            let _ = answer.into_body().collect().await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn token(daemon: &Daemon, role: &str) -> String {
    let words = ["token", "create", "--name", role, "--role", role, "-q"];
    let made = daemon.cli_with_endpoints().run(words).await;
    made.ok().trim().to_owned()
}

async fn node_caller(daemon: &Daemon) -> Caller {
    let out = daemon.scratch().join("evil").display().to_string();
    let words = [
        "certificate",
        "issue",
        "--role",
        "node",
        "--name",
        "evil",
        "--out",
        &out,
    ];
    daemon.cli_with_endpoints().run(words).await.ok();
    let credentials = Credentials::read(out.as_ref()).unwrap();
    Caller::certified(daemon, &credentials)
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
async fn half_sent_requests_of_any_caller_hold_little_memory() {
    const HEALTH: &str = "/grpc.health.v1.Health/Check";
    const STATUS: &str = "/controller.SchedulerService/setInstanceStatus";
    const FOLLOW: &str = "/schedule.Assignments/Follow";
    const MEBIBYTE: usize = 1 << 20;
    let (daemon, _node) = Daemon::up(STRATA).await;
    let server = daemon.endpoints().server.unwrap();
    let ledger = Ledger::keep(&server, &node_certificate(&daemon).await).await;
    let (viewer, operator) = (
        token(&daemon, "viewer").await,
        token(&daemon, "operator").await,
    );
    let (caller, node) = (Caller::of(&daemon, None), node_caller(&daemon).await);
    let attacks = [
        (Kind::Grpc(HEALTH, 4 * MEBIBYTE), &caller, None),
        (Kind::Grpc(HEALTH, 64 << 10), &caller, None),
        (Kind::Grpc(HEALTH, 2 * MEBIBYTE), &caller, Some(&viewer)),
        (Kind::Rest("/instance", 256 << 10), &caller, Some(&operator)),
        (Kind::Grpc(STATUS, 2 * MEBIBYTE), &node, None),
        (Kind::Grpc(FOLLOW, 2 * MEBIBYTE), &node, None),
    ];
    for (kind, caller, token) in attacks {
        let (before, sent) = (resident(daemon.pid()), Arc::<AtomicUsize>::default());
        let mut held = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            let send = connect(caller).await.unwrap();
            for _ in 0..STREAMS {
                held.spawn(hold(send.clone(), kind, token.cloned(), sent.clone()));
            }
        }
        let (begin, mut most) = (Instant::now(), before);
        while begin.elapsed() < ATTACK {
            most = most.max(resident(daemon.pid()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(held);
        let (grown, sent) = (most - before, sent.load(Ordering::Relaxed));
        eprintln!(
            "{kind:?}: {} MiB sent, {} MiB more in memory",
            sent >> 20,
            grown >> 20
        );
        assert!(sent > MEBIBYTE, "{kind:?}: the attack takes place");
        assert!(grown < MAX_GROWTH, "{kind:?}: {} MiB more", grown >> 20);
    }
    // The attackers are over, and their credentials as good as before.
    for (caller, path) in [
        (caller.clone(), "/healthz"),
        (Caller::of(&daemon, Some(&viewer)), "/instance"),
        (Caller::of(&daemon, Some(&operator)), "/instance"),
    ] {
        let begin = Instant::now();
        while !matches!(caller.ask_once(path).await, Ok((200, _))) {
            assert!(begin.elapsed() < super::TEST_TIMEOUT, "{path} is refused");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let (beats, slowest) = ledger.close();
    eprintln!("{beats} heartbeats, the slowest {slowest:?}");
    assert!(beats > 20, "{beats} heartbeats");
    assert!(slowest < LATE, "a heartbeat took {slowest:?}");
    let log = daemon.log();
    assert!(!log.contains("lease expired without a heartbeat"), "{log}");
}

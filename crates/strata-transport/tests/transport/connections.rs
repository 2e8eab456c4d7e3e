//! Connections: bounded, timed, renewed under way, ended in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::routing::get;
use http::{Method, StatusCode};
use strata_identity::CertificateSpec;
use strata_transport::Limits;
use strata_types::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::client::TlsStream;

use crate::world::{Http, World, app, name, request};

fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let world = World::new();
    let server = world.serve().await;
    let connector = world.caller(Role::Viewer);
    let before = server.tls(&connector).await.unwrap();
    let old = shown(&before);
    let mut before = Http::over(before).await.unwrap();
    assert_eq!(before.get("/version").await.status, StatusCode::OK);

    let spec = CertificateSpec::server(name("server"));
    world
        .identity
        .swap(&world.authority.issue(&spec).unwrap())
        .unwrap();

    let after = server.tls(&connector).await.unwrap();
    assert_ne!(shown(&after), old);
    let mut after = Http::over(after).await.unwrap();
    assert_eq!(after.get("/version").await.status, StatusCode::OK);
    assert_eq!(before.get("/version").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_served_a_few_at_a_time() {
    let world = World::new();
    let limits = Limits {
        connections: 3,
        handshake_permits: 2,
        ..Limits::default()
    };
    let server = Arc::new(world.serve_with(app(), limits).await);
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let connector = world.caller(Role::Viewer);
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let (server, connector) = (server.clone(), connector.clone());
            let (inside, most) = (inside.clone(), most.clone());
            tokio::spawn(async move {
                let mut http = server.http(&connector).await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                assert_eq!(http.get("/version").await.status, StatusCode::OK);
                // Counted out before it is closed: what is counted is a place.
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_to_an_end_is_ended() {
    let world = World::new();
    let limits = Limits {
        handshake_permits: 1,
        hello_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = world.serve_with(app(), limits).await;
    // One sends nothing, one sends a little; both find the port closed.
    for says in [b"".as_slice(), b"\x16\x03\x01"] {
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(says).await.unwrap();
        let mut rest = Vec::new();
        let _ = slow.read_to_end(&mut rest).await;
    }
    let mut http = server.http(&world.anonymous()).await.unwrap();
    assert_eq!(http.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn idle_unauthenticated_connection_is_closed_and_authenticated_one_is_kept() {
    let world = World::new();
    let limits = Limits {
        header_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = world.serve_with(app(), limits).await;
    let mut known = server.http(&world.caller(Role::Viewer)).await.unwrap();
    let mut silent = server.tls(&world.anonymous()).await.unwrap();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest).await;
    assert_eq!(known.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn at_the_end_requests_under_way_finish_and_nobody_new_gets_in() {
    let world = World::new();
    let (began, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (began, finish) = (began.clone(), finish.clone());
        get(async move || {
            began.notify_one();
            finish.notified().await;
            "done"
        })
    };
    let app = axum::Router::new().route("/version", slow);
    let server = world.serve_with(app, Limits::default()).await;
    let connector = world.caller(Role::Viewer);
    let mut http = server.http(&connector).await.unwrap();
    let asked = tokio::spawn(async move { http.get("/version").await });
    began.notified().await;
    server.shutdown.cancel();
    // The port is closed once a connection is refused.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    finish.notify_one();
    assert_eq!(asked.await.unwrap().text, "done");
    server.task.await.unwrap();
}

#[tokio::test]
async fn at_the_end_what_never_ends_is_cut() {
    let world = World::new();
    let endless = get(async || {
        let body = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        Body::from_stream(body)
    });
    let app = axum::Router::new().route("/version", endless);
    let limits = Limits {
        drain: Duration::from_millis(20),
        ..Limits::default()
    };
    let server = world.serve_with(app, limits).await;
    let mut http = server.http(&world.caller(Role::Viewer)).await.unwrap();
    let asked = tokio::spawn(async move { http.send(request(Method::GET, "/version")).await });
    server.shutdown.cancel();
    server.task.await.unwrap();
    assert!(asked.await.unwrap().is_err());
}

#[tokio::test]
async fn http_1_is_served_on_the_same_port() {
    let world = World::new();
    let server = world.serve().await;
    let mut config = strata_identity::client_config(
        &world.authority.ca_pem(),
        None,
        strata_identity::Expect::Server,
        world.time.clock(),
    )
    .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut stream = server.tls(&Arc::new(config).into()).await.unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

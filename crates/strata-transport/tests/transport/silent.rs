//! Connections that send nothing, or nothing that authenticates: they take
//! nothing from those that call.

use std::time::{Duration, Instant};

use http::StatusCode;
use strata_transport::Limits;
use strata_types::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{Http, Server, World, app, bearing, name, request};

/// Whether the other end has closed this one, within a moment.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = stream.read(&mut byte);
    matches!(
        tokio::time::timeout(Duration::from_millis(20), read).await,
        Ok(Ok(0) | Err(_))
    )
}

/// The beginning of a real ClientHello, which then stops.
async fn half_a_hello(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
    stream
}

/// A whole ClientHello, after which the client sends no more.
async fn hello_alone(world: &World, server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let std = stream.into_std().unwrap();
    let copy = TcpStream::from_std(std.try_clone().unwrap()).unwrap();
    let stream = TcpStream::from_std(std).unwrap();
    let connector = world.anonymous();
    let host = "localhost".to_owned().try_into().unwrap();
    let connecting = connector.connect(host, stream);
    // The hello is sent with the first poll; the answer is not read.
    let _ = tokio::time::timeout(Duration::from_millis(1), connecting).await;
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_from_the_same_address_delay_nobody() {
    let world = World::new();
    let server = world.serve().await;
    let connector = world.caller(Role::Viewer);
    let mut held = Vec::new();
    for n in 0..1500 {
        let stream = match n % 2 {
            0 => TcpStream::connect(server.address).await.unwrap(),
            _ => half_a_hello(&server).await,
        };
        held.push(stream);
    }
    // Silent connections had ten seconds each before, and all permits.
    for _ in 0..50 {
        let begin = Instant::now();
        let mut http = server.http(&connector).await.unwrap();
        assert_eq!(http.get("/version").await.status, StatusCode::OK);
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    // The oldest have made room for the newest.
    assert!(is_closed(&mut held[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_that_stops_after_its_hello_holds_no_permit() {
    let world = World::new();
    let limits = Limits {
        handshake_permits: 1,
        ..Limits::default()
    };
    let server = world.serve_with(app(), limits).await;
    let mut held = Vec::new();
    for _ in 0..32 {
        held.push(hello_alone(&world, &server).await);
    }
    let begin = Instant::now();
    let mut http = server.http(&world.caller(Role::Viewer)).await.unwrap();
    assert_eq!(http.get("/version").await.status, StatusCode::OK);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    drop(held);
}

#[tokio::test]
async fn hello_has_a_short_time() {
    let world = World::new();
    let limits = Limits {
        hello_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let server = world.serve_with(app(), limits).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut half = half_a_hello(&server).await;
    let begin = Instant::now();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest).await;
    let _ = half.read_to_end(&mut rest).await;
    let took = begin.elapsed();
    assert!(
        took > Duration::from_secs(1) && took < Duration::from_secs(8),
        "{took:?}"
    );
}

fn few_unauthenticated() -> Limits {
    Limits {
        unauthenticated: 8,
        unauthenticated_per_source: 4,
        ..Limits::default()
    }
}

async fn anonymous(world: &World, server: &Server) -> Http {
    let mut http = server.http(&world.anonymous()).await.unwrap();
    assert_eq!(http.get("/healthz").await.status, StatusCode::OK);
    http
}

#[tokio::test]
async fn flood_of_unauthenticated_connections_locks_out_no_caller() {
    let world = World::new();
    let server = world.serve_with(app(), few_unauthenticated()).await;
    let (_, token) = world
        .tokens
        .create_api(&name("ci"), Role::Viewer, None)
        .unwrap();
    let bearer = format!("Bearer {}", token.expose());
    let whoami = || bearing(request(http::Method::GET, "/version"), &bearer);
    let mut with_token = server.http(&world.anonymous()).await.unwrap();
    let answer = with_token.send(whoami()).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(anonymous(&world, &server).await);
    }
    // It gave its place back when it showed its token.
    let answer = with_token.send(whoami()).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    let mut another = server.http(&world.anonymous()).await.unwrap();
    let answer = another.send(whoami()).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    let mut known = server.http(&world.caller(Role::Viewer)).await.unwrap();
    assert_eq!(known.get("/version").await.status, StatusCode::OK);
    // Those that were idle for longest have made room.
    let healthz = || request(http::Method::GET, "/healthz");
    assert!(crowd[0].send(healthz()).await.is_err());
    let last = crowd.last_mut().unwrap();
    assert_eq!(last.send(healthz()).await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn wrong_token_gives_no_place_back() {
    let world = World::new();
    let server = world.serve_with(app(), few_unauthenticated()).await;
    let wrong = "Bearer strata_0123456789abcdef_00";
    let mut crowd = Vec::new();
    for _ in 0..20 {
        let mut http = server.http(&world.anonymous()).await.unwrap();
        let asked = bearing(request(http::Method::GET, "/version"), wrong);
        let answer = http.send(asked).await.unwrap();
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        crowd.push(http);
    }
    let mut open = 0;
    for http in &mut crowd {
        let healthz = request(http::Method::GET, "/healthz");
        open += usize::from(http.send(healthz).await.is_ok());
    }
    assert!(open <= 4, "{open} unauthenticated connections are held");
}

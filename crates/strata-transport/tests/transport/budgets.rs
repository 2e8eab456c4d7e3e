//! Budgets over the wire: refused in the form of each API, by caller, and
//! released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::routing::get;
use http::{Method, StatusCode};
use strata_identity::{CertificateSpec, Credentials};
use strata_transport::{Budgets, CallerLimits, Limits};
use strata_types::Role;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::world::{Http, Server, World, app, bearing, name, request};

async fn serve(world: &World, app: axum::Router, caller: CallerLimits) -> Server {
    let limits = Limits::default();
    let budgets = Budgets::new(&limits, caller);
    world.serve_within(app, limits, budgets).await
}

fn few_requests() -> CallerLimits {
    CallerLimits {
        requests_per_second: 1,
        request_burst: 5,
        ..CallerLimits::default()
    }
}

fn bearer(world: &World, caller: &str, role: Role) -> String {
    let made = world.tokens.create_api(&name(caller), role, None);
    format!("Bearer {}", made.unwrap().1.expose())
}

/// How many of so many requests pass.
async fn passed(http: &mut Http, bearer: &str, many: usize) -> usize {
    let mut passed = 0;
    for _ in 0..many {
        let asked = bearing(request(Method::GET, "/version"), bearer);
        let answer = http.send(asked).await.unwrap();
        passed += usize::from(answer.status == StatusCode::OK);
        if answer.status != StatusCode::OK {
            assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
            let wait = answer.headers["retry-after"].to_str().unwrap();
            assert!((1..=2).contains(&wait.parse::<u32>().unwrap()), "{wait}");
            let kind = answer.headers["content-type"].to_str().unwrap();
            assert_eq!(kind, "application/problem+json");
            assert!(
                answer.text.contains("\"code\":\"exhausted\""),
                "{}",
                answer.text
            );
        }
    }
    passed
}

#[tokio::test]
async fn rate_is_by_token_and_not_by_connection_or_name() {
    let world = World::new();
    let server = serve(&world, app(), few_requests()).await;
    let (one, other) = (
        bearer(&world, "ci", Role::Operator),
        bearer(&world, "ci", Role::Operator),
    );
    let mut first = server.http(&world.anonymous()).await.unwrap();
    let mut second = server.http(&world.anonymous()).await.unwrap();
    let begin = Instant::now();
    let of_one = passed(&mut first, &one, 10).await + passed(&mut second, &one, 10).await;
    let most = 5 + usize::try_from(begin.elapsed().as_secs()).unwrap() + 1;
    assert!((5..=most).contains(&of_one), "{of_one}");
    // On the very connection where the other was refused.
    assert!(passed(&mut second, &other, 5).await == 5);
    let admin = bearer(&world, "boss", Role::Admin);
    assert_eq!(passed(&mut second, &admin, 50).await, 50);
}

#[tokio::test]
async fn renewed_certificate_brings_no_new_budget() {
    let world = World::new();
    let server = serve(&world, app(), few_requests()).await;
    let mut all = 0;
    for _ in 0..6 {
        // Another key each time, as after a renewal.
        let certificate: Credentials = world.issue(Role::Operator);
        let connector = world.connector(Some(&certificate));
        let mut http = server.http(&connector).await.unwrap();
        for _ in 0..5 {
            all += usize::from(http.get("/version").await.status == StatusCode::OK);
        }
    }
    assert!(all < 15, "{all}");
}

#[tokio::test]
async fn grpc_rejection_is_a_grpc_status() {
    let world = World::new();
    let server = serve(&world, app(), few_requests()).await;
    let channel = server.grpc(&world.caller(Role::Viewer)).await;
    let mut health = HealthClient::new(channel);
    let mut codes = Vec::new();
    for _ in 0..8 {
        let asked = health.check(HealthCheckRequest::default()).await;
        codes.push(asked.map_or_else(|status| status.code(), |_| Code::Ok));
    }
    assert_eq!(codes[0], Code::Ok);
    assert_eq!(*codes.last().unwrap(), Code::ResourceExhausted);
}

#[tokio::test]
async fn source_without_a_proof_has_a_budget_that_callers_do_not_share() {
    let world = World::new();
    let limits = CallerLimits {
        unauthenticated_per_second: 1,
        unauthenticated_burst: 5,
        ..CallerLimits::default()
    };
    let server = serve(&world, app(), limits).await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let mut statuses = Vec::new();
    for n in 0..20 {
        let path = ["/healthz", "/version"][n % 2];
        statuses.push(http.get(path).await.status.as_u16());
    }
    assert!(
        statuses[..4]
            .iter()
            .all(|status| [200, 401].contains(status))
    );
    assert_eq!(statuses[19], 429, "{statuses:?}");
    let token = bearer(&world, "ci", Role::Viewer);
    assert_eq!(passed(&mut http, &token, 20).await, 20);
}

fn endless() -> axum::Router {
    let body = async || {
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        Body::from_stream(never)
    };
    axum::Router::new()
        .route("/event", get(body))
        .route("/version", get(async || "ok"))
}

#[tokio::test]
async fn streams_are_counted_over_all_connections_and_given_back() {
    let world = World::new();
    let limits = CallerLimits {
        concurrent_requests: 6,
        ..CallerLimits::default()
    };
    let server = serve(&world, endless(), limits).await;
    let token = bearer(&world, "ci", Role::Viewer);
    let watch = || bearing(request(Method::GET, "/event"), &token);
    let (mut first, mut second) = (
        server.http(&world.anonymous()).await.unwrap(),
        server.http(&world.anonymous()).await.unwrap(),
    );
    let mut open = Vec::new();
    for http in [&mut first, &mut second] {
        for _ in 0..3 {
            let answer = http.begin(watch()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            open.push(answer);
        }
    }
    let over = second.begin(watch()).await.unwrap();
    assert_eq!(over.status(), StatusCode::TOO_MANY_REQUESTS);
    let other = bearer(&world, "other", Role::Viewer);
    assert_eq!(passed(&mut second, &other, 1).await, 1);
    drop((open, over));
    // The end of a stream is noticed when its reset has come through.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = second.begin(watch()).await.unwrap();
        if answer.status() == StatusCode::OK {
            break;
        }
        assert!(Instant::now() < deadline, "places are not given back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answers_that_are_not_read_are_bounded() {
    const LARGE: usize = 1 << 20;
    let world = World::new();
    let limits = CallerLimits {
        unread_bytes: 4 * LARGE,
        ..CallerLimits::default()
    };
    let large = get(async || vec![b'x'; LARGE]);
    let app = axum::Router::new().route("/event", large);
    let server = serve(&world, app, limits).await;
    let token = bearer(&world, "ci", Role::Viewer);
    let ask = || bearing(request(Method::GET, "/event"), &token);
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let mut unread = Vec::new();
    let mut refused = 0;
    for _ in 0..20 {
        let answer = http.begin(ask()).await.unwrap();
        refused += usize::from(answer.status() == StatusCode::TOO_MANY_REQUESTS);
        unread.push(answer);
    }
    assert!(refused >= 10, "{refused}");
    // What was answered comes whole, and then there is room again.
    for answer in unread {
        let whole = http.finish(answer).await.unwrap();
        assert!(whole.status != StatusCode::OK || whole.text.len() == LARGE);
    }
    assert_eq!(http.send(ask()).await.unwrap().text.len(), LARGE);
}

#[tokio::test]
async fn bytes_are_slowed_down_and_then_refused() {
    const PART: usize = 100_000;
    let world = World::new();
    let limits = CallerLimits {
        bytes_per_second: PART as u64,
        byte_burst: PART as u64,
        ..CallerLimits::default()
    };
    let parts = get(async || {
        let part = || Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; PART]));
        Body::from_stream(futures_util::stream::iter((0..3).map(move |_| part())))
    });
    let app = axum::Router::new().route("/event", parts);
    let server = serve(&world, app, limits).await;
    let token = bearer(&world, "ci", Role::Viewer);
    let ask = || bearing(request(Method::GET, "/event"), &token);
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let begin = Instant::now();
    let answer = http.send(ask()).await.unwrap();
    assert_eq!(answer.text.len(), 3 * PART, "slow, and whole");
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(1500), "{took:?}");
}

#[tokio::test]
async fn connections_of_a_caller_are_bounded_and_idle_ones_make_room() {
    let world = World::new();
    let limits = CallerLimits {
        connections: 4,
        ..CallerLimits::default()
    };
    let server = serve(&world, endless(), limits).await;
    let certificate = world.issue(Role::Operator);
    let connector = world.connector(Some(&certificate));
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut http = server.http(&connector).await.unwrap();
        assert_eq!(http.get("/version").await.status, StatusCode::OK);
        held.push(http);
    }
    let mut open = 0;
    for http in &mut held {
        let asked = request(Method::GET, "/version");
        open += usize::from(http.send(asked).await.is_ok());
    }
    assert_eq!(open, 4);
    // A node is not counted together with other callers.
    let spec = CertificateSpec::caller(name("n1"), Role::Node);
    let node = Arc::new(world.authority.issue(&spec).unwrap());
    let mut http = server.http(&world.connector(Some(&node))).await.unwrap();
    assert_eq!(http.get("/version").await.status, StatusCode::OK);
}

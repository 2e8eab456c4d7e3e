//! Which callers are accepted, and what the others are answered.

use http::{Method, StatusCode};
use strata_api::runtime::StartCellRequest;
use strata_api::runtime::cell_service_client::CellServiceClient;
use strata_identity::CertificateSpec;
use strata_types::Role;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::world::{World, bearing, name, request};

#[tokio::test]
async fn unauthenticated_client_may_only_check_health() {
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    assert_eq!(http.get("/healthz").await.text, "ok");

    let refused = http.get("/version").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    let problem: serde_json::Value = serde_json::from_str(&refused.text).unwrap();
    assert_eq!(problem["code"], "unauthenticated");
    assert_eq!(problem["status"], 401);
    assert_eq!(
        problem["detail"],
        "no credentials presented for GET /version"
    );

    let channel = server.grpc(&world.anonymous()).await;
    let mut health = HealthClient::new(channel.clone());
    health.check(HealthCheckRequest::default()).await.unwrap();
    let refused = health
        .watch(HealthCheckRequest::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let mut cells = CellServiceClient::new(channel);
    let refused = cells.start(StartCellRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let error = strata_api::error_from_status(&refused);
    assert!(error.hint().unwrap().contains("client certificate"));
}

#[tokio::test]
async fn a_certificate_makes_a_caller_that_handlers_see() {
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.caller(Role::Operator)).await.unwrap();
    let answer = http.get("/version").await;
    assert_eq!(answer.text, "operator somebody certificate false");
}

#[tokio::test]
async fn viewer_is_denied_a_write_with_the_required_role() {
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.caller(Role::Viewer)).await.unwrap();
    let denied = http.send(request(Method::PUT, "/instance/")).await.unwrap();
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    let problem: serde_json::Value = serde_json::from_str(&denied.text).unwrap();
    assert_eq!(problem["code"], "permission_denied");
    assert_eq!(
        problem["detail"],
        "viewer \"somebody\" may not call PUT /instance/; it requires the role admin or operator"
    );

    let mut cells = CellServiceClient::new(server.grpc(&world.caller(Role::Viewer)).await);
    let denied = cells.start(StartCellRequest::default()).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(denied.message().contains("viewer \"somebody\""), "{denied}");

    let mut http = server.http(&world.caller(Role::Operator)).await.unwrap();
    let done = http.send(request(Method::PUT, "/instance/")).await.unwrap();
    assert_eq!(done.status, StatusCode::CREATED);
}

#[tokio::test]
async fn path_that_is_not_in_the_policy_reaches_no_handler_even_for_the_admin() {
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.caller(Role::Admin)).await.unwrap();
    for (method, path) in [
        (Method::GET, "/nowhere"),
        (Method::GET, "//version"),
        (Method::POST, "/grpc.health.v1.Health/Check"),
    ] {
        let missing = http.send(request(method, path)).await.unwrap();
        assert_eq!(missing.status, StatusCode::NOT_FOUND, "{path}");
    }
    // Where the path is known, the answer lists the methods it allows.
    let wrong = http.send(request(Method::DELETE, "/version")).await;
    let wrong = wrong.unwrap();
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(wrong.headers["allow"], "GET");
    assert_eq!(wrong.headers["content-type"], "application/problem+json");
    // Claiming to be gRPC does not open an HTTP route, nor any other way.
    let mut disguised = request(Method::GET, "/version");
    disguised
        .headers_mut()
        .insert("content-type", "application/grpc".parse().unwrap());
    let missing = http.send(disguised).await.unwrap();
    assert_eq!(missing.headers["grpc-status"], "12");
    assert_eq!(missing.headers["content-type"], "application/grpc");
}

#[tokio::test]
async fn a_token_works_without_a_certificate_until_it_is_revoked() {
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    let (info, token) = world
        .tokens
        .create_api(&name("ci"), Role::Operator, None)
        .unwrap();
    let ask = || {
        let value = format!("Bearer {}", token.expose());
        bearing(request(Method::GET, "/version"), &value)
    };
    // The handler sees the caller and not the secret.
    let answer = http.send(ask()).await.unwrap();
    assert_eq!(answer.text, "operator ci token false");

    world.tokens.revoke(&info.id).unwrap();
    let refused = http.send(ask()).await.unwrap();
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.text.contains("revoked"), "{}", refused.text);
    assert!(!refused.text.contains(token.expose()));
}

#[tokio::test]
async fn a_token_that_is_wrong_is_not_made_good_by_a_certificate() {
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.caller(Role::Admin)).await.unwrap();
    for wrong in ["Bearer nonsense", "Bearer ", "Basic YTpi", ""] {
        let ask = bearing(request(Method::GET, "/version"), wrong);
        let refused = http.send(ask).await.unwrap();
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{wrong:?}");
    }
    let (_, token) = world
        .tokens
        .create_api(&name("ci"), Role::Viewer, None)
        .unwrap();
    let value = format!("Bearer {}", token.expose());
    let ask = bearing(request(Method::GET, "/version"), &value);
    assert_eq!(http.send(ask).await.unwrap().text, "viewer ci token false");
    let twice = bearing(bearing(request(Method::GET, "/version"), &value), &value);
    assert_eq!(
        http.send(twice).await.unwrap().status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn certificate_of_another_ca_fails_the_handshake() {
    let (world, other) = (World::new(), World::new());
    let server = world.serve().await;
    // It trusts the server, and shows what the server does not trust.
    let connector = world.connector(Some(&other.issue(Role::Admin)));
    let reached = async {
        let mut http = server.http(&connector).await.ok()?;
        http.send(request(Method::GET, "/healthz")).await.ok()
    };
    assert!(reached.await.is_none());
}

#[tokio::test]
async fn an_expired_certificate_is_refused_at_the_handshake_and_on_open_connections() {
    let world = World::new();
    let server = world.serve().await;
    let credentials = world.issue(Role::Admin);
    let connector = world.connector(Some(&credentials));
    let mut open = server.http(&connector).await.unwrap();
    assert_eq!(open.get("/version").await.status, StatusCode::OK);

    world.time.pass_days(366);
    let spec = CertificateSpec::server(name("server"));
    world
        .identity
        .swap(&world.authority.issue(&spec).unwrap())
        .unwrap();
    let refused = open.get("/version").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.text.contains("the certificate has expired"));
    let reached = async {
        let mut http = server.http(&connector).await.ok()?;
        http.send(request(Method::GET, "/healthz")).await.ok()
    };
    assert!(reached.await.is_none());
}

#[tokio::test]
async fn refusals_are_counted() {
    use std::sync::atomic::Ordering::Relaxed;
    let world = World::new();
    let server = world.serve().await;
    let mut http = server.http(&world.anonymous()).await.unwrap();
    http.get("/version").await;
    http.get("/nowhere").await;
    http.get("/nowhere").await;
    let refusals = world.auth.refusals();
    assert_eq!(refusals.unauthenticated.load(Relaxed), 1);
    assert_eq!(refusals.denied.load(Relaxed), 2);
}

//! What every daemon has: health, reflection, version, metrics, one port.

use strata_api::runtime::FreeCellRequest;
use strata_api::runtime::cell_service_client::CellServiceClient;
use strata_types::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::world::World;

/// One HTTP/1.1 request, as the plainest of clients sends it.
async fn get(world: &World, role: Option<Role>, path: &str) -> String {
    let credentials = role.map(|role| world.issue("somebody", role));
    let mut config = world.config(credentials.as_ref());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut stream = world.tls(config).await;
    let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn health_is_for_everybody() {
    let world = World::new().await;
    let answer = get(&world, None, "/healthz").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"),
        "{answer}"
    );
    let mut health = HealthClient::new(world.channel(world.config(None)).await);
    let service = "strata.v1.Identity".to_owned();
    let answer = health.check(HealthCheckRequest { service }).await.unwrap();
    assert_eq!(
        answer.into_inner().status(),
        tonic_health::pb::health_check_response::ServingStatus::Serving
    );
}

#[tokio::test]
async fn version_and_metrics_need_a_viewer() {
    let world = World::new().await;
    assert!(
        get(&world, None, "/version")
            .await
            .starts_with("HTTP/1.1 401")
    );
    assert!(
        get(&world, Some(Role::Node), "/metrics")
            .await
            .starts_with("HTTP/1.1 403")
    );
    let version = get(&world, Some(Role::Viewer), "/version").await;
    let body = version.split("\r\n\r\n").nth(1).unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["version"], "1.2.3");

    world
        .caller(Role::Viewer)
        .await
        .who_am_i(strata_api::strata::v1::WhoAmIRequest {})
        .await
        .unwrap();
    let metrics = get(&world, Some(Role::Viewer), "/metrics").await;
    for line in [
        "content-type: application/openmetrics-text",
        "strata_build_info{version=\"",
        "process_resident_memory_bytes ",
        "strata_requests_total{api=\"http\",call=\"GET /version\",code=\"200\"} 1",
        "strata_requests_total{api=\"grpc\",call=\"/strata.v1.Identity/WhoAmI\",code=\"0\"} 1",
        "strata_requests_refused_total{reason=\"unauthenticated\"} 1",
        "strata_requests_refused_total{reason=\"denied\"} 1",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn reflection_tells_of_what_is_served_and_nothing_else() {
    let world = World::new().await;
    let credentials = world.issue("somebody", Role::Viewer);
    let channel = world.channel(world.config(Some(&credentials))).await;
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::iter([ask]))
        .await
        .unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let mut names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "controller.SchedulerService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "schedule.Assignments",
            "scheduler.NodeService",
            "strata.v1.Identity",
        ]
    );
}

#[tokio::test]
async fn known_service_that_is_not_served_is_unimplemented() {
    let world = World::new().await;
    let credentials = world.issue("somebody", Role::Admin);
    let channel = world.channel(world.config(Some(&credentials))).await;
    let status = CellServiceClient::new(channel)
        .free(FreeCellRequest::default())
        .await;
    assert_eq!(status.unwrap_err().code(), Code::Unimplemented);
    let answer = get(&world, Some(Role::Admin), "/openapi.json").await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
}

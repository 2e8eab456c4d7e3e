//! The server calls the node through the connection that the node opened.

use hyper_util::rt::TokioIo;
use strata_api::runtime::pods_client::PodsClient;
use strata_api::strata::v1::exec_input::Input;
use strata_api::strata::v1::exec_output::Output;
use strata_api::strata::v1::{ExecInput, ListPodsRequest};
use strata_testkit::Code;
use strata_testkit::pods::{idle, shell};
use strata_testkit::v1::PodState;
use strata_transport::{CALLER_NAME, CALLER_ROLE, TunnelIo};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::agent::{run, world};

/// HTTP/2 over a tunnel.
async fn channel(tunnel: TunnelIo) -> Channel {
    let mut tunnel = Some(tunnel);
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        let tunnel = tunnel
            .take()
            .ok_or_else(|| std::io::Error::other("only one"));
        async move { tunnel.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://node");
    endpoint
        .connect_with_connector(connect)
        .await
        .expect("it answers")
}

/// A request on behalf of somebody.
fn by<T>(role: &str, request: T) -> Request<T> {
    let mut request = Request::new(request);
    let text = |text: &str| MetadataValue::try_from(text).expect("a word");
    request.metadata_mut().insert(CALLER_ROLE, text(role));
    request.metadata_mut().insert(CALLER_NAME, text("jo"));
    request
}

async fn exec(channel: &Channel, role: &str, script: &str) -> Result<Vec<u8>, Status> {
    let start = Input::Start(shell("web", script));
    let input = tokio_stream::once(ExecInput { input: Some(start) });
    let mut pods = PodsClient::new(channel.clone());
    let mut output = pods.exec(by(role, input)).await?.into_inner();
    let mut written = Vec::new();
    while let Some(message) = output.message().await? {
        if let Some(Output::Stdout(bytes)) = message.output {
            written.extend_from_slice(&bytes);
        }
    }
    Ok(written)
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnelled_calls_have_the_rights_of_their_caller() {
    let mut world = world().await;
    let server = world.followed().await;
    server.assign(&run("web", idle("web", &world.image))).await;
    server.becomes("web", PodState::Running).await;
    let channel = channel(world.server.tunnel().await).await;
    let said = exec(&channel, "operator", "echo hello").await.unwrap();
    assert_eq!(said, b"hello\n");
    // More than fits into any buffer on the way.
    let much = exec(&channel, "admin", "head -c 3000000 /dev/zero").await;
    assert_eq!(much.unwrap().len(), 3_000_000);
    let refused = exec(&channel, "viewer", "echo hello").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = exec(&channel, "king", "echo hello").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let mut pods = PodsClient::new(channel.clone());
    pods.list(by("viewer", ListPodsRequest::default()))
        .await
        .unwrap();
    let refused = pods.list(ListPodsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    // A certificate of the node's own port is not outdone by these headers.
    let mut direct = world.node.client().pods();
    direct
        .list(by("viewer", ListPodsRequest::default()))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_ends_is_opened_again() {
    let mut world = world().await;
    let server = world.followed().await;
    drop(world.server.tunnel().await);
    let second = channel(world.server.tunnel().await).await;
    let mut pods = PodsClient::new(second);
    pods.list(by("viewer", ListPodsRequest::default()))
        .await
        .unwrap();
    // With the conversation it ends and begins.
    server.end().await;
    world.followed().await;
    let third = channel(world.server.tunnel().await).await;
    let mut pods = PodsClient::new(third);
    pods.list(by("viewer", ListPodsRequest::default()))
        .await
        .unwrap();
}

//! Requests that are wrong as messages: too large, empty, for nobody.

use strata_testkit::runtime::{AllocateCellRequest, StartCellRequest};
use strata_testkit::v1::{ExecutableOptions, GetCellRequest};
use strata_testkit::{Code, Daemon, executable};

use crate::input::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_larger_than_any_that_makes_sense_is_refused() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    node.allocate("web").await.unwrap();
    let mut huge = executable("web", "main", "true");
    huge.options = Some(ExecutableOptions {
        environment: vec![format!("A={}", "x".repeat(8 << 20))],
        ..Default::default()
    });
    let status = node.start_as(huge).await.unwrap_err();
    assert!(
        [
            Code::OutOfRange,
            Code::ResourceExhausted,
            Code::InvalidArgument
        ]
        .contains(&status.code()),
        "{status:?}"
    );
    let request = GetCellRequest {
        cell_name: "x".repeat(8 << 20),
    };
    let status = node.client().cells().get(request).await.unwrap_err();
    assert_ne!(status.code(), Code::Internal, "{status:?}");
    // The connection and the daemon are none the worse for it.
    assert_eq!(node.names().await, ["web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_messages_say_what_is_missing() {
    let (_daemon, node) = Daemon::up(STRATA).await;
    let mut cells = node.client().cell_service();
    let status = cells.allocate(AllocateCellRequest::default()).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("cell:"), "{status:?}");
    let status = cells.start(StartCellRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("executable:"), "{status:?}");
}

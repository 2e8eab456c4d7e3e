//! Stock clients of gRPC on the node's Unix socket: libraries as they come, with
//! the `:authority` that each makes of a socket's path (decision 33).

use std::path::{Path, PathBuf};
use std::process::Command;

use strata_testkit::python::drive;
use strata_testkit::runtime::cell_service_client::CellServiceClient;
use strata_testkit::runtime::{AllocateCellRequest, Cell, FreeCellRequest};
use strata_testkit::{Daemon, skip};
use tonic::transport::Endpoint;

use super::STRATA;

async fn daemon() -> (Daemon, PathBuf) {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let socket = daemon.endpoints().node_socket.expect("a socket");
    (daemon, socket)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_grpc_client_calls_over_the_unix_socket() {
    let (_daemon, socket) = daemon().await;
    let Some(said) = drive("unix.py", vec![socket.into()]).await else {
        return;
    };
    let ways = ["unix:PATH", "unix://PATH", "plain path", "localhost"];
    assert_eq!(said, ways);
}

/// With the Go that builds Kubernetes.
#[tokio::test(flavor = "multi_thread")]
async fn grpc_go_client_calls_over_the_unix_socket() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/grpc-go-client");
    let built = Command::new(script).output().unwrap();
    let complaint = String::from_utf8_lossy(&built.stderr);
    if built.status.code() == Some(77) {
        return skip(complaint);
    }
    assert!(built.status.success(), "{complaint}");
    let client = String::from_utf8(built.stdout).unwrap();
    let (_daemon, socket) = daemon().await;
    let ran = tokio::task::spawn_blocking(move || {
        Command::new(client.trim()).arg(socket).output().unwrap()
    });
    let ran = ran.await.unwrap();
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{complaint}");
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(said, "unix:PATH\nunix://PATH\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn tonic_client_calls_over_the_unix_socket() {
    let (_daemon, socket) = daemon().await;
    for scheme in ["unix:", "unix://"] {
        let target = format!("{scheme}{}", socket.display());
        let channel = Endpoint::from_shared(target).unwrap().connect().await;
        let mut cells = CellServiceClient::new(channel.unwrap());
        let cell = Cell {
            name: "tonic".into(),
            ..Cell::default()
        };
        let made = cells.allocate(AllocateCellRequest { cell: Some(cell) });
        assert_eq!(made.await.unwrap().into_inner().cell_name, "tonic");
        let free = FreeCellRequest {
            cell_name: "tonic".into(),
            ..FreeCellRequest::default()
        };
        cells.free(free).await.unwrap();
    }
}

//! Clients that nobody here wrote, on the node's Unix socket.

use strata_testkit::Daemon;
use strata_testkit::python::drive;

use super::STRATA;

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_grpc_client_calls_over_the_unix_socket() {
    let (daemon, _node) = Daemon::up(STRATA).await;
    let socket = daemon.endpoints().node_socket.unwrap();
    let Some(said) = drive("unix.py", vec![socket.into()]).await else {
        return;
    };
    let ways = ["unix:PATH", "unix://PATH", "plain path", "localhost"];
    assert_eq!(said, ways);
}

//! Certificates that were revoked, and such as pass for others.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use strata_testkit::{Code, Credentials, Daemon, NodeClient, Target, v1, wait_for};

use crate::hostile::{STRATA, TEST_TIMEOUT};

/// A server, and a node that has joined it, both on the loopback.
async fn server_and_node() -> (Daemon, Daemon) {
    let server = Daemon::build(STRATA).role("server").start().await;
    let words = ["token", "create", "--name", "n1", "--join", "-q"];
    let token = server.cli_with_endpoints().run(words).await.ok();
    let node = Daemon::build(STRATA)
        .role("node")
        .arg("--server")
        .arg(server.endpoints().server.unwrap())
        .arg("--join-token")
        .arg(token.trim())
        .start()
        .await;
    (server, node)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_is_refused_on_the_ports_of_nodes_too() {
    let (server, mut node) = server_and_node().await;
    let dir = server.scratch().join("vic");
    let out = dir.display().to_string();
    let issue = [
        "certificate",
        "issue",
        "--role",
        "operator",
        "--name",
        "vic",
        "--out",
        &out,
    ];
    server.cli_with_endpoints().run(issue).await.ok();
    let credentials = Credentials::read(&dir).unwrap();
    let list = async |node: &Daemon| {
        let target = Target::Tls {
            address: node.endpoints().node.unwrap().parse().unwrap(),
            credentials: credentials.clone(),
        };
        let client = NodeClient::connect(&target).await.unwrap();
        let request = v1::ListCellsRequest::default();
        client.cells().list(request).await.map(drop)
    };
    list(&node).await.unwrap();
    let revoke = [
        "certificate",
        "revoke",
        "--yes",
        "--name",
        "vic",
        "--role",
        "operator",
    ];
    server.cli_with_endpoints().run(revoke).await.ok();
    wait_for(
        "the node to refuse it",
        TEST_TIMEOUT,
        async || match list(&node).await {
            Err(status) if status.code() == Code::Unauthenticated => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    // Also where it starts again and reaches no server.
    drop(server);
    node.kill();
    node.restart().await;
    let refused = list(&node).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
}

/// A handshake of a client that knows the CA and checks the name, as `curl` and
/// every other one do.
fn handshake(url: &str, name: &str, dir: &Path) -> io::Result<()> {
    strata_identity::install_crypto_provider();
    let read = |file: &str| std::fs::read(dir.join(file)).unwrap();
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(&read("ca.crt")) {
        roots.add(ca.unwrap()).unwrap();
    }
    let chain = CertificateDer::pem_slice_iter(&read("client.crt"))
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("client.key")).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = config.with_client_auth_cert(chain, key).unwrap();
    let name = name.to_owned().try_into().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(url.strip_prefix("https://").unwrap())?;
    let mut stream = StreamOwned::new(session, socket);
    stream.flush()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_does_not_pass_for_the_server_on_the_loopback() {
    let (server, node) = server_and_node().await;
    let (up, _client) = Daemon::up(STRATA).await;
    let admin = server.data_dir().join("client");
    let at = |daemon: &Daemon| daemon.endpoints();
    for name in ["localhost", "127.0.0.1", "::1"] {
        let of_server = handshake(&at(&server).server.unwrap(), name, &admin);
        of_server.unwrap_or_else(|error| panic!("{name}: {error}"));
        let of_node = handshake(&at(&node).node.unwrap(), name, &admin);
        assert!(of_node.is_err(), "{name}");
        let beside = up.data_dir().join("client");
        let of_node = handshake(&at(&up).node.unwrap(), name, &beside);
        assert!(of_node.is_err(), "{name}");
    }
}

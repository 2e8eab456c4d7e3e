//! The server against its own OpenAPI document, by a tool that makes up
//! requests: no answer that the document does not promise, nothing refused
//! that it allows, and never an error of the server.

use std::sync::Arc;
use std::time::Duration;

use strata_audit::{AuditLog, Limits as AuditLimits};
use strata_identity::{
    Ca, CertificateSpec, Clock, LiveIdentity, Tokens, server_config_optional_client,
};
use strata_server::api::{policy, rest};
use strata_transport::{AuthLayer, serve_tls};
use strata_types::Role;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// What the script exits with when the tool cannot be had.
const MISSING: i32 = 77;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_conforms_to_its_openapi_document() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Ca::open(&dir.path().join("ca")).unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, ca.ca_pem()).unwrap();
    let tokens = Arc::new(Tokens::open(&dir.path().join("tokens.json")).unwrap());
    let tool = "tool".parse().unwrap();
    let (_, token) = tokens.create_api(&tool, Role::Admin, None).unwrap();
    let server = CertificateSpec::server("server".parse().unwrap());
    let identity = Arc::new(LiveIdentity::new(&ca.issue(&server).unwrap()).unwrap());
    let tls = server_config_optional_client(&ca.ca_pem(), identity, Clock::system()).unwrap();

    let world = World::new().await;
    world.node("0").await;
    let mut state = world.state.clone();
    // One of its own: the tool rotates it, and the listener's stays trusted.
    let rotated = Ca::open(&dir.path().join("rotated")).unwrap();
    state.ca = Some(Arc::new(rotated));
    let audit = AuditLog::open(&dir.path().join("audit"), AuditLimits::default()).unwrap();
    state.audit = Some(audit);
    // The tool waits for an answer to end.
    state.longest_watch = Duration::from_millis(20);
    let gate = AuthLayer::new(policy(), Some(tokens), Clock::system());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let shutdown = CancellationToken::new();
    let serving = serve_tls(listener, tls, rest::routes(state), gate, shutdown.clone());
    let serving = tokio::spawn(serving);

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/schemathesis");
    let mut run = Command::new(script);
    run.args([&url, token.expose()])
        .arg(&ca_file)
        .kill_on_drop(true);
    run.args(["--max-examples", strata_testkit::rounds("5", "50")]);
    let run = tokio::time::timeout(Duration::from_secs(1000), run.output());
    let run = run.await.expect("it ends").unwrap();
    shutdown.cancel();
    serving.await.unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    if run.status.code() == Some(MISSING) {
        return strata_testkit::skip(err.lines().last().unwrap_or_default());
    }
    assert!(run.status.success(), "{out}\n{err}");
}

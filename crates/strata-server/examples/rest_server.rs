//! A control plane with nothing behind it: all in memory, no nodes, the REST
//! API over TLS. For tools that try out what the OpenAPI document promises.
//!
//! Prints one line with the address, the admin token and the CA's file, and
//! serves until standard input ends.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use strata_identity::{
    Authority, CertificateSpec, Clock, LiveIdentity, Tokens, server_config_optional_client,
};
use strata_scheduler::{Overcommit, Settings};
use strata_server::core::{Core, CoreSettings, Lead, Range};
use strata_server::faces::rest::{self, RestState};
use strata_server::{Build, Faces, Metrics, placement};
use strata_store::Memory;
use strata_transport::{Gate, serve_tls};
use strata_types::Role;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::open(&folder.path().join("ca"))?;
    let tokens = Arc::new(Tokens::open(&folder.path().join("tokens.json"))?);
    let (_, token) = tokens.create_api(&"tool".parse()?, Role::Admin, None)?;
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.ca_pem())?;

    let shutdown = CancellationToken::new();
    let settings = CoreSettings {
        range: Range::DEFAULT,
        lease: Duration::from_secs(10),
        placement: Settings::default(),
        overcommit: Overcommit::default(),
        alone: true,
    };
    let core = Core::open(Arc::new(Memory::new()), settings, shutdown.clone()).await?;
    core.set_lead(Lead::Leading(None));
    let placement = placement::start(core.clone(), shutdown.clone());
    let mut state = RestState::new(core, placement, shutdown.clone());
    // Tools wait for an answer to end.
    state.longest_watch = Duration::from_millis(50);

    let gate = Gate::new(Some(tokens), Clock::system());
    let metrics = Arc::new(Metrics::new(gate.refusals(), Build::default()));
    let app = Faces::new(metrics)
        .http(rest::routes(state))
        .router()
        .await?;
    let server = CertificateSpec::server("server".parse()?);
    let identity = Arc::new(LiveIdentity::new(&authority.issue(&server)?)?);
    let tls = server_config_optional_client(authority.ca_pem(), identity, Clock::system())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let serving = tokio::spawn(serve_tls(listener, tls, app, gate, shutdown.clone()));
    println!(
        "ready https://localhost:{port} {} {}",
        token.expose(),
        ca.display()
    );
    let ended = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let _ = tokio::task::spawn_blocking(ended).await;
    shutdown.cancel();
    serving.await?;
    Ok(())
}

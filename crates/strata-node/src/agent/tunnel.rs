//! The way back: the node's own faces, served to the server on a connection
//! that the node opened.

use std::sync::Arc;
use std::time::Duration;

use strata_client::ServerClient;
use strata_transport::{FollowedTerm, TunnelIo, serve_tunnel};
use tokio_util::sync::CancellationToken;

use super::AgentConfig;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Keeps a tunnel open until told to stop.
pub(super) async fn keep(
    client: ServerClient,
    config: &AgentConfig,
    term: Arc<dyn FollowedTerm>,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (requests, sender) = TunnelIo::opening();
        let mut assignments = client.assignments();
        let opened = tokio::select! {
            opened = assignments.tunnel(requests) => opened,
            () = stop.cancelled() => return,
        };
        match opened {
            Ok(answers) => {
                pause = FIRST_PAUSE;
                let tunnel = sender.with(answers.into_inner());
                let (app, gate) = (config.app.clone(), config.gate.clone());
                serve_tunnel(tunnel, app, gate, term.clone(), stop.clone()).await;
            }
            Err(status) => tracing::debug!(%status, "the server opens no tunnel"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

//! The way back: the node's own faces, served to the server on a connection
//! that the node opened.

use std::sync::Arc;
use std::time::Duration;

use strata_client::ServerClient;
use strata_transport::{AuthLayer, FollowedTerm, TunnelIo, serve_tunnel};
use tokio_util::sync::CancellationToken;

const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Keeps a tunnel open until it is stopped.
pub(super) async fn keep(
    client: ServerClient,
    app: axum::Router,
    gate: AuthLayer,
    term: Arc<dyn FollowedTerm>,
    stop: CancellationToken,
) {
    let mut pause = MIN_BACKOFF;
    loop {
        let (requests, sender) = TunnelIo::opening();
        let mut assignments = client.assignments();
        let opened = tokio::select! {
            opened = assignments.tunnel(requests) => opened,
            () = stop.cancelled() => return,
        };
        match opened {
            Ok(answers) => {
                pause = MIN_BACKOFF;
                let tunnel = sender.with(answers.into_inner());
                let (app, gate) = (app.clone(), gate.clone());
                serve_tunnel(tunnel, app, gate, term.clone(), stop.clone()).await;
            }
            Err(status) => tracing::debug!(%status, "tunnel refused by the server"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

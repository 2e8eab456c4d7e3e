//! Moving pods off a node, as `kubectl drain` does it: by evictions, which
//! disruption budgets may refuse. What belongs to the node itself stays.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::objects::{List, Pod};
use crate::{Drained, DriverError};

/// One call; the next one goes on.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(20);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Evicts what can be moved, until it is gone or the time is over.
pub(super) async fn drain(api: &Api, node: &str) -> Result<Drained, DriverError> {
    drain_within(api, node, SCRIPT_TIMEOUT).await
}

pub(super) async fn drain_within(
    api: &Api,
    node: &str,
    bound: Duration,
) -> Result<Drained, DriverError> {
    let end = Instant::now() + bound;
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    loop {
        let pods: List<Pod> = api.get(&path).await?;
        let left: Vec<&Pod> = pods.items.iter().filter(|pod| moves(pod)).collect();
        if left.is_empty() {
            return Ok(Drained::Empty);
        }
        for pod in left.iter().filter(|pod| !is_going(pod)) {
            evict(api, pod).await?;
        }
        if Instant::now() + RETRY_INTERVAL >= end {
            let names = left.iter().map(|pod| pod.full_name());
            return Ok(Drained::Waiting(names.collect()));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Whether it is a caller's that can run elsewhere. A DaemonSet's would come
/// back at once, and a mirror is only the picture of a file.
fn moves(pod: &Pod) -> bool {
    !pod.is_mirror() && !pod.is_over() && !pod.is_of_daemon_set()
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// A budget that keeps it is no failure: the eviction is requested again later.
async fn evict(api: &Api, pod: &Pod) -> Result<(), DriverError> {
    let meta = &pod.metadata;
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/eviction",
        meta.namespace, meta.name
    );
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        // Not its successor of the same name.
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    });
    let passing = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::NOT_FOUND,
        StatusCode::CONFLICT,
    ];
    match api.post(&path, &eviction).await {
        Err(error) if passing.iter().any(|status| error.is(*status)) => Ok(()),
        // Two budgets over one pod: Kubernetes refuses that with 500, always.
        Err(ApiError::Answered { status, message }) if status.is_server_error() => {
            tracing::warn!(pod = pod.full_name(), %status, message, "eviction of the pod refused");
            Ok(())
        }
        other => Ok(other?),
    }
}

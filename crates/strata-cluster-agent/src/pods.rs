//! The network of the pods, kept as the configuration says: set when that
//! changes, and reconciled periodically, since other programs change the same
//! kernel. The file by which pods are attached is written after it: a machine
//! is ready for pods when there is a network for them.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use strata_network::{ClusterOverlay, ClusterOverlayConfig, NetworkError};
use tokio::time::sleep;

use crate::follow::Configs;
use crate::{AgentConfig, PodNetworkConfig, cni};

/// The name of the VXLAN device.
pub const DEVICE: &str = "strata-pods";
/// The name of the nftables table. No run of Strata has a tag like this.
pub const TABLE: &str = "strata-pod-network";

/// How soon it is tried again when it did not work.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
enum PodsError {
    #[error("the pod network")]
    Network(#[from] NetworkError),
    #[error("the configuration of CNI in {dir}")]
    Cni { dir: String, source: io::Error },
}

/// Keeps the network forever.
pub(crate) async fn run(mut configs: Configs, every: Duration) {
    let mut overlay = None;
    let mut news = true;
    loop {
        let config = configs.borrow_and_update().clone();
        let mut pause = every;
        if let Some(config) = config {
            // The kernel takes its time with some of it.
            let work = move || {
                let done = ensure(&mut overlay, &config);
                (overlay, done)
            };
            let (kept, done) = match tokio::task::spawn_blocking(work).await {
                Ok(worked) => worked,
                Err(error) => {
                    tracing::error!(%error, "pod network failed");
                    (None, Ok(false))
                }
            };
            overlay = kept;
            match done {
                Ok(false) => {}
                Ok(true) if news => tracing::info!("pod network configured"),
                Ok(true) => tracing::warn!("pod network was changed from outside; repaired"),
                Err(error) => {
                    // Should a socket be broken, it is opened again.
                    overlay = None;
                    pause = RETRY_INTERVAL.min(every);
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "pod network not configured; retrying");
                }
            }
        }
        news = tokio::select! {
            changed = configs.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            () = sleep(pause) => false,
        };
    }
}

/// Makes everything as it should be; whether something was not.
fn ensure(overlay: &mut Option<ClusterOverlay>, config: &AgentConfig) -> Result<bool, PodsError> {
    let overlay = match overlay {
        Some(overlay) => overlay,
        none => none.insert(ClusterOverlay::open()?),
    };
    let Some(network) = &config.network else {
        overlay.remove(DEVICE, TABLE)?;
        return Ok(false);
    };
    let changed = overlay.apply(&wanted(network))?;
    let Some(cni) = &config.cni else {
        return Ok(changed);
    };
    let written = cni::ensure(cni, network).map_err(|source| PodsError::Cni {
        dir: cni.dir.display().to_string(),
        source,
    })?;
    Ok(changed || written)
}

fn wanted(network: &PodNetworkConfig) -> ClusterOverlayConfig {
    ClusterOverlayConfig {
        device: DEVICE.to_owned(),
        table: TABLE.to_owned(),
        underlay: network.address,
        subnet: network.pod_subnet,
        range: network.cluster_subnet,
        id: network.vni,
        port: network.port,
        mtu: network.mtu,
        peers: network.others().collect::<BTreeSet<_>>(),
    }
}

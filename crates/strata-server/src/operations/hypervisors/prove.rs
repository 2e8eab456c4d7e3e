//! Tries a node for real: a cell, a process in it, its end.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_api::error_from_status;
use strata_api::runtime::cell_service_client::CellServiceClient;
use strata_api::runtime::{
    AllocateCellRequest, Cell, Executable, FreeCellRequest, StartCellRequest,
};
use strata_api::strata::v1::cells_client::CellsClient;
use strata_api::strata::v1::node_client::NodeClient;
use strata_api::strata::v1::{GetNodeInfoRequest, WaitExecutableRequest};
use strata_types::{Error, ErrorKind, Result};

use super::HypervisorProof;
use crate::core::Principal;
use crate::link::Tunnels;

/// For the whole trial.
const PROOF_TIMEOUT: Duration = Duration::from_secs(30);
/// A tunnel may come a moment after the node did.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
const CELL: &str = "strata-proof";
const RUN: &str = "version";

/// By the node's own API.
pub struct CellProof(pub Tunnels);

impl HypervisorProof for CellProof {
    fn prove<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            let until = tokio::time::Instant::now() + PROOF_TIMEOUT;
            loop {
                let trying = self.0.newest(node, || try_out(&self.0, node));
                let tried = tokio::time::timeout_at(until, trying).await;
                let error = match tried {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(error)) => error,
                    Err(_) => {
                        let seconds = PROOF_TIMEOUT.as_secs();
                        let why = format!("node {node} ran nothing within {seconds} s");
                        return Err(Error::unavailable(why));
                    }
                };
                // The tunnel may be the one of its life before: the new one comes.
                if !is_passing(&error) || tokio::time::Instant::now() >= until {
                    return Err(error);
                }
                tokio::time::sleep(10 * RETRY_INTERVAL).await;
            }
        }
        .boxed()
    }
}

/// Whether it is of the way to the node, not of the node.
fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Internal | ErrorKind::Aborted
    )
}

async fn try_out(tunnels: &Tunnels, node: &str) -> Result<()> {
    let principal = Principal::server("operation");
    let channel = loop {
        match tunnels.node(node, &principal) {
            Ok(channel) => break channel,
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    };
    let mut node = NodeClient::new(channel.clone());
    let info = node.get_info(GetNodeInfoRequest {}).await;
    let info = info.map_err(|status| error_from_status(&status))?;
    // The node's own program is there wherever the node is.
    let program = match info.into_inner().program {
        program if program.is_empty() => "/bin/true".to_owned(),
        program => format!("{} version", shell_word(&program)),
    };
    let mut cells = CellServiceClient::new(channel.clone());
    let free = FreeCellRequest {
        cell_name: CELL.into(),
        ..FreeCellRequest::default()
    };
    // One that an earlier try left.
    let _ = cells.free(free.clone()).await;
    let cell = Cell {
        name: CELL.into(),
        ..Cell::default()
    };
    let made = cells.allocate(AllocateCellRequest { cell: Some(cell) });
    made.await.map_err(|status| error_from_status(&status))?;
    let proven = run(channel, &mut cells, &program).await;
    let freed = cells.free(free).await;
    proven?;
    freed.map_err(|status| error_from_status(&status))?;
    Ok(())
}

async fn run(
    channel: crate::link::NodeChannel,
    cells: &mut CellServiceClient<crate::link::NodeChannel>,
    program: &str,
) -> Result<()> {
    let executable = Executable {
        name: RUN.into(),
        command: program.into(),
        cell_name: CELL.into(),
        description: "proves that this node runs something".into(),
        ..Executable::default()
    };
    let start = StartCellRequest {
        executable: Some(executable),
    };
    let started = cells.start(start).await;
    started.map_err(|status| error_from_status(&status))?;
    let wait = WaitExecutableRequest {
        cell_name: CELL.into(),
        executable_name: RUN.into(),
    };
    let ended = CellsClient::new(channel).wait(wait).await;
    let ended = ended.map_err(|status| error_from_status(&status))?;
    let status = ended.into_inner();
    match status.exit_code {
        Some(0) => Ok(()),
        other => Err(Error::unavailable(format!(
            "{program} in a cell ended with {other:?}"
        ))),
    }
}

/// As a shell would read it back.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

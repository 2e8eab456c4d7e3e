//! What an idle daemon and an idle cell cost.

use std::path::Path;

use strata_api::strata::v1::ListCellsRequest;

use crate::daemon::{Daemon, resident_kb};
use crate::{Effort, Result};

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let daemon = Daemon::start(binary, "").await?;
    let idle = resident_kb(daemon.pid())?;
    for i in 0..effort.idle_cells {
        daemon.allocate(&format!("idle-{i}")).await?;
    }
    let full = resident_kb(daemon.pid())?;
    let listed = daemon
        .node
        .cells()
        .list(ListCellsRequest::default())
        .await?
        .into_inner();
    let inits: u64 = listed
        .cells
        .iter()
        .map(|cell| resident_kb(cell.init_pid))
        .sum::<Result<u64>>()?;
    let cells = listed.cells.len() as u64;
    let per_cell = (full.saturating_sub(idle) + inits) / cells.max(1);
    println!(
        "idle daemon: {:.1} MB resident (aim 20)",
        idle as f64 / 1024.0
    );
    println!(
        "daemon with {cells} idle cells: {:.1} MB",
        full as f64 / 1024.0
    );
    println!(
        "an idle cell: {per_cell} kB (aim 1024): {} kB its init, the rest the daemon's",
        inits / cells.max(1)
    );
    Ok(())
}

//! What a server takes of memory: idle, and with a hundred nodes and all
//! their instances.

use std::path::Path;

use strata_api::scheduler::Status;

use crate::control::{Fleet, Instances, Server, create_many};
use crate::daemon::resident_kb;
use crate::{Effort, Result};

const NODES: usize = 100;

#[allow(clippy::print_stdout)]
pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let server = Server::start(binary, "").await?;
    let pid = server.daemon.pid();
    let megabytes = || resident_kb(pid).map(|kb| kb as f64 / 1024.0);
    println!("| a server's memory | MB | aim |\n|---|---|---|");
    println!("| idle | {:.1} | 40 |", megabytes()?);
    let fleet = Fleet::start(&server, NODES, Instances::Run).await?;
    println!("| with {NODES} nodes | {:.1} | |", megabytes()?);
    let connections = server.admins(64).await?;
    let count = effort.kept_instances;
    let made = create_many(&connections, count, Status::Running).await?;
    println!(
        "| with {NODES} nodes and {} running instances | {:.1} | 150 |",
        made.times.count(),
        megabytes()?
    );
    println!("\ncreated until RUNNING at {:.0} a second", made.rate);
    drop(fleet);
    Ok(())
}

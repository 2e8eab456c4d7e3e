//! Nothing runs twice. Each instance keeps a ledger of its own runs on the host,
//! and ignores what asks it to end; two runs that overlap fail the test,
//! whatever the daemons believe.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod control_plane_outage;
mod forced_delete;
mod full_disk;
mod leases;
mod node_files;
mod other_leases;
mod random_faults;
mod rescheduling;
mod returning_nodes;
mod servers;
mod slow_store;
mod waived_leases;

use std::time::Duration;

use strata_testkit::cluster::{Cluster, TEST_TIMEOUT};
use strata_testkit::{Ledger, Run, boot_time, holds, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// How long after the end of the lease an instance of a dead node runs
/// elsewhere at the latest.
const FAILOVER: Duration = Duration::from_secs(2);

/// A server with this lease and this many nodes.
async fn cluster(lease: u64, nodes: u8) -> Cluster {
    let config = format!("[scheduler]\nlease_seconds = {lease}\npolicy = \"spread\"\n");
    Cluster::build(STRATA)
        .server_config(&config)
        .nodes(nodes)
        .start()
        .await
}

/// The node that an instance is on.
async fn node_of(cluster: &Cluster, name: &str) -> usize {
    let path = format!("/instance/id-{name}");
    let one = cluster.rest().get(&path).await;
    let node = one["node"].as_str().unwrap_or_else(|| panic!("{one}"));
    let is_it = |member: &strata_testkit::cluster::Member| member.name == node;
    cluster.nodes.iter().position(is_it).unwrap()
}

/// Waits for the second run of an instance; how long after `fault` it began.
#[allow(clippy::print_stderr)]
async fn failover(ledger: &Ledger, name: &str, fault: Duration, lease: u64) -> Run {
    let second = ledger.run(name, 2).await;
    let took = second.first.saturating_sub(fault);
    let first = &ledger.runs(name)[0];
    let gap = second.first.saturating_sub(first.last);
    eprintln!("lease {lease} s: runs elsewhere after {took:?}, {gap:?} after the first run ended");
    second
}

/// Lets this much time of the boot clock pass.
async fn pass(time: Duration) {
    let begin = boot_time();
    wait_for("time to pass", TEST_TIMEOUT, async || {
        holds(boot_time() > begin + time)
    })
    .await;
}

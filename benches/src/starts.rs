//! How long it takes until a program runs: in a new cell, and in one that is
//! there.

use std::path::Path;
use std::time::Instant;

use crate::daemon::Daemon;
use crate::stats::{Times, heading, ratio};
use crate::{Effort, Result, floor, peers};

const PROGRAM: &str = "/bin/busybox";

pub(crate) async fn run(binary: &Path, effort: Effort) -> Result {
    let daemon = Daemon::start(binary, "").await?;
    let n = effort.starts;
    // Interleaved would be fairer still; the floor before and after shows
    // whether the machine was steady.
    let floor_before = floor::cell(PROGRAM, n)?;
    let call = calls(&daemon, n).await?;
    let (allocate, new_cell) = new_cells(&daemon, n).await?;
    let whole = whole_cycles(&daemon, n).await?;
    let further = further(&daemon, n).await?;
    let spawn = floor::spawn(PROGRAM, n)?;
    let process = floor::process(PROGRAM, n)?;
    let network = floor::cell_with_network(PROGRAM, n)?;
    let crun = peers::run("crun", PROGRAM, n.min(100))?;
    let runc = peers::run("runc", PROGRAM, n.min(100))?;
    let floor_after = floor::cell(PROGRAM, n)?;
    heading();
    floor_before.row("floor: clone3 with a cell's namespaces + exec + wait");
    floor_after.row("floor again, at the end");
    process.row("floor: clone3 without namespaces + exec + wait");
    network.row("floor: with a network namespace too");
    spawn.row("fork + exec, until exec is done");
    call.row("strata: a call that only answers");
    allocate.row("strata: Allocate");
    new_cell.row("strata: Allocate + Start, until exec is done");
    whole.row("strata: Allocate + Start + Wait + Free");
    further.row("strata: Start of a further executable");
    crun.row("crun run");
    runc.row("runc run");
    let floor = floor_before.median().min(floor_after.median());
    print_blank();
    ratio(
        "Allocate + Start / crun run",
        new_cell.median(),
        crun.median(),
        "0.25",
    );
    ratio(
        "Allocate + Start / runc run",
        new_cell.median(),
        runc.median(),
        "-",
    );
    ratio("Allocate + Start / floor", new_cell.median(), floor, "3");
    ratio("whole cycle / crun run", whole.median(), crun.median(), "-");
    ratio(
        "further Start / fork + exec",
        further.median(),
        spawn.median(),
        "2",
    );
    ratio(
        "further Start / clone3 + exec + wait",
        further.median(),
        process.median(),
        "2",
    );
    Ok(())
}

#[allow(clippy::print_stdout)]
fn print_blank() {
    println!();
}

/// A call whose answer is known at once: the price of being an API.
async fn calls(daemon: &Daemon, n: usize) -> Result<Times> {
    daemon.allocate("call").await?;
    let mut times = Vec::new();
    for _ in 0..n {
        let begin = Instant::now();
        daemon.allocate("call").await?;
        times.push(begin.elapsed());
    }
    daemon.free("call").await?;
    Ok(Times::new(times))
}

/// Allocate, and Allocate and Start until exec is done; the cell is freed off
/// the clock.
async fn new_cells(daemon: &Daemon, n: usize) -> Result<(Times, Times)> {
    let (mut allocates, mut times) = (Vec::new(), Vec::new());
    for i in 0..n {
        let name = format!("new-{i}");
        let begin = Instant::now();
        daemon.allocate(&name).await?;
        allocates.push(begin.elapsed());
        daemon.run(&name, "main", "/bin/busybox true").await?;
        times.push(begin.elapsed());
        daemon.free(&name).await?;
    }
    Ok((Times::new(allocates), Times::new(times)))
}

/// What the peers' `run` does: make, start, wait, remove.
async fn whole_cycles(daemon: &Daemon, n: usize) -> Result<Times> {
    let mut times = Vec::new();
    for i in 0..n {
        let name = format!("whole-{i}");
        let begin = Instant::now();
        daemon.allocate(&name).await?;
        daemon.run(&name, "main", "/bin/busybox true").await?;
        let request = strata_api::strata::v1::WaitExecutableRequest {
            cell_name: name.clone(),
            executable_name: "main".into(),
        };
        daemon.node.cells().wait(request).await?;
        daemon.free(&name).await?;
        times.push(begin.elapsed());
    }
    Ok(Times::new(times))
}

async fn further(daemon: &Daemon, n: usize) -> Result<Times> {
    daemon.allocate("further").await?;
    let mut times = Vec::new();
    for i in 0..n {
        let begin = Instant::now();
        daemon
            .run("further", &format!("e{i}"), "/bin/busybox true")
            .await?;
        times.push(begin.elapsed());
    }
    daemon.free("further").await?;
    Ok(Times::new(times))
}

//! Nothing dies with the daemon: it is killed, ended, started again, and
//! whatever ran goes on, whatever happened meanwhile is known, and whatever
//! was half done is finished or cleared away.

mod daemon_kills;
mod daemon_shutdown;
mod kill_storms;
mod orphan_cleanup;
mod stuck_init;
mod supervised_executables;

use std::path::Path;

use strata_testkit::{Gate, TEST_TIMEOUT, holds, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A shell command that waits at a gate before it goes on with `rest`.
fn after(gate: &Gate, rest: &str) -> String {
    format!("sh -c '{}; {rest}'", gate.wait())
}

/// Waits until a process is gone, and reaped.
async fn gone(pid: i64) {
    let dir = format!("/proc/{pid}");
    wait_for("the process to be gone", TEST_TIMEOUT, async || {
        holds(!Path::new(&dir).exists())
    })
    .await;
}

fn kill(pid: i64) {
    let pid = i32::try_from(pid).expect("a pid is a small number");
    let pid = rustix::process::Pid::from_raw(pid).expect("it is running");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
}

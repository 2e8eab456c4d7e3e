//! Cells, end to end: every call of `runtime.CellService` and
//! `strata.v1.Cells` against a daemon of its own, held against the kernel's
//! own files.

mod allocate;
mod cell_environment;
mod cell_queries;
mod concurrent_calls;
mod executables;
mod free;
mod limits;
mod standard_input;
mod stop;
mod supervised;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

fn kill(pid: i64) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).expect("a pid is a small number");
    let pid = Pid::from_raw(pid).expect("a pid is not 0");
    kill_process(pid, Signal::KILL).expect("it was there");
}

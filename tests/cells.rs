//! Cells, end to end: every call of `runtime.CellService` and
//! `strata.v1.Cells` against a daemon of its own, held against the kernel's
//! own files.

#[path = "cells/allocate.rs"]
mod allocate;
#[path = "cells/end.rs"]
mod end;
#[path = "cells/executables.rs"]
mod executables;
#[path = "cells/free.rs"]
mod free;
#[path = "cells/input.rs"]
mod input;
#[path = "cells/inside.rs"]
mod inside;
#[path = "cells/limits.rs"]
mod limits;
#[path = "cells/look.rs"]
mod look;
#[path = "cells/races.rs"]
mod races;
#[path = "cells/supervised.rs"]
mod supervised;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

fn kill(pid: i64) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).expect("a pid is a small number");
    let pid = Pid::from_raw(pid).expect("a pid is not 0");
    kill_process(pid, Signal::KILL).expect("it was there");
}

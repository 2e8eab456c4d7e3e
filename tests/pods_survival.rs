//! No pod dies with the daemon, and none is ever half there: the daemon is
//! killed at each step of what it does, at any time, ended, started again on
//! a machine that lost all processes, and starved of room. Afterwards each
//! pod is whole or gone, and the machine is as it was.

#[path = "pods_survival/ends.rs"]
mod ends;
#[path = "pods_survival/full.rs"]
mod full;
#[path = "pods_survival/kills.rs"]
mod kills;
#[path = "pods_survival/steps.rs"]
mod steps;
#[path = "pods_survival/world.rs"]
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

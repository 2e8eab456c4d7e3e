//! No pod dies with the daemon, and none is ever half there: the daemon is
//! killed at each step of what it does, at any time, ended, started again on
//! a machine that lost all processes, and starved of room. Afterwards each
//! pod is whole or gone, and the machine is as it was.

mod kill_at_each_step;
mod random_kills;
mod resource_exhaustion;
mod shutdown_and_reboot;
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

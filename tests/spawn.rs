//! Machines inside the machine, end to end: made, reached over TLS, used as
//! nodes, killed, found again and taken away, looked at from outside and from
//! inside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "spawn/inside.rs"]
mod inside;
#[path = "spawn/join.rs"]
mod join;
#[path = "spawn/kills.rs"]
mod kills;
#[path = "spawn/life.rs"]
mod life;
#[path = "spawn/reboot.rs"]
mod reboot;
#[path = "spawn/two.rs"]
mod two;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

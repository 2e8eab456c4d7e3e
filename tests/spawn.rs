//! Machines inside the machine, end to end: made, reached over TLS, used as
//! nodes, killed, found again and taken away, looked at from outside and from
//! inside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod inside;
mod join;
mod kills;
mod life;
mod reboot;
mod two;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

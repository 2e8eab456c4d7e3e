//! Logs, end to end: the published streams by pid, the daemon's own log, and
//! logs by name; history first, then live, in order and whole.

#[path = "logs/by_name.rs"]
mod by_name;
#[path = "logs/bytes.rs"]
mod bytes;
#[path = "logs/crowds.rs"]
mod crowds;
#[path = "logs/rotation.rs"]
mod rotation;
#[path = "logs/streams.rs"]
mod streams;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

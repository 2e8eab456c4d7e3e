//! Logs, end to end: the published streams by pid, the daemon's own log, and
//! logs by name; history first, then live, in order and whole.

mod by_name;
mod bytes;
mod concurrent_readers;
mod full_disk;
mod observe_streams;
mod rotation;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

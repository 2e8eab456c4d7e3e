//! Nested nodes, end to end: made, reached over TLS, used as
//! nodes, killed, found again and taken away, looked at from outside and from
//! inside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod join;
mod nested_environment;
mod nested_kills;
mod nested_lifecycle;
mod reboot;
mod two_nested_nodes;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

//! Machines that come and go: one suite of promises for every provider, and
//! for those that bring up real machines, that their nodes come to the server
//! and run what they are given.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod local;
mod qemu;
mod sim;
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// Says it whether or not the test's output is captured.
fn tell(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "providers: {text}");
}

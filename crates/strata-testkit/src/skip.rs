//! Tests that cannot run here. Silence would look like success: where all of
//! them are requested, one that is left out has failed.

use std::io::Write as _;

/// Set to anything but `0`, no test may be left out. `make test` does.
pub const REQUIRE_ALL: &str = "STRATA_REQUIRE_ALL";

/// Prints why a test is left out, whether or not its output is captured.
///
/// # Panics
/// When all tests are requested.
#[track_caller]
pub fn skip(why: impl std::fmt::Display) {
    let required = std::env::var_os(REQUIRE_ALL).is_some_and(|value| value != "0");
    assert!(
        !required,
        "{REQUIRE_ALL} is set, and this cannot run here: {why}"
    );
    let _ = writeln!(std::io::stderr(), "skipped, nothing is proven: {why}");
}

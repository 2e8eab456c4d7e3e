//! Campaigns: the same test at two lengths. `make test` runs them shortened,
//! `make soak` at full length.

/// Set to anything but `0`, campaigns run at full length.
const SOAK: &str = "STRATA_SOAK";

/// How many rounds a campaign has in this run.
pub fn rounds<T>(short: T, full: T) -> T {
    match std::env::var_os(SOAK).is_some_and(|value| value != "0") {
        true => full,
        false => short,
    }
}

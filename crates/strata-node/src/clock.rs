//! Unix time in the units of the API.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix nanoseconds now.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Unix milliseconds now.
pub(crate) fn now_ms() -> i64 {
    ms(now_ns())
}

pub(crate) fn ms(ns: u64) -> i64 {
    i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX)
}

//! The `[limits]` section: what one caller may take of the daemon, and what a
//! project may put into the store.
//!
//! ```toml
//! [limits]
//! requests_per_second = 500
//! concurrent_requests = 512
//! workloads_per_project = 1000
//! ```

use serde::Deserialize;
use strata_server::core::StoreBounds;
use strata_transport::CallerLimits;

/// Budgets of callers and bounds of projects. A rate of 0 is no bound.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsTable {
    /// Connections of one caller at once. Default: 128.
    connections: Option<u32>,
    /// Requests of one caller under way at once, watches and other streams
    /// included. Default: 512.
    concurrent_requests: Option<u32>,
    /// Requests of one caller a second, over time. Default: 500.
    requests_per_second: Option<u32>,
    /// Requests of one caller at once after a rest. Default: 2000.
    request_burst: Option<u32>,
    /// Megabytes to and from one caller a second, over time. Default: 64.
    megabytes_per_second: Option<u32>,
    /// Requests of one caller a second that the audit log records, over time;
    /// of admins as many as they send. Default: 20.
    audited_requests_per_second: Option<u32>,
    /// The same at once after a rest. Default: 1000.
    audited_request_burst: Option<u32>,
    /// Megabytes of lines that the audit log takes of one caller a day, admins
    /// excepted; 16 MiB of it at once after a rest. Default: 268.
    audited_megabytes_per_day: Option<u32>,
    /// Requests a second from one address without a credential. Default: 100.
    unauthenticated_requests_per_second: Option<u32>,
    /// Instances of one project, where its quota names no other number.
    /// Default: 10000.
    instances_per_project: Option<u32>,
    /// Workloads of one project. Default: 1000.
    workloads_per_project: Option<u32>,
    /// Megabytes of the instances, workloads and secrets of one project.
    /// Default: 64.
    stored_megabytes_per_project: Option<u32>,
    /// Answers to requests with an idempotency key that are kept for one
    /// caller. Default: 10000.
    kept_answers_per_caller: Option<u32>,
}

/// Seconds of the rate that may be used at once after a rest.
const BURST_SECONDS: u64 = 8;
const MEGABYTE: u64 = 1_000_000;

impl LimitsTable {
    /// The budget of one caller.
    pub(super) fn caller(&self) -> Result<CallerLimits, String> {
        let default = CallerLimits::default();
        let rate = self.requests_per_second;
        let anyone = self.unauthenticated_requests_per_second;
        let megabytes = self.megabytes_per_second.map(u64::from);
        let scaled = |rate: Option<u32>, default: u32, factor: u32| {
            rate.map_or(default, |rate| rate.saturating_mul(factor))
        };
        Ok(CallerLimits {
            connections: least("connections", self.connections, default.connections)?,
            concurrent_requests: least(
                "concurrent_requests",
                self.concurrent_requests,
                default.concurrent_requests,
            )?,
            requests_per_second: rate.unwrap_or(default.requests_per_second),
            request_burst: self
                .request_burst
                .unwrap_or_else(|| scaled(rate, default.request_burst, 4)),
            bytes_per_second: megabytes.map_or(default.bytes_per_second, |mb| mb * MEGABYTE),
            byte_burst: megabytes.map_or(default.byte_burst, |mb| mb * MEGABYTE * BURST_SECONDS),
            audited_per_second: self
                .audited_requests_per_second
                .unwrap_or(default.audited_per_second),
            audited_burst: self.audited_request_burst.unwrap_or(default.audited_burst),
            audited_bytes_per_second: self
                .audited_megabytes_per_day
                .map_or(default.audited_bytes_per_second, bytes_per_second),
            unauthenticated_per_second: anyone.unwrap_or(default.unauthenticated_per_second),
            unauthenticated_burst: scaled(anyone, default.unauthenticated_burst, 10),
            ..default
        })
    }

    /// What a project may put into the store.
    pub(super) fn store(&self) -> StoreBounds {
        let default = StoreBounds::default();
        StoreBounds {
            instances: self.instances_per_project.unwrap_or(default.instances),
            workloads: self.workloads_per_project.unwrap_or(default.workloads),
            project_bytes: megabytes(self.stored_megabytes_per_project)
                .unwrap_or(default.project_bytes),
            kept_answers: self.kept_answers_per_caller.unwrap_or(default.kept_answers),
        }
    }
}

/// The rate of so many megabytes a day; more than none for any but 0.
fn bytes_per_second(megabytes_per_day: u32) -> u64 {
    (u64::from(megabytes_per_day) * MEGABYTE).div_ceil(24 * 3600)
}

fn megabytes(given: Option<u32>) -> Option<usize> {
    let bytes = u64::from(given?) * MEGABYTE;
    Some(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// A bound that locks all callers out is a mistake.
fn least(key: &str, given: Option<u32>, default: usize) -> Result<usize, String> {
    match given {
        None => Ok(default),
        Some(given @ 4..) => usize::try_from(given).map_err(|error| error.to_string()),
        Some(given) => Err(format!("[limits] {key} is {given}; it must be 4 or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_the_rest_is_default() {
        let table: LimitsTable = toml::from_str(
            "requests_per_second = 10\nmegabytes_per_second = 1\nworkloads_per_project = 5",
        )
        .unwrap();
        let caller = table.caller().unwrap();
        assert_eq!((caller.requests_per_second, caller.request_burst), (10, 40));
        assert_eq!(caller.bytes_per_second, 1_000_000);
        assert!(caller.audited_bytes_per_second > 0);
        assert_eq!(caller.connections, CallerLimits::default().connections);
        assert_eq!(table.store().workloads, 5);
        assert_eq!(table.store().instances, StoreBounds::default().instances);
        let closed: LimitsTable = toml::from_str("connections = 0").unwrap();
        assert!(closed.caller().unwrap_err().contains("connections"));
    }
}

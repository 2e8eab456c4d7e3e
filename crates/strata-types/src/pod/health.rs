//! How it is found out whether a pod works.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;

/// One way of asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A command inside; it works when that exits with 0.
    Exec(Vec<String>),
    /// A GET; it works when that is answered with 200 to 399.
    Http {
        port: u16,
        /// The path, from `/` on.
        path: String,
    },
    /// A connection; it works when that is taken.
    Tcp { port: u16 },
}

/// How often it is asked, and what is made of the answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    pub probe: Probe,
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// So many failures in a row make a pod unhealthy.
    pub retries: u32,
    /// Failures do not count for so long after the start.
    pub start_period: Duration,
}

impl HealthCheck {
    /// Asks with a probe, as often as it is usual.
    pub fn with(probe: Probe) -> Self {
        Self {
            probe,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            retries: 3,
            start_period: Duration::ZERO,
        }
    }

    /// Refuses what makes no sense, naming the field.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        let refuse = |part: &str, why: &str| Err(Error::invalid(format!("{field}.{part}"), why));
        match &self.probe {
            Probe::Exec(words) if words.is_empty() => return refuse("exec", "must not be empty"),
            Probe::Http { port: 0, .. } => return refuse("http.port", "must not be 0"),
            Probe::Tcp { port: 0 } => return refuse("tcp.port", "must not be 0"),
            Probe::Http { path, .. }
                if !path.starts_with('/')
                    || path.len() > 2048
                    || !path.bytes().all(|b| b.is_ascii_graphic()) =>
            {
                return refuse("http.path", "must begin with / and have no spaces");
            }
            _ => {}
        }
        let longest = Duration::from_secs(24 * 3600);
        if self.interval < Duration::from_millis(100) || self.interval > longest {
            return refuse("interval_ms", "must be 100 ms to a day");
        }
        if self.timeout < Duration::from_millis(10) || self.timeout > longest {
            return refuse("timeout_ms", "must be 10 ms to a day");
        }
        match self.retries {
            1..=1000 => Ok(()),
            _ => refuse("retries", "must be 1 to 1000"),
        }
    }
}

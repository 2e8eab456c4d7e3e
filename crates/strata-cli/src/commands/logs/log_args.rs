//! What can be said about the log of one thing, a pod or an instance.

use clap::Args;
use jiff::Timestamp;
use strata_api::strata::v1::PodLogsRequest;

use crate::values::Since;

/// Log flags, flattened after the name of the resource.
#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// Keep streaming until it stops
    #[arg(short, long)]
    follow: bool,

    /// Only the last N lines
    #[arg(long, value_name = "N")]
    tail: Option<u32>,

    /// Only lines since: 10m, 2h, or an RFC 3339 timestamp
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,

    /// Logs of the previous run
    #[arg(long, conflicts_with = "follow")]
    previous: bool,

    /// Only stdout
    #[arg(long)]
    stdout: bool,

    /// Only stderr
    #[arg(long)]
    stderr: bool,

    /// Prefix each line with its timestamp
    #[arg(short, long)]
    pub(crate) timestamps: bool,
}

impl LogsArgs {
    /// The question to whoever has the log of `name`.
    pub(crate) fn request(&self, name: String, now: Timestamp) -> PodLogsRequest {
        PodLogsRequest {
            name,
            stdout: self.stdout,
            stderr: self.stderr,
            follow: self.follow,
            tail: self.tail,
            since_ms: self.since.map(|since| since.millis(now)),
            previous: self.previous,
        }
    }
}

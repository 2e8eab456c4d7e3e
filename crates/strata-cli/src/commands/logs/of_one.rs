//! What can be said about the log of one thing, a pod or an instance.

use clap::Args;
use jiff::Timestamp;
use strata_api::strata::v1::PodLogsRequest;

use crate::values::Since;

/// Flatten this behind the name of the thing.
#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// Go on until it has ended for good
    #[arg(short, long)]
    follow: bool,

    /// Only so many last lines of what there is
    #[arg(long, value_name = "N")]
    tail: Option<u32>,

    /// Only what was written since: 10m, 2h, or a time in RFC 3339
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,

    /// The run before the latest
    #[arg(long, conflicts_with = "follow")]
    previous: bool,

    /// Only what was written to stdout
    #[arg(long)]
    stdout: bool,

    /// Only what was written to stderr
    #[arg(long)]
    stderr: bool,

    /// Put the time before each line
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

//! What is kept, in flags.

use clap::Args;
use strata_api::rest::Retention;

/// Flatten this into what forgets backups.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct KeepArgs {
    /// Keep the latest so many
    #[arg(long, value_name = "N")]
    keep_last: Option<u32>,
    /// … the latest of each of so many days
    #[arg(long, value_name = "N")]
    keep_daily: Option<u32>,
    /// … of each of so many weeks
    #[arg(long, value_name = "N")]
    keep_weekly: Option<u32>,
    /// … of each of so many months
    #[arg(long, value_name = "N")]
    keep_monthly: Option<u32>,
}

impl KeepArgs {
    /// What was said; without any rule nothing was.
    pub(super) fn said(self) -> Option<Retention> {
        let keep = Retention {
            last: self.keep_last,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
        };
        (!keep.keeps_all()).then_some(keep)
    }
}

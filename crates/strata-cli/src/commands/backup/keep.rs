//! Retention flags.

use clap::Args;
use strata_api::rest::Retention;

/// Retention flags, flattened into the commands that delete backups.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct KeepArgs {
    /// Number of latest backups to keep
    #[arg(long, value_name = "N")]
    keep_last: Option<u32>,
    /// Number of days of which the latest backup is kept
    #[arg(long, value_name = "N")]
    keep_daily: Option<u32>,
    /// Number of weeks of which the latest backup is kept
    #[arg(long, value_name = "N")]
    keep_weekly: Option<u32>,
    /// Number of months of which the latest backup is kept
    #[arg(long, value_name = "N")]
    keep_monthly: Option<u32>,
}

impl KeepArgs {
    /// The rules that were given; `None` without any.
    pub(super) fn given(self) -> Option<Retention> {
        let keep = Retention {
            last: self.keep_last,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
        };
        (!keep.keeps_all()).then_some(keep)
    }
}

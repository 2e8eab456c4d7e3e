//! Logs as streams: history from the files, then whatever is added, woken by
//! the kernel and never by a timer. A reader that is slow only reads later.

mod follow;
mod merge;
mod raw;
mod watch;

pub(crate) use follow::{Follow, LogStream};
pub(crate) use merge::merge;
pub(crate) use raw::follow_raw;
pub(crate) use watch::LogWatch;

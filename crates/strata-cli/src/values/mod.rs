//! What people write on the command line, as values: sizes, durations,
//! limits. Each says in one sentence what it takes when it refuses.

mod bytes;
mod cpus;
mod duration;
mod io_limit;
mod name;
mod root;
mod since;

pub(crate) use bytes::Bytes;
pub(crate) use cpus::Cpus;
pub(crate) use duration::Span;
pub(crate) use io_limit::IoLimitArg;
pub(crate) use name::{cell_name, executable_name, role, variable};
pub(crate) use root::Root;
pub(crate) use since::Since;

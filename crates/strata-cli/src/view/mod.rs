//! Things as they are printed: the stable shape of `-o json` and `-o yaml`,
//! and their rows in tables. Made from the wire; never sent on it.

mod cell;
mod executable;
mod identity;
mod limits;

pub(crate) use cell::CellView;
pub(crate) use executable::{ExecutableView, pid_phrase};
pub(crate) use identity::{CallerView, TokenView};
pub(crate) use limits::LimitsView;

use jiff::Timestamp;

/// A time of the wire in Unix milliseconds; 0 is none.
pub(crate) fn time_ms(ms: i64) -> Option<Timestamp> {
    (ms != 0)
        .then(|| Timestamp::from_millisecond(ms).ok())
        .flatten()
}

/// A time of the wire in Unix seconds; 0 is none.
pub(crate) fn time_s(s: i64) -> Option<Timestamp> {
    (s != 0).then(|| Timestamp::from_second(s).ok()).flatten()
}

/// A text of the wire; empty is none.
pub(crate) fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

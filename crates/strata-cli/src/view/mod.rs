//! Things as they are printed: the stable shape of `-o json` and `-o yaml`,
//! and their rows in tables. Made from the wire; never sent on it.

mod cell;
mod executable;
mod identity;
mod image;
mod limits;
mod machine;
mod pod;
mod pod_spec;
mod vm;
mod volume;

pub(crate) use cell::CellView;
pub(crate) use executable::{ExecutableView, pid_phrase};
pub(crate) use identity::{CallerView, TokenView};
pub(crate) use image::ImageView;
pub(crate) use limits::LimitsView;
pub(crate) use machine::MachineView;
pub(crate) use pod::{PodUsageView, PodView, state_tone, state_word};
pub(crate) use pod_spec::{
    HealthView, Network, PodLimitsView, PodSpecView, Pull, Restart, SecurityView,
};
pub(crate) use vm::{Accelerator, MachineKind, VmSpecView, VmView};
pub(crate) use volume::VolumeView;

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

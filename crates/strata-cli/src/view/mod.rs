//! Things as they are printed: the stable shape of `-o json` and `-o yaml`,
//! and their rows in tables. Made from the wire; never sent on it.

mod audit;
mod backup;
mod cell;
mod certificate;
mod cluster;
mod event;
mod executable;
mod identity;
mod image;
mod instance;
mod inventory;
mod limits;
mod machine;
mod node;
mod operation;
mod pod;
mod pod_spec;
mod pool;
mod project;
mod secret;
mod vm;
mod volume;
mod watched;
mod workload;

pub(crate) use audit::audit_line;
pub(crate) use backup::short_id;
pub(crate) use cell::CellView;
pub(crate) use cluster::{PlannedView, cluster_style, cluster_word};
pub(crate) use event::event_line;
pub(crate) use executable::{ExecutableView, pid_phrase};
pub(crate) use identity::{CallerView, TokenView};
pub(crate) use image::ImageView;
pub(crate) use instance::{resources, status_style, status_word};
pub(crate) use inventory::{can, capabilities, phase_style, phase_word, ram};
pub(crate) use limits::LimitsView;
pub(crate) use machine::MachineView;
pub(crate) use node::node_style;
pub(crate) use operation::{operation_line, operation_style, operation_word};
pub(crate) use pod::{PodUsageView, PodView, short, state_style, state_word};
pub(crate) use pod_spec::{
    HealthView, Network, PodLimitsView, PodSpecView, Pull, Restart, SecurityView,
};
pub(crate) use pool::{kind_word, pool_style};
pub(crate) use vm::{Accelerator, MachineKind, VmSpecView, VmView};
pub(crate) use volume::VolumeView;
pub(crate) use watched::Watched;

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

/// A time in RFC 3339.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Something, or the sign for nothing.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// `key=value`, one after the other.
pub(crate) fn pairs(labels: &std::collections::BTreeMap<String, String>) -> String {
    let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

/// A text of the wire; empty is none.
pub(crate) fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

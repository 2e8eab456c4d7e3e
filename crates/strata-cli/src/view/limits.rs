//! What a cell may use, in the shape that `cell show` prints and
//! `cell allocate -f` takes.

use std::fmt;

use serde::Serialize;
use strata_api::strata::v1;

use crate::output::human;
use crate::values::Cpus;

/// Limits of a cell; what is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct LimitsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpuset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_low: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_high: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pids_max: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) io: Vec<IoView>,
}

/// Limits on one block device, per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct IoView {
    pub(crate) device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) write_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) write_iops: Option<u64>,
}

impl From<&v1::CellOptions> for LimitsView {
    fn from(options: &v1::CellOptions) -> Self {
        let cpu = options.cpu.clone().unwrap_or_default();
        let memory = options.memory.unwrap_or_default();
        Self {
            cpus: cpu
                .quota_us
                .map(|quota| Cpus::from_wire(quota, cpu.period_us)),
            cpuset: super::text(cpu.cpuset),
            memory_low: memory.low,
            memory_high: memory.high,
            memory_max: memory.max,
            pids_max: options.pids_max,
            io: options.io.iter().cloned().map(Into::into).collect(),
        }
    }
}

impl From<v1::IoLimit> for IoView {
    fn from(limit: v1::IoLimit) -> Self {
        Self {
            device: limit.device,
            read_bps: limit.read_bps,
            write_bps: limit.write_bps,
            read_iops: limit.read_iops,
            write_iops: limit.write_iops,
        }
    }
}

impl fmt::Display for LimitsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size =
            |name: &str, n: Option<u64>| n.map(|n| format!("memory {name} {}", human::bytes(n)));
        let parts = [
            self.cpus.map(|cpus| format!("{cpus} cpus")),
            self.cpuset.as_ref().map(|set| format!("on cpus {set}")),
            size("low", self.memory_low),
            size("high", self.memory_high),
            size("max", self.memory_max),
            self.pids_max.map(|pids| format!("{pids} pids")),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .flatten()
            .chain(self.io.iter().map(ToString::to_string))
            .collect();
        match parts.len() {
            0 => f.write_str("none"),
            _ => f.write_str(&parts.join(", ")),
        }
    }
}

impl fmt::Display for IoView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        for (name, figure, unit) in [
            ("reads", self.read_bps.map(human::bytes), "/s"),
            ("writes", self.write_bps.map(human::bytes), "/s"),
            ("reads", self.read_iops.map(|n| n.to_string()), " times/s"),
            ("writes", self.write_iops.map(|n| n.to_string()), " times/s"),
        ] {
            if let Some(figure) = figure {
                write!(f, " {name} {figure}{unit}")?;
            }
        }
        Ok(())
    }
}

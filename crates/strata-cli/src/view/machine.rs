//! A spawned machine as it is printed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;

use super::{text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;
use crate::values::{Bytes, Millicpus};

/// A nested node. What it joins with is a secret and not
/// printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MachineView {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<Millicpus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) status: MachineStatusView,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MachineStatusView {
    /// `running` or `stopped`.
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Where its node answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process_id: Option<i64>,
    pub(crate) created_at: Option<Timestamp>,
}

impl From<v1::Machine> for MachineView {
    fn from(machine: v1::Machine) -> Self {
        let spec = machine.spec.unwrap_or_default();
        Self {
            name: spec.name,
            cpus: spec.cpu_millis.map(Millicpus),
            memory: spec.memory_bytes.map(Bytes),
            server: text(spec.server),
            labels: spec.labels.into_iter().collect(),
            status: MachineStatusView {
                state: if machine.running {
                    "running"
                } else {
                    "stopped"
                },
                reason: text(machine.reason),
                id: machine.id,
                address: text(machine.address),
                endpoint: text(machine.endpoint),
                process_id: (machine.process_id > 0).then_some(machine.process_id),
                created_at: time_ms(machine.created_at_ms),
            },
        }
    }
}

impl Show for MachineView {
    fn reference(&self) -> String {
        format!("machine/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("STATE"),
            Column::new("ENDPOINT"),
        ];
        if wide {
            columns.extend([
                Column::figures("CPUS"),
                Column::figures("MEMORY"),
                Column::figures("PID"),
                Column::text("REASON"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let status = &self.status;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let style = match status.state {
            "running" => Style::Good,
            _ => Style::Bad,
        };
        let mut row = vec![
            TableCell::from(&self.name),
            TableCell::styled(status.state, style),
            or_dash(status.endpoint.clone()).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(or_dash(self.cpus.map(|cpus| cpus.to_string()))),
                or_dash(self.memory.map(|Bytes(n)| human::bytes(n))).into(),
                or_dash(status.process_id.map(|pid| pid.to_string())).into(),
                or_dash(status.reason.clone()).into(),
            ]);
        }
        row.push(human::age(status.created_at, now).into());
        row
    }
}

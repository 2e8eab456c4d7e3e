//! A cell as it is printed.

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;

use super::{ExecutableView, LimitsView, text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;
use crate::values::Root;

/// A cell with its executables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellView {
    pub(crate) name: String,
    /// `ready`, `freeing` or `dead`.
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) cpu_shares: u64,
    pub(crate) limits: LimitsView,
    /// `host` or `isolated`.
    pub(crate) network: &'static str,
    /// `host`, where they are not its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cgroups: Option<&'static str>,
    /// `host`, `read-only`, `private` or a directory.
    pub(crate) root: Root,
    /// `v1` or `v2`.
    pub(crate) cgroup: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) init_pid: Option<i64>,
    pub(crate) allocated_at: Option<Timestamp>,
    pub(crate) usage: UsageView,
    pub(crate) executables: Vec<ExecutableView>,
}

/// What a cell uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct UsageView {
    pub(crate) cpu_usec: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_peak_bytes: u64,
    pub(crate) pids: u64,
    pub(crate) io_read_bytes: u64,
    pub(crate) io_write_bytes: u64,
}

impl CellView {
    /// How many of its executables run.
    pub(crate) fn running(&self) -> usize {
        self.executables.iter().filter(|e| e.is_running()).count()
    }

    /// How its state is to be seen.
    pub(crate) fn style(&self) -> Style {
        match self.state {
            "ready" => Style::Good,
            "dead" => Style::Bad,
            _ => Style::Warn,
        }
    }

    /// What a watcher wants to see again when it changes; figures do not
    /// count.
    pub(crate) fn summary(&self) -> impl PartialEq + use<> {
        let executables: Vec<_> = self
            .executables
            .iter()
            .map(|e| (e.name.clone(), e.state, e.process_id))
            .collect();
        (self.state, self.reason.clone(), self.init_pid, executables)
    }
}

impl From<v1::CellInfo> for CellView {
    fn from(info: v1::CellInfo) -> Self {
        let state = match info.state() {
            v1::CellState::Ready => "ready",
            v1::CellState::Freeing => "freeing",
            v1::CellState::Dead => "dead",
            v1::CellState::Unspecified => "unknown",
        };
        let options = info.options.unwrap_or_default();
        let usage = info.usage.unwrap_or_default();
        Self {
            name: info.name,
            state,
            reason: text(info.reason),
            cpu_shares: info.cpu_shares,
            limits: (&options).into(),
            network: match options.network() {
                v1::CellNetwork::Host => "host",
                v1::CellNetwork::Isolated => "isolated",
            },
            cgroups: match options.cgroups() {
                v1::CellCgroups::Own => None,
                v1::CellCgroups::Host => Some("host"),
            },
            root: Root::from_wire(&options),
            cgroup: if info.cgroup_v2 { "v2" } else { "v1" },
            init_pid: (info.init_pid != 0).then_some(info.init_pid),
            allocated_at: time_ms(info.allocated_at_ms),
            usage: usage.into(),
            executables: info.executables.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<v1::CellUsage> for UsageView {
    fn from(usage: v1::CellUsage) -> Self {
        Self {
            cpu_usec: usage.cpu_usec,
            memory_bytes: usage.memory_bytes,
            memory_peak_bytes: usage.memory_peak_bytes,
            pids: usage.pids,
            io_read_bytes: usage.io_read_bytes,
            io_write_bytes: usage.io_write_bytes,
        }
    }
}

impl Show for CellView {
    fn reference(&self) -> String {
        format!("cell/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("STATE"),
            Column::figures("RUNNING"),
            Column::figures("MEMORY"),
            Column::figures("PIDS"),
        ];
        if wide {
            columns.extend([
                Column::figures("PEAK"),
                Column::figures("CPU-TIME"),
                Column::figures("SHARES"),
                Column::text("LIMITS"),
                Column::new("NETWORK"),
                Column::new("ROOT"),
                Column::new("CGROUP"),
                Column::figures("INIT"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(&self.name),
            TableCell::styled(self.state, self.style()),
            format!("{}/{}", self.running(), self.executables.len()).into(),
            human::bytes(self.usage.memory_bytes).into(),
            self.usage.pids.to_string().into(),
        ];
        if wide {
            let init = self.init_pid.map_or("-".to_owned(), |pid| pid.to_string());
            row.extend([
                TableCell::from(human::bytes(self.usage.memory_peak_bytes)),
                human::cpu_time(self.usage.cpu_usec).into(),
                self.cpu_shares.to_string().into(),
                self.limits.to_string().into(),
                self.network.into(),
                self.root.to_string().into(),
                self.cgroup.into(),
                init.into(),
            ]);
        }
        row.push(human::age(self.allocated_at, now).into());
        row
    }
}

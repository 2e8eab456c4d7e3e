//! A pod as it is printed.

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;

use super::cell::UsageView;
use super::{PodSpecView, text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// A pod: what it was asked to be, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PodView {
    #[serde(flatten)]
    pub(crate) spec: PodSpecView,
    pub(crate) status: PodStatusView,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PodStatusView {
    /// `created`, `starting`, `running`, `stopping`, `stopped`, `waiting`,
    /// `exited`, `failed` or `destroying`.
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) id: String,
    pub(crate) image_digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process_id: Option<i64>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    pub(crate) out_of_memory: bool,
    pub(crate) restarts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_start_at: Option<Timestamp>,
    /// `starting`, `healthy` or `unhealthy`, where somebody asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) health: Option<&'static str>,
    pub(crate) usage: PodUsageView,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PodUsageView {
    #[serde(flatten)]
    pub(crate) cell: UsageView,
    pub(crate) disk_bytes: u64,
    pub(crate) network_received_bytes: u64,
    pub(crate) network_sent_bytes: u64,
}

impl From<v1::PodUsage> for PodUsageView {
    fn from(usage: v1::PodUsage) -> Self {
        Self {
            cell: usage.cell.unwrap_or_default().into(),
            disk_bytes: usage.disk_bytes,
            network_received_bytes: usage.network_received_bytes,
            network_sent_bytes: usage.network_sent_bytes,
        }
    }
}

/// The word for a state; virtual machines have the same.
pub(crate) fn state_word(state: v1::PodState) -> &'static str {
    match state {
        v1::PodState::Unspecified => "unknown",
        v1::PodState::Created => "created",
        v1::PodState::Starting => "starting",
        v1::PodState::Running => "running",
        v1::PodState::Stopping => "stopping",
        v1::PodState::Stopped => "stopped",
        v1::PodState::Waiting => "waiting",
        v1::PodState::Exited => "exited",
        v1::PodState::Failed => "failed",
        v1::PodState::Destroying => "destroying",
    }
}

/// How a state is to be seen.
pub(crate) fn state_style(state: &str) -> Style {
    match state {
        "running" => Style::Good,
        "failed" | "gone" => Style::Bad,
        "created" | "stopped" | "exited" => Style::Dim,
        _ => Style::Warn,
    }
}

impl PodView {
    /// Whether its process is up.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.status.state, "starting" | "running" | "stopping")
    }

    /// Whether it came to a good end.
    pub(crate) fn succeeded(&self) -> bool {
        self.status.state != "failed" && self.status.exit_code == Some(0)
    }

    /// How its process last ended, in few words.
    fn ending(&self) -> Option<String> {
        let status = &self.status;
        match (status.exit_code, status.signal) {
            _ if status.out_of_memory => Some("out of memory".to_owned()),
            (_, Some(signal)) => Some(format!("signal {signal}")),
            (Some(code), None) => Some(format!("exit {code}")),
            (None, None) => None,
        }
    }

    /// How it is, or how it ended, for people.
    pub(crate) fn outcome(&self) -> String {
        let state = self.status.state;
        match (state, &self.status.reason) {
            ("exited" | "failed" | "waiting", Some(reason)) => reason.clone(),
            ("exited", None) => self.ending().unwrap_or_else(|| state.to_owned()),
            _ => state.to_owned(),
        }
    }

    /// The state for a table: short.
    fn state_cell(&self) -> TableCell {
        let status = &self.status;
        let (word, style) = match (status.state, status.health) {
            ("running", Some("unhealthy")) => ("unhealthy".to_owned(), Style::Bad),
            ("exited", _) if !self.succeeded() => (
                self.ending().unwrap_or_else(|| "exited".to_owned()),
                Style::Bad,
            ),
            (state, _) => (state.to_owned(), state_style(state)),
        };
        TableCell::styled(word, style)
    }

    /// What a watcher wants to see again when it changes; figures do not
    /// count.
    pub(crate) fn summary(&self) -> impl PartialEq + use<> {
        let s = &self.status;
        (
            s.state,
            s.reason.clone(),
            s.id.clone(),
            s.restarts,
            s.health,
            s.address.clone(),
        )
    }
}

impl From<v1::Pod> for PodView {
    fn from(pod: v1::Pod) -> Self {
        let health = match pod.health() {
            v1::PodHealth::Unspecified => None,
            v1::PodHealth::Starting => Some("starting"),
            v1::PodHealth::Healthy => Some("healthy"),
            v1::PodHealth::Unhealthy => Some("unhealthy"),
        };
        Self {
            status: PodStatusView {
                state: state_word(pod.state()),
                reason: text(pod.reason),
                id: pod.id,
                image_digest: pod.image_digest,
                address: text(pod.address),
                process_id: (pod.process_id > 0).then_some(pod.process_id),
                created_at: time_ms(pod.created_at_ms),
                started_at: time_ms(pod.started_at_ms),
                ended_at: time_ms(pod.ended_at_ms),
                exit_code: pod.exit_code,
                signal: pod.signal,
                out_of_memory: pod.out_of_memory,
                restarts: pod.restarts,
                next_start_at: time_ms(pod.next_start_at_ms),
                health,
                usage: pod.usage.unwrap_or_default().into(),
            },
            spec: pod.spec.unwrap_or_default().into(),
        }
    }
}

/// An image without what goes without saying, where there is little room.
pub(crate) fn short(image: &str) -> &str {
    let rest = image.strip_prefix("docker.io/").unwrap_or(image);
    rest.strip_prefix("library/").unwrap_or(rest)
}

impl Show for PodView {
    fn reference(&self) -> String {
        format!("pod/{}", self.spec.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::text("IMAGE"),
            Column::new("STATE"),
            Column::new("ADDRESS"),
            Column::text("PORTS"),
            Column::figures("RESTARTS"),
        ];
        if wide {
            columns.extend([
                Column::figures("MEMORY"),
                Column::figures("CPU-TIME"),
                Column::figures("PID"),
                Column::text("REASON"),
                Column::new("ID"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let (spec, status) = (&self.spec, &self.status);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let ports = spec.ports.join(",");
        let mut row = vec![
            TableCell::from(&spec.name),
            if wide {
                &spec.image
            } else {
                short(&spec.image)
            }
            .into(),
            self.state_cell(),
            or_dash(status.address.clone()).into(),
            or_dash(text(ports)).into(),
            status.restarts.to_string().into(),
        ];
        if wide {
            row.extend([
                TableCell::from(human::bytes(status.usage.cell.memory_bytes)),
                human::cpu_time(status.usage.cell.cpu_usec).into(),
                or_dash(status.process_id.map(|pid| pid.to_string())).into(),
                or_dash(status.reason.clone()).into(),
                TableCell::from(&status.id),
            ]);
        }
        row.push(human::age(status.created_at, now).into());
        row
    }
}

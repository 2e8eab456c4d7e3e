//! An executable as it is printed.

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;

use super::{text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// A process in a cell, running or ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ExecutableView {
    pub(crate) name: String,
    pub(crate) cell: String,
    pub(crate) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// `running`, `stopping`, `waiting` to be started again, or `exited`.
    pub(crate) state: &'static str,
    /// As the node sees it; absent when it ended before it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process_id: Option<i64>,
    pub(crate) started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// `on-failure` or `always`; absent where it is not started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restart: Option<&'static str>,
    /// How often it was started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restarts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_start_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gid: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) environment: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) working_directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_grace_ms: Option<u32>,
    pub(crate) cpu_user_usec: u64,
    pub(crate) cpu_system_usec: u64,
    pub(crate) memory_peak_bytes: u64,
}

impl ExecutableView {
    /// Whether its process lives.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.state, "exited" | "waiting")
    }

    /// Whether it ended as it should.
    pub(crate) fn succeeded(&self) -> bool {
        self.exit_code == Some(0) && self.signal.is_none()
    }

    /// `, pid 4711` where it is known, for the end of a sentence.
    pub(crate) fn with_pid(&self) -> String {
        pid_phrase(self.process_id)
    }

    /// `cell/name`, as people call it.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.cell, self.name)
    }

    /// How it ended, or that it did not.
    pub(crate) fn outcome(&self) -> String {
        match (&self.reason, self.exit_code, self.signal) {
            _ if self.is_running() => self.state.to_owned(),
            (Some(reason), _, _) if self.state == "waiting" => format!("waiting: {reason}"),
            (Some(reason), _, _) => reason.clone(),
            (None, Some(code), _) => format!("exit {code}"),
            (None, None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None, None) => self.state.to_owned(),
        }
    }
}

/// `, pid 4711` where there is one, for the end of a sentence.
pub(crate) fn pid_phrase(pid: Option<i64>) -> String {
    pid.filter(|pid| *pid > 0)
        .map_or(String::new(), |pid| format!(", pid {pid}"))
}

impl From<v1::ExecutableInfo> for ExecutableView {
    fn from(info: v1::ExecutableInfo) -> Self {
        let state = match info.state() {
            v1::ExecutableState::Running => "running",
            v1::ExecutableState::Stopping => "stopping",
            v1::ExecutableState::Waiting => "waiting",
            v1::ExecutableState::Exited => "exited",
            v1::ExecutableState::Unspecified => "unknown",
        };
        let options = info.options.unwrap_or_default();
        let restart = match options.restart() {
            v1::ExecutableRestart::Never => None,
            v1::ExecutableRestart::OnFailure => Some("on-failure"),
            v1::ExecutableRestart::Always => Some("always"),
        };
        Self {
            name: info.name,
            cell: info.cell_name,
            command: info.command,
            description: text(info.description),
            state,
            process_id: (info.process_id > 0).then_some(info.process_id),
            started_at: time_ms(info.started_at_ms),
            ended_at: time_ms(info.ended_at_ms),
            exit_code: info.exit_code,
            signal: info.signal,
            reason: text(info.reason),
            restart,
            restarts: restart.map(|_| info.restarts),
            next_start_at: time_ms(info.next_start_at_ms),
            uid: options.uid,
            gid: options.gid,
            groups: options.groups,
            environment: options.environment,
            working_directory: text(options.working_directory),
            stop_grace_ms: options.stop_grace_ms,
            cpu_user_usec: info.cpu_user_usec,
            cpu_system_usec: info.cpu_system_usec,
            memory_peak_bytes: info.memory_peak_bytes,
        }
    }
}

impl Show for ExecutableView {
    fn reference(&self) -> String {
        format!("executable/{}", self.path())
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("STATE"),
            Column::figures("PID"),
            Column::figures("RESTARTS"),
            Column::text("COMMAND"),
        ];
        if wide {
            columns.extend([
                Column::figures("CPU-TIME"),
                Column::figures("PEAK"),
                Column::text("DESCRIPTION"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let style = match (self.is_running(), self.succeeded()) {
            (true, _) => Style::Good,
            (false, true) => Style::Dim,
            (false, false) => Style::Bad,
        };
        let pid = self
            .process_id
            .map_or("-".to_owned(), |pid| pid.to_string());
        let restarts = self.restarts.map_or("-".to_owned(), |n| n.to_string());
        let mut row = vec![
            TableCell::from(&self.name),
            TableCell::styled(self.outcome(), style),
            pid.into(),
            restarts.into(),
            TableCell::from(&self.command),
        ];
        if wide {
            row.extend([
                TableCell::from(human::cpu_time(self.cpu_user_usec + self.cpu_system_usec)),
                human::bytes(self.memory_peak_bytes).into(),
                self.description.as_deref().unwrap_or("-").into(),
            ]);
        }
        row.push(human::age(self.started_at, now).into());
        row
    }
}

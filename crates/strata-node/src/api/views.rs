//! Cells and executables as the wire shows them.

use strata_api::strata::v1;
use strata_cell::Usage;
use strata_identity::Caller;
use strata_types::{Ending, ExecutableState, Role};

use crate::cells::{Cell, Executable, Phase};
use crate::clock::ms;

/// Whether a caller sees the values of environment variables: viewers, and
/// callers without an identity, see the names alone.
pub(super) fn sees_secrets(caller: Option<&Caller>) -> bool {
    caller.is_some_and(|caller| caller.role != Role::Viewer)
}

/// Leaves the names of `KEY=VALUE` variables and removes the values.
pub(super) fn hide_values(environment: &mut [String]) {
    for variable in environment {
        let key = variable.find('=').map_or(variable.len(), |at| at + 1);
        variable.truncate(key);
    }
}

/// A cell with its figures and its executables, with or without the values of
/// their environment. Reads files of the kernel.
pub(super) fn cell(cell: &Cell, cgroup_v2: bool, secrets: bool) -> v1::CellInfo {
    let usage = cell.usage();
    let phase = cell.phase();
    v1::CellInfo {
        name: cell.spec.name.to_string(),
        state: v1::CellState::from(phase.state()).into(),
        cpu_shares: cell.spec.cpu_shares.get(),
        options: Some((&cell.spec).into()),
        cgroup_v2,
        init_pid: cell.init_pid(),
        allocated_at_ms: cell.allocated_at_ms(),
        usage: Some(self::usage(&usage)),
        executables: cell
            .latest_runs()
            .iter()
            .map(|run| executable(run, secrets))
            .collect(),
        reason: match phase {
            Phase::Dead(why) => why.to_string(),
            _ => String::new(),
        },
    }
}

/// What a cell uses.
pub(super) fn usage(usage: &Usage) -> v1::CellUsage {
    v1::CellUsage {
        cpu_usec: usage.cpu_usec,
        memory_bytes: usage.memory_bytes,
        memory_peak_bytes: usage.memory_peak_bytes,
        pids: usage.pids,
        io_read_bytes: usage.io_read_bytes,
        io_write_bytes: usage.io_write_bytes,
    }
}

/// How something ended, as a code or a signal.
pub(super) fn split(ending: Ending) -> (Option<i32>, Option<i32>) {
    match ending {
        Ending::Code(code) => (Some(code), None),
        Ending::Signal(signal) => (None, Some(signal)),
        Ending::OutOfMemory => (None, Some(9)),
        Ending::Lost => (None, None),
    }
}

/// The latest run of an executable, with or without the values of its
/// environment.
pub(super) fn executable(run: &Executable, secrets: bool) -> v1::ExecutableInfo {
    let view = run.view();
    let mut options = v1::ExecutableOptions::from(&run.spec);
    if !secrets {
        hide_values(&mut options.environment);
    }
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (exit_code, signal) = view.ending.map_or((None, None), split);
    v1::ExecutableInfo {
        name: run.spec.name.to_string(),
        cell_name: run.spec.cell.to_string(),
        command: run.spec.command.to_string(),
        description: run.spec.description.clone(),
        options: Some(options),
        state: v1::ExecutableState::from(view.state).into(),
        process_id: run.pid,
        started_at_ms: ms(view.started_ns),
        ended_at_ms: ms(view.ended_ns),
        exit_code,
        signal,
        reason: match view.state {
            ExecutableState::Exited | ExecutableState::Waiting => reason(run, view.ending),
            _ => String::new(),
        },
        cpu_user_usec: micros(view.cpu_user),
        cpu_system_usec: micros(view.cpu_system),
        memory_peak_bytes: view.memory_peak_bytes,
        restarts: run.restarts(),
        next_start_at_ms: view.next_start_at_ms,
    }
}

/// How it ended, and what keeps it from being started again.
fn reason(run: &Executable, ending: Option<Ending>) -> String {
    let ending = ending.map(|ending| ending.to_string()).unwrap_or_default();
    match run.trouble() {
        trouble if trouble.is_empty() => ending,
        trouble => format!("{ending}; {trouble}"),
    }
}

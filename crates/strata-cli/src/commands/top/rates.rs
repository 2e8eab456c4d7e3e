//! From two snapshots to what was used in between. Pure: the times and the
//! figures are the node's own.

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1::ListCellsResponse;

use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;
use crate::view::{CellView, time_ms};

/// Usage of the cells of a node at one time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    at_ms: i64,
    cells: Vec<CellView>,
}

impl From<ListCellsResponse> for Snapshot {
    fn from(response: ListCellsResponse) -> Self {
        Self {
            at_ms: response.observed_at_ms,
            cells: response.cells.into_iter().map(Into::into).collect(),
        }
    }
}

/// What one cell uses. Rates are absent until there are two snapshots of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Rate {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) running: usize,
    /// 100 is one cpu.
    pub(super) cpu_percent: Option<f64>,
    pub(super) memory_bytes: u64,
    pub(super) memory_peak_bytes: u64,
    pub(super) read_bytes_per_second: Option<u64>,
    pub(super) write_bytes_per_second: Option<u64>,
    pub(super) pids: u64,
    pub(super) allocated_at: Option<Timestamp>,
}

/// Usage at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CellSample {
    pub(super) at: Option<Timestamp>,
    pub(super) cells: Vec<Rate>,
}

impl CellSample {
    /// The cells that sit in no other of these: what a cell uses includes
    /// what those in it use, so only these add up.
    pub(super) fn outermost(&self) -> impl Iterator<Item = &Rate> {
        self.cells.iter().filter(|cell| {
            let inside = |other: &Rate| {
                cell.name
                    .strip_prefix(&other.name)
                    .is_some_and(|rest| rest.starts_with('/'))
            };
            !self.cells.iter().any(inside)
        })
    }
}

/// Sort key, descending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    #[default]
    Cpu,
    Memory,
    Io,
    Name,
}

/// What was used between `before` and `after`.
pub(super) fn moment(before: Option<&Snapshot>, after: &Snapshot, sort: Sort) -> CellSample {
    let elapsed_ms = before.map_or(0, |before| after.at_ms.saturating_sub(before.at_ms));
    let mut cells: Vec<Rate> = after
        .cells
        .iter()
        .map(|cell| {
            // A cell of the same name may be another one by now.
            let was = before
                .and_then(|before| before.cells.iter().find(|was| was.name == cell.name))
                .filter(|was| was.allocated_at == cell.allocated_at);
            rate(was, cell, elapsed_ms)
        })
        .collect();
    cells.sort_by(|a, b| order(sort, a, b));
    CellSample {
        at: time_ms(after.at_ms),
        cells,
    }
}

fn rate(was: Option<&CellView>, cell: &CellView, elapsed_ms: i64) -> Rate {
    // Counters that ran backwards began anew; they say nothing about a rate.
    let grown = |was: Option<u64>, is: u64| is.checked_sub(was?).filter(|_| elapsed_ms > 0);
    let per_second = |was: Option<u64>, is: u64| {
        grown(was, is).map(|grown| (grown as f64 * 1000.0 / elapsed_ms as f64).round() as u64)
    };
    let (before, usage) = (was.map(|was| was.usage), cell.usage);
    Rate {
        name: cell.name.clone(),
        state: cell.state,
        running: cell.running(),
        cpu_percent: grown(before.map(|b| b.cpu_usec), usage.cpu_usec)
            .map(|usec| (usec as f64 / elapsed_ms as f64).round() / 10.0),
        memory_bytes: usage.memory_bytes,
        memory_peak_bytes: usage.memory_peak_bytes,
        read_bytes_per_second: per_second(before.map(|b| b.io_read_bytes), usage.io_read_bytes),
        write_bytes_per_second: per_second(before.map(|b| b.io_write_bytes), usage.io_write_bytes),
        pids: usage.pids,
        allocated_at: cell.allocated_at,
    }
}

fn order(sort: Sort, a: &Rate, b: &Rate) -> std::cmp::Ordering {
    let io = |rate: &Rate| {
        let read = rate.read_bytes_per_second.unwrap_or(0);
        read.saturating_add(rate.write_bytes_per_second.unwrap_or(0))
    };
    let cpu = |rate: &Rate| rate.cpu_percent.unwrap_or(0.0);
    let largest_first = match sort {
        Sort::Cpu => cpu(b).total_cmp(&cpu(a)),
        Sort::Memory => b.memory_bytes.cmp(&a.memory_bytes),
        Sort::Io => io(b).cmp(&io(a)),
        Sort::Name => std::cmp::Ordering::Equal,
    };
    largest_first.then_with(|| a.name.cmp(&b.name))
}

impl Show for Rate {
    fn reference(&self) -> String {
        format!("cell/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::figures("RUNNING"),
            Column::figures("CPU%"),
            Column::figures("MEMORY"),
            Column::figures("PEAK"),
            Column::figures("READ/S"),
            Column::figures("WRITE/S"),
            Column::figures("PIDS"),
            Column::new("AGE"),
        ]
    }

    fn row(&self, _: bool, now: Timestamp) -> Vec<TableCell> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let style = match self.state {
            "ready" => Style::Plain,
            "dead" => Style::Bad,
            _ => Style::Warn,
        };
        vec![
            TableCell::styled(&self.name, style),
            self.running.to_string().into(),
            or_dash(self.cpu_percent.map(|cpu| format!("{cpu:.1}"))).into(),
            human::bytes(self.memory_bytes).into(),
            human::bytes(self.memory_peak_bytes).into(),
            or_dash(self.read_bytes_per_second.map(human::bytes)).into(),
            or_dash(self.write_bytes_per_second.map(human::bytes)).into(),
            self.pids.to_string().into(),
            human::age(self.allocated_at, now).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strata_api::strata::v1::{CellInfo, CellUsage};

    use super::*;

    fn snapshot(at_ms: i64, cells: &[(&str, i64, u64, u64)]) -> Snapshot {
        let cells = cells
            .iter()
            .map(
                |&(name, allocated_at_ms, cpu_usec, io_read_bytes)| CellInfo {
                    name: name.into(),
                    allocated_at_ms,
                    usage: Some(CellUsage {
                        cpu_usec,
                        io_read_bytes,
                        memory_bytes: cpu_usec / 2,
                        ..Default::default()
                    }),
                    ..Default::default()
                },
            )
            .collect();
        let observed_at_ms = at_ms;
        Snapshot::from(ListCellsResponse {
            cells,
            observed_at_ms,
        })
    }

    #[test]
    fn a_cell_that_used_half_a_cpu_says_so() {
        let before = snapshot(1_000, &[("a", 1, 100_000, 0)]);
        let after = snapshot(3_000, &[("a", 1, 1_100_000, 4_096)]);
        let moment = moment(Some(&before), &after, Sort::Cpu);
        assert_eq!(moment.cells[0].cpu_percent, Some(50.0));
        assert_eq!(moment.cells[0].read_bytes_per_second, Some(2_048));
    }

    #[test]
    fn there_is_no_rate_without_two_snapshots_of_the_same_cell() {
        let rate = |before: Option<&Snapshot>, after: &Snapshot| {
            moment(before, after, Sort::Cpu).cells[0].cpu_percent
        };
        let after = snapshot(2_000, &[("a", 2, 50, 0)]);
        assert_eq!(rate(None, &after), None);
        assert_eq!(rate(Some(&snapshot(1_000, &[])), &after), None, "new");
        assert_eq!(
            rate(Some(&snapshot(1_000, &[("a", 1, 10, 0)])), &after),
            None,
            "created again"
        );
        assert_eq!(
            rate(Some(&snapshot(1_000, &[("a", 2, 60, 0)])), &after),
            None,
            "backwards"
        );
        assert_eq!(
            rate(Some(&snapshot(2_000, &[("a", 2, 10, 0)])), &after),
            None,
            "no time"
        );
    }

    #[test]
    fn nested_cells_are_not_counted_twice() {
        let cells = [("web/cache", 1, 0, 0), ("web", 1, 0, 0), ("web2", 1, 0, 0)];
        let moment = moment(None, &snapshot(0, &cells), Sort::Name);
        let names: Vec<_> = moment.outermost().map(|cell| &*cell.name).collect();
        assert_eq!(names, ["web", "web2"]);
    }

    #[test]
    fn the_busiest_come_first() {
        let before = snapshot(0, &[("a", 1, 0, 0), ("b", 1, 0, 0), ("c", 1, 0, 0)]);
        let after = snapshot(
            1_000,
            &[
                ("a", 1, 10_000, 9),
                ("b", 1, 20_000, 0),
                ("c", 1, 10_000, 5),
            ],
        );
        let names = |sort| {
            let cells = moment(Some(&before), &after, sort).cells;
            cells.into_iter().map(|rate| rate.name).collect::<Vec<_>>()
        };
        assert_eq!(names(Sort::Cpu), ["b", "a", "c"]);
        assert_eq!(names(Sort::Io), ["a", "c", "b"]);
        assert_eq!(names(Sort::Name), ["a", "b", "c"]);
        assert_eq!(names(Sort::Memory), ["b", "a", "c"]);
    }

    proptest! {
        #[test]
        fn no_figures_panic_or_give_nonsense(a: u64, b: u64, from: i64, to: i64) {
            let before = snapshot(from, &[("a", 1, a, b)]);
            let after = snapshot(to, &[("a", 1, b, a)]);
            let cell = &moment(Some(&before), &after, Sort::Cpu).cells[0];
            prop_assert!(cell.cpu_percent.is_none_or(|cpu| cpu.is_finite() && cpu >= 0.0));
        }
    }
}

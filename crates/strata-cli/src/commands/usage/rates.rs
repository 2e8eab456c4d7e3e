//! From two looks to what was used in between. Pure: the times and the
//! figures are the node's own.

use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use strata_api::strata::v1::{PodStat, PodStats};

use crate::output::{Column, Show, TableCell, human};
use crate::view::{PodUsageView, state_style, state_word, time_ms};

/// What one of them uses. Rates are absent until there are two looks at it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Rate {
    #[serde(skip)]
    noun: &'static str,
    pub(super) name: String,
    pub(super) state: &'static str,
    /// 100 is one cpu.
    pub(super) cpu_percent: Option<f64>,
    pub(super) memory_bytes: u64,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) disk_bytes: u64,
    pub(super) disk_limit_bytes: Option<u64>,
    pub(super) received_bytes_per_second: Option<u64>,
    pub(super) sent_bytes_per_second: Option<u64>,
    pub(super) pids: u64,
}

/// Usage at one time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UsageSample {
    pub(super) at: Option<Timestamp>,
    pub(super) noun: &'static str,
    pub(super) rates: Vec<Rate>,
}

impl Serialize for UsageSample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("at", &self.at)?;
        map.serialize_entry(&format!("{}s", self.noun), &self.rates)?;
        map.end()
    }
}

/// What was used between `before` and `after`.
pub(super) fn moment(
    noun: &'static str,
    before: Option<&PodStats>,
    after: &PodStats,
) -> UsageSample {
    let elapsed_ms = before.map_or(0, |b| after.observed_at_ms.saturating_sub(b.observed_at_ms));
    let pods = after.pods.iter().map(|pod| {
        let was = before.and_then(|before| before.pods.iter().find(|was| was.name == pod.name));
        rate(noun, was, pod, elapsed_ms)
    });
    UsageSample {
        at: time_ms(after.observed_at_ms),
        noun,
        rates: pods.collect(),
    }
}

fn rate(noun: &'static str, was: Option<&PodStat>, pod: &PodStat, elapsed_ms: i64) -> Rate {
    let usage = |pod: &PodStat| PodUsageView::from(pod.usage.unwrap_or_default());
    let (before, now) = (was.map(usage), usage(pod));
    // Counters that ran backwards began anew; they say nothing about a rate.
    let grown = |was: Option<u64>, is: u64| is.checked_sub(was?).filter(|_| elapsed_ms > 0);
    let per_second = |was: Option<u64>, is: u64| {
        grown(was, is).map(|grown| (grown as f64 * 1000.0 / elapsed_ms as f64).round() as u64)
    };
    let limits = pod.limits.unwrap_or_default();
    Rate {
        noun,
        name: pod.name.clone(),
        state: state_word(pod.state()),
        cpu_percent: grown(before.map(|b| b.cell.cpu_usec), now.cell.cpu_usec)
            .map(|usec| (usec as f64 / elapsed_ms as f64).round() / 10.0),
        memory_bytes: now.cell.memory_bytes,
        memory_limit_bytes: limits.memory_bytes,
        disk_bytes: now.disk_bytes,
        disk_limit_bytes: limits.disk_bytes,
        received_bytes_per_second: per_second(
            before.map(|b| b.network_received_bytes),
            now.network_received_bytes,
        ),
        sent_bytes_per_second: per_second(
            before.map(|b| b.network_sent_bytes),
            now.network_sent_bytes,
        ),
        pids: now.cell.pids,
    }
}

impl Show for Rate {
    fn reference(&self) -> String {
        format!("{}/{}", self.noun, self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::figures("CPU%"),
            Column::figures("MEM/LIMIT"),
            Column::figures("DISK"),
            Column::figures("NET-IN/S"),
            Column::figures("NET-OUT/S"),
            Column::figures("PIDS"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let limit = or_dash(self.memory_limit_bytes.map(human::bytes));
        let style = match self.state {
            "running" => crate::printer::Style::Plain,
            state => state_style(state),
        };
        vec![
            TableCell::styled(&self.name, style),
            or_dash(self.cpu_percent.map(|cpu| format!("{cpu:.1}"))).into(),
            format!("{}/{limit}", human::bytes(self.memory_bytes)).into(),
            human::bytes(self.disk_bytes).into(),
            or_dash(self.received_bytes_per_second.map(human::bytes)).into(),
            or_dash(self.sent_bytes_per_second.map(human::bytes)).into(),
            self.pids.to_string().into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strata_api::strata::v1::{CellUsage, PodUsage};

    use super::*;

    fn look(observed_at_ms: i64, cpu_usec: u64, sent: u64) -> PodStats {
        let usage = PodUsage {
            cell: Some(CellUsage {
                cpu_usec,
                ..Default::default()
            }),
            network_sent_bytes: sent,
            ..Default::default()
        };
        PodStats {
            pods: vec![PodStat {
                name: "web".into(),
                usage: Some(usage),
                ..Default::default()
            }],
            observed_at_ms,
        }
    }

    #[test]
    fn rates_come_from_two_looks() {
        let (first, second) = (look(1_000, 100_000, 0), look(3_000, 1_100_000, 4_096));
        let rate = &moment("pod", Some(&first), &second).rates[0];
        assert_eq!(rate.cpu_percent, Some(50.0));
        assert_eq!(rate.sent_bytes_per_second, Some(2_048));
        assert_eq!(moment("pod", None, &second).rates[0].cpu_percent, None);
        let restarted = &moment("pod", Some(&second), &look(4_000, 5, 0)).rates[0];
        assert_eq!(restarted.cpu_percent, None, "it began again");
    }

    proptest! {
        #[test]
        fn no_figures_panic_or_give_nonsense(a: u64, b: u64, from: i64, to: i64) {
            let rate = &moment("pod", Some(&look(from, a, b)), &look(to, b, a)).rates[0];
            prop_assert!(rate.cpu_percent.is_none_or(|cpu| cpu.is_finite() && cpu >= 0.0));
        }
    }
}

//! Findings: what was found, its level, why it matters, and what to do.

use jiff::Timestamp;
use serde::Serialize;

use crate::output::{Column, Show, TableCell};
use crate::printer::Style;

/// Level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// No problem.
    Ok,
    /// Degraded: slower, weaker or missing.
    Warn,
    /// Strata cannot work.
    Missing,
}

/// One checked item.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// Why it matters.
    pub(super) why: &'static str,
    /// Remedy; absent if there is no problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<&'static str>,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Missing => "missing",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Ok => Style::Good,
            Self::Warn => Style::Warn,
            Self::Missing => Style::Bad,
        }
    }
}

impl Show for Finding {
    fn reference(&self) -> String {
        format!("check/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("RESULT"),
            Column::new("FOUND"),
        ];
        if wide {
            columns.extend([Column::new("WHY"), Column::new("ADVICE")]);
        }
        columns
    }

    fn row(&self, wide: bool, _: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(self.name),
            TableCell::styled(self.level.word(), self.level.style()),
            TableCell::from(&self.found),
        ];
        if wide {
            row.extend([self.why.into(), self.advice.unwrap_or("-").into()]);
        }
        row
    }
}

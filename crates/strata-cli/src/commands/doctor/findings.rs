//! What the doctor says: what was found, whether that is enough, why it
//! matters, and what to do.

use jiff::Timestamp;
use serde::Serialize;

use crate::output::{Column, Show, TableCell};
use crate::printer::Tone;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Something will be slower, weaker or not there.
    Warn,
    /// Strata cannot work.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// Why it matters.
    pub(super) why: &'static str,
    /// What to do about it; absent when all is well.
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

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warn => Tone::Warn,
            Self::Missing => Tone::Bad,
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
            TableCell::toned(self.level.word(), self.level.tone()),
            TableCell::from(&self.found),
        ];
        if wide {
            row.extend([self.why.into(), self.advice.unwrap_or("-").into()]);
        }
        row
    }
}

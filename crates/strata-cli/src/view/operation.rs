//! A long action as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::{Operation, OperationLine, OperationStatus};

use super::{or_dash, text, time};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// The word for a status in tables, which have no capitals elsewhere.
pub(crate) fn operation_word(status: OperationStatus) -> String {
    status.as_str().to_ascii_lowercase()
}

/// How a status is to be seen.
pub(crate) fn operation_style(status: OperationStatus) -> Style {
    match status {
        OperationStatus::Completed => Style::Good,
        OperationStatus::Failed => Style::Bad,
        OperationStatus::Scheduled | OperationStatus::Active => Style::Warn,
    }
}

/// A line of its log, for people.
pub(crate) fn operation_line(line: &OperationLine) -> String {
    let at = time(&line.at).map_or_else(|| line.at.clone(), |at| format!("{at:.3}"));
    let step = line.step.as_deref().unwrap_or("-");
    let text = format!("{at}  {step:<10}  {}", line.text);
    // What others wrote must not steer the terminal.
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.chain(['\n']).collect()
}

impl Show for Operation {
    fn reference(&self) -> String {
        format!("operation/{}", self.id)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("ID"),
            Column::new("KIND"),
            Column::new("STATUS"),
            Column::text("ABOUT"),
        ];
        if wide {
            columns.extend([Column::new("OWNER"), Column::text("MESSAGE")]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(&self.id),
            TableCell::from(&self.kind),
            TableCell::styled(operation_word(self.status), operation_style(self.status)),
            or_dash(text(self.about.join(","))).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(&self.owner),
                or_dash(text(self.message.clone())).into(),
            ]);
        }
        row.push(human::age(time(&self.created_at), now).into());
        row
    }
}

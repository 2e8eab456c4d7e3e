//! Backups and their schedules as they are printed. JSON and YAML are the
//! REST API's own.

use jiff::Timestamp;
use strata_api::rest::{Backup, BackupSchedule, Retention};

use super::{or_dash, text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// So much of an id tells backups apart; commands take it in place of all.
const SHORT_ID_LENGTH: usize = 8;

/// The beginning of the id of a backup, as tables have it.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID_LENGTH).unwrap_or(id)
}

/// What is kept, in words: `last 3, daily 7`.
pub(crate) fn kept(keep: &Retention) -> String {
    let rules = [
        ("last", keep.last),
        ("daily", keep.daily),
        ("weekly", keep.weekly),
        ("monthly", keep.monthly),
    ];
    let rules = rules.into_iter();
    let rules: Vec<String> = rules
        .filter_map(|(rule, n)| Some(format!("{rule} {}", n?)))
        .collect();
    match rules.is_empty() {
        true => "all".to_owned(),
        false => rules.join(", "),
    }
}

impl Show for Backup {
    fn reference(&self) -> String {
        format!("backup/{}", self.id)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("ID"),
            Column::new("TAKEN"),
            Column::figures("VOLUMES"),
            Column::figures("FILES"),
            Column::figures("SIZE"),
            Column::figures("STORED"),
            Column::figures("TOOK"),
        ];
        if wide {
            columns.extend([
                Column::figures("NEW"),
                Column::new("STATE"),
                Column::new("HOST"),
                Column::new("OPERATION"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let taken = time_ms(self.taken_at_ms).filter(|_| !self.damaged);
        let shown = match self.damaged {
            true => Some("damaged".to_owned()),
            false => taken.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()),
        };
        let took = i64::try_from(self.took_ms / 1000).unwrap_or(i64::MAX);
        let id = if wide { &self.id } else { short_id(&self.id) };
        let mut row = vec![
            TableCell::from(id),
            or_dash(shown).into(),
            self.volumes.len().to_string().into(),
            self.files.to_string().into(),
            human::bytes(self.bytes).into(),
            human::bytes(self.stored_bytes).into(),
            human::seconds(took).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(human::bytes(self.new_bytes)),
                if self.has_state { "yes" } else { "no" }.into(),
                TableCell::from(&self.host),
                or_dash(text(self.operation.clone())).into(),
            ]);
        }
        row.push(human::age(taken, now).into());
        row
    }
}

impl Show for BackupSchedule {
    fn reference(&self) -> String {
        format!("backup-schedule/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::new("WHEN"),
            Column::new("STATE"),
            Column::text("KEEPS"),
            Column::new("NEXT"),
            Column::new("LAST"),
        ]
    }

    fn row(&self, _: bool, now: Timestamp) -> Vec<TableCell> {
        let next = self.next_at_ms.and_then(time_ms);
        let until = next.map(|next| next.as_second().saturating_sub(now.as_second()).max(0));
        let next = until.map(|s| format!("in {}", human::seconds(s)));
        let last = self.last_at_ms.and_then(time_ms);
        let last = last.map(|at| format!("{} ago", human::age(Some(at), now)));
        let (state, style) = match self.paused {
            true => ("paused", Style::Warn),
            false => ("on", Style::Good),
        };
        vec![
            TableCell::from(&self.name),
            TableCell::from(&self.when),
            TableCell::styled(state, style),
            kept(&self.keep).into(),
            or_dash(next).into(),
            or_dash(last).into(),
        ]
    }
}

//! A secret as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::Secret;

use super::time;
use crate::output::{Column, Show, TableCell, human};

impl Show for Secret {
    fn reference(&self) -> String {
        format!("secret/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::figures("BYTES"),
            Column::figures("VERSION"),
            Column::text("USED BY"),
        ];
        if wide {
            columns.push(Column::new("UPDATED BY"));
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let used_by = match self.used_by.as_slice() {
            [] => "-".to_owned(),
            users => users.join(", "),
        };
        let mut row = vec![
            TableCell::from(&self.name),
            self.bytes.to_string().into(),
            self.version.to_string().into(),
            used_by.into(),
        ];
        if wide {
            row.push(TableCell::from(&self.updated_by));
        }
        row.push(human::age(time(&self.updated_at), now).into());
        row
    }
}

//! A certificate as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::Certificate;

use super::{or_dash, time};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

impl Show for Certificate {
    fn reference(&self) -> String {
        format!("certificate/{}", self.serial)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("ROLE"),
            Column::new("SERIAL"),
            Column::new("STATUS"),
        ];
        if wide {
            columns.extend([
                Column::new("KEY"),
                Column::new("PARENT"),
                Column::text("ISSUED BY"),
                Column::text("REASON"),
            ]);
        }
        columns.push(Column::new("LEFT"));
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let (status, style) = match self.revoked {
            true => ("revoked", Style::Bad),
            false => ("good", Style::Good),
        };
        let left = time(&self.expires_at).map_or(0, |at| at.as_second() - now.as_second());
        let mut row = vec![
            TableCell::from(&self.name),
            TableCell::from(&self.role),
            TableCell::from(&self.serial),
            TableCell::styled(status, style),
        ];
        if wide {
            row.extend([
                TableCell::from(&self.key),
                or_dash(self.parent.clone()).into(),
                TableCell::from(&self.issued_by),
                or_dash(self.reason.clone()).into(),
            ]);
        }
        row.push(human::seconds(left.max(0)).into());
        row.push(human::age(time(&self.issued_at), now).into());
        row
    }
}

//! A node as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::{Node, NodeStatus};

use super::{Watched, or_dash, pairs, text, time};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// How a status is to be seen.
pub(crate) fn node_style(status: NodeStatus) -> Style {
    match status {
        NodeStatus::Ready => Style::Good,
        NodeStatus::Lost => Style::Bad,
        NodeStatus::Registered | NodeStatus::Draining | NodeStatus::Leaving => Style::Warn,
    }
}

/// What is taken of what there is.
fn share(taken: i32, all: i32, words: fn(i64) -> String) -> TableCell {
    let taken = match taken {
        0 => "0".to_owned(),
        taken => words(taken.into()),
    };
    format!("{taken}/{}", words(all.into())).into()
}

impl Show for Node {
    fn reference(&self) -> String {
        format!("node/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("STATUS"),
            Column::figures("INSTANCES"),
            Column::figures("CPU"),
            Column::figures("MEMORY"),
            Column::figures("DISK"),
        ];
        if wide {
            columns.extend([
                Column::new("ADDRESS"),
                Column::new("SUBNET"),
                Column::new("VMS"),
                Column::new("GPUS"),
                Column::text("LABELS"),
                Column::text("REASON"),
                Column::new("VERSION"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let (taken, all) = (&self.reserved, &self.capacity);
        let status = self.status.as_str().to_ascii_lowercase();
        let mut row = vec![
            TableCell::from(&self.name),
            TableCell::styled(status, node_style(self.status)),
            self.instances.to_string().into(),
            share(taken.cpu, all.cpu, human::cores),
            share(taken.memory, all.memory, human::megabytes),
            share(taken.disk, all.disk, human::gigabytes),
        ];
        if wide {
            let gpus = self.gpus.iter().map(|(kind, n)| format!("{n} {kind}"));
            row.extend([
                TableCell::from(or_dash(text(self.address.clone()))),
                TableCell::from(&self.subnet),
                if self.runs_vms { "yes" } else { "no" }.into(),
                or_dash(text(gpus.collect::<Vec<_>>().join(","))).into(),
                or_dash(text(pairs(&self.labels))).into(),
                or_dash(text(self.description.clone())).into(),
                or_dash(text(self.version.clone())).into(),
            ]);
        }
        row.push(human::age(time(&self.created_at), now).into());
        row
    }
}

impl Watched for Node {
    fn key(&self) -> String {
        self.name.clone()
    }

    fn summary(&self) -> String {
        format!(
            "{} {} {} {:?}",
            self.status, self.description, self.instances, self.labels
        )
    }
}

//! A workload as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::Workload;

use super::{Watched, or_dash, short, text, time};
use crate::output::{Column, Show, TableCell, human};

impl Show for Workload {
    fn reference(&self) -> String {
        format!("workload/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("TYPE"),
            Column::figures("INSTANCES"),
            Column::figures("CPU"),
            Column::figures("MEMORY"),
            Column::figures("DISK"),
            Column::text("IMAGE"),
        ];
        if wide {
            columns.extend([
                Column::text("PORTS"),
                Column::new("PROJECT"),
                Column::new("OWNER"),
                Column::new("ID"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let spec = &self.spec;
        let image = if wide { &spec.uri } else { short(&spec.uri) };
        let mut row = vec![
            TableCell::from(&self.name),
            spec.kind.as_str().to_ascii_lowercase().into(),
            self.instances.to_string().into(),
            human::cores(spec.resources.cpu.into()).into(),
            human::megabytes(spec.resources.memory.into()).into(),
            human::gigabytes(spec.resources.disk.into()).into(),
            image.into(),
        ];
        if wide {
            row.extend([
                TableCell::from(or_dash(text(spec.ports.join(",")))),
                TableCell::from(&self.project),
                or_dash(text(self.owner.clone())).into(),
                TableCell::from(&self.id),
            ]);
        }
        row.push(human::age(time(&self.created_at), now).into());
        row
    }
}

impl Watched for Workload {
    fn key(&self) -> String {
        self.id.clone()
    }

    fn summary(&self) -> String {
        format!("{} {}", self.changed_at, self.instances)
    }
}

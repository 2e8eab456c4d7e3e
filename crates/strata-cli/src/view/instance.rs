//! An instance as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::{Instance, InstanceState, Resources};

use super::{Watched, or_dash, short, text, time};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// The word for a state in tables, which have no capitals elsewhere.
pub(crate) fn status_word(status: InstanceState) -> String {
    status.as_str().to_ascii_lowercase()
}

/// How a state is to be seen.
pub(crate) fn status_style(status: InstanceState) -> Style {
    use InstanceState::{
        Crashed, Destroying, Failed, Running, Scheduled, Scheduling, Starting, Stopped, Stopping,
        Terminated,
    };
    match status {
        Running => Style::Good,
        Failed | Crashed => Style::Bad,
        Stopped | Terminated => Style::Dim,
        Scheduling | Scheduled | Starting | Stopping | Destroying => Style::Warn,
    }
}

/// Amounts in one line; what is not limited is left out.
pub(crate) fn resources(amounts: &Resources) -> String {
    let parts = [
        (amounts.cpu > 0).then(|| format!("{} cpus", human::cores(amounts.cpu.into()))),
        (amounts.memory > 0).then(|| format!("memory {}", human::megabytes(amounts.memory.into()))),
        (amounts.disk > 0).then(|| format!("disk {}", human::gigabytes(amounts.disk.into()))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn status_cell(instance: &Instance) -> TableCell {
    match (instance.status, instance.healthy) {
        (InstanceState::Running, Some(false)) => TableCell::styled("unhealthy", Style::Bad),
        (status, _) => TableCell::styled(status_word(status), status_style(status)),
    }
}

impl Show for Instance {
    fn reference(&self) -> String {
        format!("instance/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("STATUS"),
            Column::new("NODE"),
            Column::new("ADDRESS"),
            Column::text("PORTS"),
            Column::text("IMAGE"),
        ];
        if wide {
            columns.extend([
                Column::new("TYPE"),
                Column::figures("CPU"),
                Column::figures("MEMORY"),
                Column::figures("DISK"),
                Column::figures("RESTARTS"),
                Column::new("PROJECT"),
                Column::new("WORKLOAD"),
                Column::text("REASON"),
                Column::new("ID"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let image = if wide { &self.uri } else { short(&self.uri) };
        let mut row = vec![
            TableCell::from(&self.name),
            status_cell(self),
            or_dash(self.node.clone()).into(),
            or_dash(self.ip.clone()).into(),
            or_dash(text(self.ports.join(","))).into(),
            image.into(),
        ];
        if wide {
            let max = &self.resources.max;
            row.extend([
                TableCell::from(self.kind.as_str().to_ascii_lowercase()),
                human::cores(max.cpu.into()).into(),
                human::megabytes(max.memory.into()).into(),
                human::gigabytes(max.disk.into()).into(),
                self.restarts.to_string().into(),
                TableCell::from(&self.project),
                or_dash(self.workload_id.clone()).into(),
                or_dash(text(self.description.clone())).into(),
                TableCell::from(&self.id),
            ]);
        }
        row.push(human::age(time(&self.created_at), now).into());
        row
    }
}

impl Watched for Instance {
    fn key(&self) -> String {
        self.id.clone()
    }

    fn summary(&self) -> String {
        format!(
            "{} {} {:?} {:?} {:?} {} {}",
            self.status,
            self.description,
            self.node,
            self.ip,
            self.healthy,
            self.restarts,
            self.generation
        )
    }
}

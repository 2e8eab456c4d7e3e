//! Machines of the inventory as they are printed, as such and as the
//! hypervisors they are or can become. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::{Machine, MachinePhase};
use strata_client::rest::Hypervisor;

use super::{or_dash, pairs, text, time};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// The word for where a machine stands. What failed is in its message.
pub(crate) fn phase_word(machine: &Machine) -> String {
    machine.phase.as_str().to_ascii_lowercase()
}

/// How that is to be seen.
pub(crate) fn phase_style(machine: &Machine) -> Style {
    match machine.phase {
        _ if machine.failure.is_some() => Style::Bad,
        MachinePhase::Up => Style::Good,
        MachinePhase::Available => Style::Plain,
        _ => Style::Warn,
    }
}

/// What can be done with a machine now: `create`, `destroy` or nothing.
pub(crate) fn can(machine: &Machine) -> Option<&'static str> {
    match machine.state.as_str() {
        "AVAILABLE_TO_CREATE" => Some("create"),
        "AVAILABLE_TO_DESTROY" => Some("destroy"),
        _ => None,
    }
}

/// Its memory, from MB.
pub(crate) fn ram(machine: &Machine) -> String {
    human::megabytes(i64::try_from(machine.ram).unwrap_or(i64::MAX))
}

/// `storage,gpu`.
pub(crate) fn capabilities(machine: &Machine) -> String {
    let words = machine.capabilities.iter();
    let words = words.map(|one| one.as_str().to_ascii_lowercase());
    words.collect::<Vec<_>>().join(",")
}

fn threads(machine: &Machine) -> String {
    match machine.cpu {
        0 => "-".to_owned(),
        n => n.to_string(),
    }
}

impl Show for Machine {
    fn reference(&self) -> String {
        format!("machine/{}", self.id)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("ID"),
            Column::new("PROVIDER"),
            Column::new("PHASE"),
            Column::new("POWER"),
            Column::figures("CPU"),
            Column::figures("RAM"),
        ];
        if wide {
            columns.extend([
                Column::new("HANDLE"),
                Column::new("ADDRESS"),
                Column::text("LABELS"),
                Column::new("OPERATION"),
            ]);
        }
        columns.extend([Column::text("MESSAGE"), Column::new("AGE")]);
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(&self.id),
            self.provider.as_str().into(),
            TableCell::styled(phase_word(self), phase_style(self)),
            self.power.as_str().to_ascii_lowercase().into(),
            threads(self).into(),
            ram(self).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(or_dash(text(self.handle.clone()))),
                or_dash(text(self.address.clone())).into(),
                or_dash(text(pairs(&self.labels))).into(),
                or_dash(text(self.operation.clone())).into(),
            ]);
        }
        row.extend([
            TableCell::from(or_dash(text(self.message.clone()))),
            human::age(time(&self.created_at), now).into(),
        ]);
        row
    }
}

impl Show for Hypervisor {
    fn reference(&self) -> String {
        format!("hypervisor/{}", self.0.id)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("ID"),
            Column::new("PHASE"),
            Column::new("ACTIONS"),
            Column::figures("INSTANCES"),
            Column::figures("CPU"),
            Column::figures("RAM"),
        ];
        if wide {
            columns.extend([
                Column::new("WITH"),
                Column::new("PROVIDER"),
                Column::new("ADDRESS"),
                Column::new("OPERATION"),
            ]);
        }
        columns.extend([Column::text("MESSAGE"), Column::new("AGE")]);
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let Self(machine) = self;
        let mut row = vec![
            TableCell::from(&machine.id),
            TableCell::styled(phase_word(machine), phase_style(machine)),
            can(machine).unwrap_or("-").into(),
            machine.instances.to_string().into(),
            threads(machine).into(),
            ram(machine).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(or_dash(text(capabilities(machine)))),
                machine.provider.as_str().into(),
                or_dash(text(machine.node_address.clone())).into(),
                or_dash(text(machine.operation.clone())).into(),
            ]);
        }
        // How long a hypervisor is so says more than how long its machine is
        // known.
        row.extend([
            TableCell::from(or_dash(text(machine.message.clone()))),
            human::age(time(&machine.changed_at), now).into(),
        ]);
        row
    }
}

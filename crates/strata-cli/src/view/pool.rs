//! The storage pool as it is printed: its devices and its volumes. JSON and
//! YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::{DeviceState, PoolDevice, PoolState, PoolVolume, VolumeKind};

use super::{or_dash, text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// How the state of the pool is to be seen.
pub(crate) fn pool_style(state: PoolState) -> Style {
    match state {
        PoolState::Online => Style::Good,
        PoolState::Degraded => Style::Warn,
        PoolState::Offline => Style::Bad,
    }
}

/// The word for what is in a volume.
pub(crate) fn kind_word(kind: VolumeKind) -> &'static str {
    match kind {
        VolumeKind::Files => "files",
        VolumeKind::Disk => "disk",
    }
}

fn device_style(state: DeviceState) -> Style {
    match state {
        DeviceState::Online => Style::Good,
        DeviceState::Spare => Style::Plain,
        DeviceState::Leaving => Style::Warn,
        DeviceState::Failing | DeviceState::Missing => Style::Bad,
    }
}

impl Show for PoolDevice {
    fn reference(&self) -> String {
        format!("device/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::new("STATE"),
            Column::figures("SIZE"),
            Column::figures("ALLOCATED"),
            Column::figures("ERRORS"),
            Column::new("PATH"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        let errors = match self.errors {
            0 => Style::Plain,
            _ => Style::Bad,
        };
        vec![
            TableCell::from(&self.name),
            TableCell::styled(
                self.state.as_str().to_ascii_lowercase(),
                device_style(self.state),
            ),
            human::bytes(self.bytes).into(),
            human::bytes(self.allocated_bytes).into(),
            TableCell::styled(self.errors.to_string(), errors),
            TableCell::from(&self.path),
        ]
    }
}

impl Show for PoolVolume {
    fn reference(&self) -> String {
        format!("storage-volume/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("KIND"),
            Column::figures("USED"),
            Column::figures("SIZE"),
            Column::figures("SNAPSHOTS"),
        ];
        if wide {
            columns.extend([Column::figures("OWN"), Column::new("FROM")]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(&self.name),
            kind_word(self.kind).into(),
            human::bytes(self.used_bytes).into(),
            or_dash(self.quota_bytes.map(human::bytes)).into(),
            self.snapshots.len().to_string().into(),
        ];
        if wide {
            row.extend([
                TableCell::from(human::bytes(self.exclusive_bytes)),
                or_dash(text(self.origin.clone())).into(),
            ]);
        }
        row.push(human::age(time_ms(self.created_at_ms), now).into());
        row
    }
}

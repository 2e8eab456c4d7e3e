//! A volume of a node as it is printed.

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;

use super::time_ms;
use crate::output::{Column, Show, TableCell, human};

/// What the node keeps for pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct VolumeView {
    pub(crate) name: String,
    /// None is as much as the disk.
    pub(crate) size_bytes: Option<u64>,
    /// None is too many files to count.
    pub(crate) used_bytes: Option<u64>,
    pub(crate) used_by: Vec<String>,
    /// Asked for by an image; it goes with its pod.
    pub(crate) of_image: bool,
    pub(crate) created_at: Option<Timestamp>,
}

impl From<v1::Volume> for VolumeView {
    fn from(volume: v1::Volume) -> Self {
        Self {
            name: volume.name,
            size_bytes: volume.size_bytes,
            used_bytes: volume.used_bytes,
            used_by: volume.used_by,
            of_image: volume.of_image,
            created_at: time_ms(volume.created_at_ms),
        }
    }
}

impl Show for VolumeView {
    fn reference(&self) -> String {
        format!("volume/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::figures("USED"),
            Column::figures("SIZE"),
            Column::text("USED-BY"),
            Column::new("AGE"),
        ]
    }

    fn row(&self, _: bool, now: Timestamp) -> Vec<TableCell> {
        let or_dash = |bytes: Option<u64>| bytes.map_or("-".to_owned(), human::bytes);
        let used_by = match self.used_by.as_slice() {
            [] => "-".to_owned(),
            pods => pods.join(", "),
        };
        vec![
            TableCell::from(&self.name),
            or_dash(self.used_bytes).into(),
            or_dash(self.size_bytes).into(),
            used_by.into(),
            human::age(self.created_at, now).into(),
        ]
    }
}

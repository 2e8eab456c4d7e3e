//! An image as it is printed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1;

use super::time_ms;
use crate::output::{Column, Show, TableCell, human};

/// An image that is on a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ImageView {
    /// In full: `docker.io/library/nginx:latest`.
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) platform: String,
    pub(crate) packed_bytes: u64,
    pub(crate) unpacked_bytes: u64,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) pulled_at: Option<Timestamp>,
    pub(crate) used_at: Option<Timestamp>,
    pub(crate) used_by: Vec<String>,
    /// The lowest first.
    pub(crate) layers: Vec<LayerView>,
    pub(crate) config: RunConfigView,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LayerView {
    pub(crate) digest: String,
    pub(crate) diff_id: String,
    pub(crate) packed_bytes: u64,
}

/// How it wants to be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RunConfigView {
    pub(crate) entrypoint: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) user: String,
    pub(crate) working_dir: String,
    pub(crate) exposed_ports: Vec<String>,
    pub(crate) volumes: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) stop_signal: String,
}

impl From<v1::ImageInfo> for ImageView {
    fn from(info: v1::ImageInfo) -> Self {
        let config = info.config.unwrap_or_default();
        Self {
            name: info.reference,
            digest: info.digest,
            platform: info.platform,
            packed_bytes: info.packed_bytes,
            unpacked_bytes: info.unpacked_bytes,
            created_at: time_ms(info.created_at_ms),
            pulled_at: time_ms(info.pulled_at_ms),
            used_at: time_ms(info.used_at_ms),
            used_by: info.used_by,
            layers: info
                .layers
                .into_iter()
                .map(|layer| LayerView {
                    digest: layer.digest,
                    diff_id: layer.diff_id,
                    packed_bytes: layer.packed_bytes,
                })
                .collect(),
            config: RunConfigView {
                entrypoint: config.entrypoint,
                cmd: config.cmd,
                env: config.env,
                user: config.user,
                working_dir: config.working_dir,
                exposed_ports: config.exposed_ports,
                volumes: config.volumes,
                labels: config.labels.into_iter().collect(),
                stop_signal: config.stop_signal,
            },
        }
    }
}

impl Show for ImageView {
    fn reference(&self) -> String {
        format!("image/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("DIGEST"),
            Column::figures("SIZE"),
        ];
        if wide {
            columns.extend([
                Column::figures("UNPACKED"),
                Column::figures("LAYERS"),
                Column::new("PLATFORM"),
                Column::new("USED"),
                Column::text("USED-BY"),
            ]);
        }
        columns.push(Column::new("AGE"));
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let digits = self.digest.trim_start_matches("sha256:");
        let shown = if wide { 64 } else { 12 };
        let digest: String = digits.chars().take(shown).collect();
        let mut row = vec![
            TableCell::from(&self.name),
            digest.into(),
            human::bytes(self.packed_bytes).into(),
        ];
        if wide {
            row.extend([
                TableCell::from(human::bytes(self.unpacked_bytes)),
                self.layers.len().to_string().into(),
                (&self.platform).into(),
                human::age(self.used_at, now).into(),
                self.used_by.join(", ").into(),
            ]);
        }
        row.push(human::age(self.pulled_at, now).into());
        row
    }
}

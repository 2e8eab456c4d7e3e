//! Clusters, their machines and their pools as they are printed. JSON and YAML
//! are the REST API's own.

use jiff::Timestamp;
use serde::Serialize;
use strata_api::rest::{
    Cluster, ClusterNode, ClusterRole, ClusterSnapshot, ClusterStatus, KubernetesBundle,
    PlannedMachine, PoolStatus, UpgradeStep,
};

use super::{Watched, or_dash, pairs, text, time_ms};
use crate::output::{Column, Show, TableCell, human};
use crate::printer::Style;

/// The word for how a cluster stands.
pub(crate) fn cluster_word(cluster: &Cluster) -> String {
    cluster.status.as_str().to_ascii_lowercase()
}

/// How that is to be seen.
pub(crate) fn cluster_style(cluster: &Cluster) -> Style {
    match cluster.status {
        ClusterStatus::Running => Style::Good,
        ClusterStatus::Error => Style::Bad,
        ClusterStatus::Unspecified => Style::Plain,
        ClusterStatus::Provisioning
        | ClusterStatus::Reconciling
        | ClusterStatus::Stopping
        | ClusterStatus::Degraded => Style::Warn,
    }
}

impl Show for Cluster {
    fn reference(&self) -> String {
        format!("cluster/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("VERSION"),
            Column::new("STATUS"),
            Column::new("READY"),
        ];
        if wide {
            columns.extend([
                Column::new("SERVER"),
                Column::new("POOLS"),
                Column::new("OPERATION"),
            ]);
        }
        columns.extend([Column::text("MESSAGE"), Column::new("AGE")]);
        columns
    }

    fn row(&self, wide: bool, now: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(&self.name),
            TableCell::from(&self.version),
            TableCell::styled(cluster_word(self), cluster_style(self)),
            format!("{}/{}", self.ready, self.machines).into(),
        ];
        if wide {
            let pools = self.pools.iter();
            let pools = pools.map(|pool| format!("{}={}", pool.name, pool.count));
            let pools = pools.collect::<Vec<_>>().join(",");
            row.extend([
                TableCell::from(&self.server),
                or_dash(text(pools)).into(),
                or_dash(text(self.operation.clone())).into(),
            ]);
        }
        row.extend([
            TableCell::from(or_dash(text(self.message.clone()))),
            human::age(time_ms(self.created_at_ms), now).into(),
        ]);
        row
    }
}

impl Watched for Cluster {
    fn key(&self) -> String {
        self.name.clone()
    }

    fn summary(&self) -> String {
        let Self {
            version, message, ..
        } = self;
        let status = self.status.as_str();
        format!(
            "{status} {version} {message} {}/{}",
            self.ready, self.machines
        )
    }
}

/// What a machine is: `control-plane`, or the pool it works in.
fn place(role: ClusterRole, pool: &str) -> &str {
    match role {
        ClusterRole::ControlPlane => role.as_str(),
        ClusterRole::Worker => pool,
    }
}

impl Show for ClusterNode {
    fn reference(&self) -> String {
        format!("machine/{}", self.machine)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("MACHINE"),
            Column::new("POOL"),
            Column::new("STATUS"),
            Column::new("VERSION"),
            Column::new("PHASE"),
        ];
        if wide {
            columns.extend([Column::new("ROLE"), Column::new("ADDRESS")]);
        }
        columns.push(Column::text("MESSAGE"));
        columns
    }

    fn row(&self, wide: bool, _: Timestamp) -> Vec<TableCell> {
        let style = match self.status.as_str() {
            "Ready" => Style::Good,
            status if status.starts_with("Ready") => Style::Warn,
            _ => Style::Bad,
        };
        let mut row = vec![
            TableCell::from(&self.machine),
            place(self.role, &self.pool).into(),
            TableCell::styled(&self.status, style),
            or_dash(text(self.version.clone())).into(),
            self.phase.to_ascii_lowercase().into(),
        ];
        if wide {
            row.extend([
                TableCell::from(self.role.as_str()),
                or_dash(text(self.address.clone())).into(),
            ]);
        }
        row.push(or_dash(text(self.message.clone())).into());
        row
    }
}

impl Show for PoolStatus {
    fn reference(&self) -> String {
        format!("pool/{}", self.name)
    }

    fn columns(wide: bool) -> Vec<Column> {
        let mut columns = vec![
            Column::new("NAME"),
            Column::new("TYPE"),
            Column::new("READY"),
            Column::text("LABELS"),
        ];
        if wide {
            columns.push(Column::text("MACHINES"));
        }
        columns
    }

    fn row(&self, wide: bool, _: Timestamp) -> Vec<TableCell> {
        let mut row = vec![
            TableCell::from(&self.name),
            self.instance_type.as_str().into(),
            format!("{}/{}", self.ready, self.count).into(),
            or_dash(text(pairs(&self.labels))).into(),
        ];
        if wide {
            row.push(or_dash(text(self.machines.join(","))).into());
        }
        row
    }
}

impl Show for ClusterSnapshot {
    fn reference(&self) -> String {
        format!("snapshot/{}", self.id)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("ID"),
            Column::new("VERSION"),
            Column::figures("SIZE"),
            Column::text("REASON"),
            Column::new("AGE"),
        ]
    }

    fn row(&self, _: bool, now: Timestamp) -> Vec<TableCell> {
        vec![
            TableCell::from(&self.id),
            TableCell::from(&self.version),
            human::bytes(self.size).into(),
            TableCell::from(&self.reason),
            human::age(time_ms(self.at_ms), now).into(),
        ]
    }
}

impl Show for KubernetesBundle {
    fn reference(&self) -> String {
        self.version.clone()
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("VERSION"),
            Column::new("ETCD"),
            Column::new("COREDNS"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        vec![
            TableCell::from(&self.version),
            TableCell::from(&self.etcd),
            TableCell::from(&self.coredns),
        ]
    }
}

impl Show for UpgradeStep {
    fn reference(&self) -> String {
        format!("machine/{}", self.machine)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("MACHINE"),
            Column::new("ROLE"),
            Column::new("HAS"),
            Column::new("DRAIN"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        vec![
            TableCell::from(&self.machine),
            self.role.as_str().into(),
            TableCell::from(&self.from),
            if self.drain { "yes" } else { "no" }.into(),
        ]
    }
}

/// A machine in a plan, and what would become of it.
#[derive(Serialize)]
pub(crate) struct PlannedView<'a> {
    would: &'static str,
    #[serde(flatten)]
    machine: &'a PlannedMachine,
}

impl<'a> PlannedView<'a> {
    pub(crate) fn new(would: &'static str, machine: &'a PlannedMachine) -> Self {
        Self { would, machine }
    }
}

impl Show for PlannedView<'_> {
    fn reference(&self) -> String {
        format!("machine/{}", self.machine.machine)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("MACHINE"),
            Column::new("WOULD"),
            Column::new("POOL"),
            Column::text("WHY"),
        ]
    }

    fn row(&self, _: bool, _: Timestamp) -> Vec<TableCell> {
        let Self { would, machine } = self;
        vec![
            TableCell::from(&machine.machine),
            (*would).into(),
            place(machine.role, &machine.pool).into(),
            TableCell::from(&machine.why),
        ]
    }
}

//! `strata cell allocate`: reserves cells, or says what it would do.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use strata_api::runtime::{AllocateCellRequest, Cell};
use strata_api::strata::v1::{CellCgroups, CellInfo, CellNetwork, CellOptions, GetCellRequest};
use strata_client::NodeClient;
use strata_types::{CellName, CellSpec};
use tonic::Code;

use super::file;
use crate::failure::{Exit, Failure, Result, cannot};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, Cpus, IoLimitArg, Root, cell_name};
use crate::view::{CellView, LimitsView};

/// Allocate cells: isolated cgroups and namespaces
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata cell allocate web --cpus 1.5 --memory-max 64MiB --pids-max 100
  strata cell allocate web/cache --network isolated --root private
  strata cell allocate -f cells.yaml --dry-run")]
pub struct Allocate {
    /// Name of the cell; a/b is nested in a
    #[arg(value_parser = cell_name, required_unless_present = "file")]
    name: Option<CellName>,

    #[command(flatten)]
    wanted: CellSpecArgs,

    /// Read cells from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "CellSpecArgs"])]
    file: Option<PathBuf>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Specification of a cell.
#[derive(Args, Debug)]
struct CellSpecArgs {
    /// CPU weight, 2 to 262144 [default: 1024]
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    cpu_shares: u64,
    /// CPU limit, e.g. 1.5
    #[arg(long, value_name = "N")]
    cpus: Option<Cpus>,
    /// CPUs to run on, e.g. 0-2,4
    #[arg(long, value_name = "LIST")]
    cpuset: Option<String>,
    /// Memory protected from reclaim
    #[arg(long, value_name = "SIZE")]
    memory_low: Option<Bytes>,
    /// Memory throttling threshold (cgroup v2)
    #[arg(long, value_name = "SIZE")]
    memory_high: Option<Bytes>,
    /// Memory limit; processes are killed beyond it
    #[arg(long, value_name = "SIZE")]
    memory_max: Option<Bytes>,
    /// Maximum number of processes and threads
    #[arg(long, value_name = "N")]
    pids_max: Option<u64>,
    /// I/O limits of a block device:
    /// DEVICE:rbps=10M,wbps=10M,riops=100,wiops=100
    #[arg(long, value_name = "LIMIT")]
    io: Vec<IoLimitArg>,
    /// Network namespace: that of the host, or its own
    #[arg(long, value_enum, default_value_t)]
    network: NetworkArg,
    /// Cgroup namespace: its own, or that of the host
    #[arg(long, value_enum, default_value_t)]
    cgroups: CgroupsArg,
    /// Root file system: host, read-only, private (changes are discarded with
    /// the cell), or a directory
    #[arg(long, value_name = "ROOT", default_value_t)]
    root: Root,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum NetworkArg {
    #[default]
    Host,
    Isolated,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CgroupsArg {
    #[default]
    Own,
    Host,
}

impl CellSpecArgs {
    fn cell(self, name: &CellName) -> Cell {
        let bytes = |size: Option<Bytes>| size.map(|Bytes(n)| n);
        let mut options = CellOptions {
            cpu: file::cpu(self.cpus, self.cpuset),
            memory: file::memory(
                bytes(self.memory_low),
                bytes(self.memory_high),
                bytes(self.memory_max),
            ),
            pids_max: self.pids_max,
            io: self.io.into_iter().map(|IoLimitArg(limit)| limit).collect(),
            network: match self.network {
                NetworkArg::Host => CellNetwork::Host.into(),
                NetworkArg::Isolated => CellNetwork::Isolated.into(),
            },
            cgroups: match self.cgroups {
                CgroupsArg::Own => CellCgroups::Own.into(),
                CgroupsArg::Host => CellCgroups::Host.into(),
            },
            ..Default::default()
        };
        self.root.into_wire(&mut options);
        Cell {
            name: name.to_string(),
            cpu_shares: self.cpu_shares,
            options: Some(options),
        }
    }
}

impl Allocate {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let cells = match (&self.file, &self.name) {
            (Some(file), _) => file::read(file, &mut session.input)?,
            (None, Some(name)) => vec![self.wanted.cell(name)],
            (None, None) => return Err(Failure::new(Exit::Usage, "no cell specified")),
        };
        let node = session.node().await?;
        if self.dry_run {
            return dry_run(session, &node, cells, self.output.format()).await;
        }
        let mut made = Vec::new();
        for cell in cells {
            let name = cell.name.clone();
            let request = AllocateCellRequest { cell: Some(cell) };
            let answer = node
                .cell_service()
                .allocate(request)
                .await
                .map_err(cannot(&node, format!("allocate the cell {name}")))?
                .into_inner();
            let version = if answer.cgroup_v2 { "v2" } else { "v1" };
            session.printer.note(&format!(
                "allocated {} (cgroup {version})",
                answer.cell_name
            ));
            made.push(answer.cell_name);
        }
        match self.output.requested() {
            Some(format) => print(session, &node, made, format).await,
            None => Ok(()),
        }
    }
}

async fn print(
    session: &mut Session,
    node: &NodeClient,
    made: Vec<String>,
    format: Format,
) -> Result {
    let mut views = Vec::new();
    for name in made {
        let info = get(node, &name).await?;
        views.extend(info.map(CellView::from));
    }
    match views.as_slice() {
        [one] => output::one(session, format, one),
        several => output::rows(session, format, several, ""),
    }
}

/// Result of a dry run.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "action", content = "reason", rename_all = "snake_case")]
enum Plan {
    /// A cell would be created.
    Allocate,
    /// It already exists with the same specification.
    Nothing,
    /// It would be rejected.
    Refuse(String),
}

/// Decides what allocating `wanted` would come to. `parent` is whether the
/// cell it sits in is there, or to be made before it.
fn plan(wanted: &CellSpec, existing: Option<&CellSpec>, parent: bool) -> Plan {
    match existing {
        Some(existing) if existing == wanted => Plan::Nothing,
        Some(_) => {
            Plan::Refuse("a cell of that name already exists with a different specification".into())
        }
        None if parent => Plan::Allocate,
        None => Plan::Refuse("its parent cell is not allocated".into()),
    }
}

#[derive(Serialize)]
struct PlannedCell {
    name: String,
    #[serde(flatten)]
    plan: Plan,
}

async fn dry_run(
    session: &mut Session,
    node: &NodeClient,
    cells: Vec<Cell>,
    format: Format,
) -> Result {
    let mut planned: Vec<PlannedCell> = Vec::new();
    let mut lines = String::new();
    for cell in cells {
        let name = cell.name.clone();
        let limits = LimitsView::from(&cell.options.clone().unwrap_or_default());
        let wanted = CellSpec::try_from(cell).map_err(|why| {
            Failure::new(Exit::Refused, format!("cannot allocate the cell {name}"))
                .because(why.to_string())
        })?;
        let existing = get(node, &name).await?.and_then(|info| spec_of(&info));
        let parent = match wanted.name.parent().map(|parent| parent.to_string()) {
            None => true,
            Some(parent) => {
                planned.iter().any(|p| p.name == parent) || get(node, &parent).await?.is_some()
            }
        };
        let plan = plan(&wanted, existing.as_ref(), parent);
        lines += &match &plan {
            Plan::Allocate => format!("would allocate {name} (limits: {limits})\n"),
            Plan::Nothing => format!("{name} already exists, would not change\n"),
            Plan::Refuse(why) => format!("would reject {name}: {why}\n"),
        };
        planned.push(PlannedCell { name, plan });
    }
    match format {
        Format::Json | Format::Yaml => output::document(session, format, &planned)?,
        _ => session.printer.data(lines.as_bytes())?,
    }
    if planned.iter().any(|p| matches!(p.plan, Plan::Refuse(_))) {
        return Err(Failure::silent(Exit::Refused));
    }
    Ok(())
}

async fn get(node: &NodeClient, name: &str) -> Result<Option<CellInfo>> {
    let request = GetCellRequest {
        cell_name: name.to_owned(),
    };
    match node.cells().get(request).await {
        Ok(answer) => Ok(Some(answer.into_inner())),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(cannot(node, format!("read the cell {name}"))(status)),
    }
}

fn spec_of(info: &CellInfo) -> Option<CellSpec> {
    CellSpec::try_from(Cell {
        name: info.name.clone(),
        cpu_shares: info.cpu_shares,
        options: info.options.clone(),
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_follow_the_contract() {
        let web = CellSpec::named("web".parse().unwrap());
        let mut limited = web.clone();
        limited.limits.pids_max = Some(3);
        assert_eq!(plan(&web, None, true), Plan::Allocate);
        assert_eq!(plan(&web, Some(&web), true), Plan::Nothing);
        assert!(matches!(plan(&web, Some(&limited), true), Plan::Refuse(_)));
        assert!(matches!(plan(&web, None, false), Plan::Refuse(_)));
    }
}

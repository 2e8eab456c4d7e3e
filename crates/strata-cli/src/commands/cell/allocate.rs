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

/// Reserve a cell: a cgroup and namespaces of its own
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata cell allocate web --cpus 1.5 --memory-max 64MiB --pids-max 100
  strata cell allocate web/cache --network isolated --root private
  strata cell allocate -f cells.yaml --dry-run")]
pub struct Allocate {
    /// Its name; a/b sits in a
    #[arg(value_parser = cell_name, required_unless_present = "file")]
    name: Option<CellName>,

    #[command(flatten)]
    wanted: Wanted,

    /// Read cells from a file, YAML or JSON; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "Wanted"])]
    file: Option<PathBuf>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// What the cell is to be.
#[derive(Args, Debug)]
struct Wanted {
    /// Its weight when cpus are short, 2 to 262144; 1024 unless told
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true)]
    cpu_shares: u64,
    /// At most so many cpus' worth of time, as 1.5
    #[arg(long, value_name = "N")]
    cpus: Option<Cpus>,
    /// Only these cpus, as 0-2,4
    #[arg(long, value_name = "LIST")]
    cpuset: Option<String>,
    /// Kept for the cell when the machine runs short
    #[arg(long, value_name = "SIZE")]
    memory_low: Option<Bytes>,
    /// Slowed down beyond this (cgroup v2)
    #[arg(long, value_name = "SIZE")]
    memory_high: Option<Bytes>,
    /// Killed beyond this
    #[arg(long, value_name = "SIZE")]
    memory_max: Option<Bytes>,
    /// At most so many processes and threads
    #[arg(long, value_name = "N")]
    pids_max: Option<u64>,
    /// Limits of a block device: DEVICE:rbps=10M,wbps=10M,riops=100,wiops=100
    #[arg(long, value_name = "LIMIT")]
    io: Vec<IoLimitArg>,
    /// The machine's network, or one of its own
    #[arg(long, value_enum, default_value_t)]
    network: NetworkArg,
    /// The control groups it sees: its own, or all of the machine
    #[arg(long, value_enum, default_value_t)]
    cgroups: CgroupsArg,
    /// host, read-only, private (changes vanish with the cell), or a folder
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

impl Wanted {
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
            (None, None) => return Err(Failure::new(Exit::Usage, "no cell was named")),
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
        match self.output.asked() {
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

/// What allocating would come to.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "action", content = "reason", rename_all = "snake_case")]
enum Plan {
    /// A cell would be made.
    Allocate,
    /// It is there already, as asked.
    Nothing,
    /// It would be refused.
    Refuse(String),
}

/// Decides what allocating `wanted` would come to. `parent` is whether the
/// cell it sits in is there, or to be made before it.
fn plan(wanted: &CellSpec, existing: Option<&CellSpec>, parent: bool) -> Plan {
    match existing {
        Some(existing) if existing == wanted => Plan::Nothing,
        Some(_) => Plan::Refuse("there is a cell of that name, and it is another".into()),
        None if parent => Plan::Allocate,
        None => Plan::Refuse("the cell it sits in is not allocated".into()),
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
            Plan::Nothing => format!("would leave {name} as it is\n"),
            Plan::Refuse(why) => format!("would refuse {name}: {why}\n"),
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
        Err(status) => Err(cannot(node, format!("look at the cell {name}"))(status)),
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

//! Cells written down in a file, YAML or JSON, several when divided by
//! `---`. The shape is what `cell show -o yaml` prints; what is no wish but
//! an observation there is read over, anything else unknown is refused.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use strata_api::runtime::Cell;
use strata_api::strata::v1;

use crate::failure::{Exit, Failure, Result};
use crate::values::{Bytes, Cpus, Root};

/// A cell in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellFile {
    name: String,
    #[serde(default)]
    cpu_shares: u64,
    #[serde(default)]
    limits: LimitsFile,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    cgroups: Cgroups,
    #[serde(default)]
    root: Root,
    #[serde(default, rename = "state")]
    _state: IgnoredAny,
    #[serde(default, rename = "reason")]
    _reason: IgnoredAny,
    #[serde(default, rename = "cgroup")]
    _cgroup: IgnoredAny,
    #[serde(default, rename = "init_pid")]
    _init_pid: IgnoredAny,
    #[serde(default, rename = "allocated_at")]
    _allocated_at: IgnoredAny,
    #[serde(default, rename = "usage")]
    _usage: IgnoredAny,
    #[serde(default, rename = "executables")]
    _executables: IgnoredAny,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsFile {
    cpus: Option<Cpus>,
    cpuset: Option<String>,
    memory_low: Option<Bytes>,
    memory_high: Option<Bytes>,
    memory_max: Option<Bytes>,
    pids_max: Option<u64>,
    io: Vec<IoFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IoFile {
    device: String,
    read_bps: Option<Bytes>,
    write_bps: Option<Bytes>,
    read_iops: Option<u64>,
    write_iops: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Network {
    #[default]
    Host,
    Isolated,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cgroups {
    #[default]
    Own,
    Host,
}

/// Reads the cells of a file; `-` is stdin.
pub(super) fn read(file: &Path, input: &mut dyn std::io::Read) -> Result<Vec<Cell>> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        input.read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|why| Failure::file("read", file, &why))?;
    let cells = parse(&text).map_err(|why| {
        Failure::new(
            Exit::Usage,
            format!("{} does not describe cells", file.display()),
        )
        .because(why)
    })?;
    if cells.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            format!("{} contains no cell", file.display()),
        ));
    }
    Ok(cells)
}

/// JSON is YAML too, so one reader does for both.
fn parse(text: &str) -> std::result::Result<Vec<Cell>, String> {
    let cells: Vec<CellFile> =
        serde_saphyr::from_multiple(text).map_err(|why| first_line(&why.to_string()))?;
    Ok(cells.into_iter().map(Into::into).collect())
}

/// The reader draws the place under its message; the message is enough.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

impl From<CellFile> for Cell {
    fn from(file: CellFile) -> Self {
        let limits = file.limits;
        let bytes = |size: Option<Bytes>| size.map(|Bytes(n)| n);
        let mut options = v1::CellOptions {
            cpu: cpu(limits.cpus, limits.cpuset),
            memory: memory(
                bytes(limits.memory_low),
                bytes(limits.memory_high),
                bytes(limits.memory_max),
            ),
            pids_max: limits.pids_max,
            io: limits.io.into_iter().map(Into::into).collect(),
            network: match file.network {
                Network::Host => v1::CellNetwork::Host.into(),
                Network::Isolated => v1::CellNetwork::Isolated.into(),
            },
            cgroups: match file.cgroups {
                Cgroups::Own => v1::CellCgroups::Own.into(),
                Cgroups::Host => v1::CellCgroups::Host.into(),
            },
            ..Default::default()
        };
        file.root.into_wire(&mut options);
        Self {
            name: file.name,
            cpu_shares: file.cpu_shares,
            options: Some(options),
        }
    }
}

impl From<IoFile> for v1::IoLimit {
    fn from(io: IoFile) -> Self {
        Self {
            device: io.device,
            read_bps: io.read_bps.map(|Bytes(n)| n),
            write_bps: io.write_bps.map(|Bytes(n)| n),
            read_iops: io.read_iops,
            write_iops: io.write_iops,
        }
    }
}

/// The cpu part of the wire; none when nothing is limited.
pub(super) fn cpu(cpus: Option<Cpus>, cpuset: Option<String>) -> Option<v1::CpuLimit> {
    let limit = v1::CpuLimit {
        quota_us: cpus.map(Cpus::quota_us),
        period_us: None,
        cpuset: cpuset.unwrap_or_default(),
    };
    (limit != v1::CpuLimit::default()).then_some(limit)
}

/// The memory part of the wire; none when nothing is limited.
pub(super) fn memory(
    low: Option<u64>,
    high: Option<u64>,
    max: Option<u64>,
) -> Option<v1::MemoryLimit> {
    let limit = v1::MemoryLimit { low, high, max };
    (limit != v1::MemoryLimit::default()).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::CellView;

    #[test]
    fn printed_cell_can_be_allocated_again() {
        let written = v1::CellInfo {
            name: "web/cache".into(),
            state: v1::CellState::Ready.into(),
            cpu_shares: 512,
            options: Some(v1::CellOptions {
                cpu: cpu("1.5".parse().ok(), Some("0-1".into())),
                memory: memory(None, None, Some(64 << 20)),
                pids_max: Some(32),
                io: vec![v1::IoLimit {
                    device: "8:0".into(),
                    read_bps: Some(1000),
                    ..Default::default()
                }],
                network: v1::CellNetwork::Isolated.into(),
                root: v1::RootMode::Folder.into(),
                root_folder: "/srv/root".into(),
                cgroups: v1::CellCgroups::Host.into(),
            }),
            allocated_at_ms: 1_700_000_000_000,
            ..Default::default()
        };
        let view = CellView::from(written.clone());
        for text in [
            serde_saphyr::to_string(&view).unwrap(),
            serde_json::to_string_pretty(&view).unwrap(),
        ] {
            let read = parse(&text).unwrap();
            assert_eq!(read.len(), 1, "{text}");
            assert_eq!(read[0].name, "web/cache");
            assert_eq!(read[0].cpu_shares, 512);
            assert_eq!(read[0].options, written.options);
        }
    }

    #[test]
    fn a_file_may_hold_several_cells_with_sizes_as_people_write_them() {
        let cells = parse("name: a\nlimits: {memory_max: 64MiB}\n---\nname: a/b\n").unwrap();
        let names: Vec<_> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["a", "a/b"]);
        let options = cells[0].options.as_ref().unwrap();
        assert_eq!(options.memory.unwrap().max, Some(64 << 20));
    }

    #[test]
    fn a_typo_is_refused() {
        let why = parse("name: a\nlimit: {}\n").unwrap_err();
        assert!(why.contains("limit"), "{why}");
        assert!(!why.contains('\n'), "{why}");
    }
}

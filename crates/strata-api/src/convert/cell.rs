//! Cells: `runtime.Cell` with `strata.v1.CellOptions`, and what is shown of
//! them.

use strata_types::{
    CellName, CellSpec, CellState, CpuLimit, CpuSet, CpuShares, DeviceRef, Error, IoLimit, Limits,
    MemoryLimit, RootMode,
};

use crate::runtime;
use crate::strata::v1;

/// The most block devices one cell limits.
const MAX_IO: usize = 64;

impl TryFrom<runtime::Cell> for CellSpec {
    type Error = Error;

    fn try_from(cell: runtime::Cell) -> Result<Self, Error> {
        let name = CellName::from_field("cell.name", &cell.name)?;
        let cpu_shares = CpuShares::from_field("cell.cpu_shares", cell.cpu_shares)?;
        let options = cell.options.unwrap_or_default();
        Ok(Self {
            name,
            cpu_shares,
            limits: limits(&options)?,
            isolated_network: isolated(options.network)?,
            host_cgroups: host_cgroups(options.cgroups)?,
            root: root(&options)?,
            id_map: None,
        })
    }
}

fn limits(options: &v1::CellOptions) -> Result<Limits, Error> {
    let cpu = options.cpu.clone().unwrap_or_default();
    let memory = options.memory.unwrap_or_default();
    let cpuset = match cpu.cpuset.as_str() {
        "" => None,
        text => Some(
            CpuSet::try_from(text.to_owned())
                .map_err(|why| why.in_field("cell.options.cpu.cpuset"))?,
        ),
    };
    if let Some(pids @ (0..2 | 4_194_305..)) = options.pids_max {
        return Err(Error::invalid(
            "cell.options.pids_max",
            format!("is {pids}; it must be 2 to 4194304, and the init of the cell counts as one"),
        ));
    }
    if options.io.len() > MAX_IO {
        return Err(Error::invalid(
            "cell.options.io",
            format!("has {} devices; the maximum is {MAX_IO}", options.io.len()),
        ));
    }
    Ok(Limits {
        cpu: CpuLimit::from_fields("cell.options.cpu", cpu.quota_us, cpu.period_us)?,
        cpuset,
        memory: MemoryLimit::from_fields(
            "cell.options.memory",
            memory.low,
            memory.high,
            memory.max,
        )?,
        pids_max: options.pids_max,
        io: options.io.iter().map(io_limit).collect::<Result<_, _>>()?,
    })
}

fn io_limit(limit: &v1::IoLimit) -> Result<IoLimit, Error> {
    let figures = [
        limit.read_bps,
        limit.write_bps,
        limit.read_iops,
        limit.write_iops,
    ];
    if figures.contains(&Some(0)) {
        return Err(Error::invalid(
            "cell.options.io",
            "a limit of 0 would block the device; omit it or use 1 or more",
        ));
    }
    Ok(IoLimit {
        device: DeviceRef::from_field("cell.options.io.device", &limit.device)?,
        read_bps: limit.read_bps,
        write_bps: limit.write_bps,
        read_iops: limit.read_iops,
        write_iops: limit.write_iops,
    })
}

fn isolated(network: i32) -> Result<bool, Error> {
    match v1::CellNetwork::try_from(network) {
        Ok(v1::CellNetwork::Host) => Ok(false),
        Ok(v1::CellNetwork::Isolated) => Ok(true),
        Err(_) => Err(Error::invalid(
            "cell.options.network",
            format!("{network} is not a network mode; 0 is host, 1 is isolated"),
        )),
    }
}

fn host_cgroups(cgroups: i32) -> Result<bool, Error> {
    match v1::CellCgroups::try_from(cgroups) {
        Ok(v1::CellCgroups::Own) => Ok(false),
        Ok(v1::CellCgroups::Host) => Ok(true),
        Err(_) => Err(Error::invalid(
            "cell.options.cgroups",
            format!("{cgroups} is not a cgroup mode; 0 is that of the cell, 1 is that of the host"),
        )),
    }
}

fn root(options: &v1::CellOptions) -> Result<RootMode, Error> {
    let mode = v1::RootMode::try_from(options.root).map_err(|_| {
        Error::invalid(
            "cell.options.root",
            format!("{} is not a root mode", options.root),
        )
    })?;
    let directory = options.root_folder.as_str();
    let field = "cell.options.root_folder";
    match mode {
        v1::RootMode::Folder if !directory.starts_with('/') || directory.contains('\0') => Err(
            Error::invalid(field, "must be the absolute path of a directory"),
        ),
        v1::RootMode::Folder if directory.len() >= 4096 => {
            Err(Error::invalid(field, "is longer than any path"))
        }
        v1::RootMode::Folder => Ok(RootMode::Directory(directory.to_owned())),
        _ if !directory.is_empty() => {
            Err(Error::invalid(field, "is only valid with ROOT_MODE_FOLDER"))
        }
        v1::RootMode::Host => Ok(RootMode::Host),
        v1::RootMode::ReadOnly => Ok(RootMode::ReadOnly),
        v1::RootMode::Private => Ok(RootMode::Private),
    }
}

impl From<&CellSpec> for v1::CellOptions {
    fn from(spec: &CellSpec) -> Self {
        let limits = &spec.limits;
        let (root, root_folder) = match &spec.root {
            RootMode::Host => (v1::RootMode::Host, String::new()),
            RootMode::ReadOnly => (v1::RootMode::ReadOnly, String::new()),
            RootMode::Private => (v1::RootMode::Private, String::new()),
            RootMode::Directory(directory) => (v1::RootMode::Folder, directory.clone()),
            // A pod's, which has a face of its own.
            RootMode::Handed => (v1::RootMode::Private, String::new()),
        };
        let network = if spec.isolated_network {
            v1::CellNetwork::Isolated
        } else {
            v1::CellNetwork::Host
        };
        let cgroups = if spec.host_cgroups {
            v1::CellCgroups::Host
        } else {
            v1::CellCgroups::Own
        };
        let cpu = v1::CpuLimit {
            quota_us: limits.cpu.map(|cpu| cpu.quota_us),
            period_us: limits.cpu.map(|cpu| cpu.period_us),
            cpuset: limits
                .cpuset
                .as_ref()
                .map(CpuSet::to_string)
                .unwrap_or_default(),
        };
        let memory = v1::MemoryLimit {
            low: limits.memory.low,
            high: limits.memory.high,
            max: limits.memory.max,
        };
        Self {
            cpu: (cpu != v1::CpuLimit::default()).then_some(cpu),
            memory: (memory != v1::MemoryLimit::default()).then_some(memory),
            pids_max: limits.pids_max,
            io: limits.io.iter().map(Into::into).collect(),
            network: network.into(),
            root: root.into(),
            root_folder,
            cgroups: cgroups.into(),
        }
    }
}

impl From<&IoLimit> for v1::IoLimit {
    fn from(limit: &IoLimit) -> Self {
        Self {
            device: match &limit.device {
                DeviceRef::Number(major, minor) => format!("{major}:{minor}"),
                DeviceRef::Path(path) => path.clone(),
            },
            read_bps: limit.read_bps,
            write_bps: limit.write_bps,
            read_iops: limit.read_iops,
            write_iops: limit.write_iops,
        }
    }
}

impl From<CellState> for v1::CellState {
    fn from(state: CellState) -> Self {
        match state {
            CellState::Ready => Self::Ready,
            CellState::Freeing => Self::Freeing,
            CellState::Dead => Self::Dead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(change: impl FnOnce(&mut v1::CellOptions)) -> Result<CellSpec, Error> {
        let mut options = v1::CellOptions::default();
        change(&mut options);
        CellSpec::try_from(runtime::Cell {
            name: "web".into(),
            cpu_shares: 0,
            options: Some(options),
        })
    }

    #[test]
    fn options_come_back_as_they_were_sent() {
        let sent = v1::CellOptions {
            cpu: Some(v1::CpuLimit {
                quota_us: Some(50_000),
                period_us: Some(100_000),
                cpuset: "0-1".into(),
            }),
            memory: Some(v1::MemoryLimit {
                low: Some(1 << 20),
                high: None,
                max: Some(64 << 20),
            }),
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
        };
        let spec = cell(|options| options.clone_from(&sent)).unwrap();
        assert_eq!(v1::CellOptions::from(&spec), sent);
    }

    type Case = (&'static str, fn(&mut v1::CellOptions));

    #[test]
    fn bad_options_name_their_field() {
        let cases: [Case; 10] = [
            ("cell.options.pids_max", |o| o.pids_max = Some(0)),
            ("cell.options.network", |o| o.network = 9),
            ("cell.options.cgroups", |o| o.cgroups = 2),
            ("cell.options.root", |o| o.root = -1),
            ("cell.options.root_folder", |o| o.root_folder = "/x".into()),
            ("cell.options.root_folder", |o| {
                o.root = v1::RootMode::Folder.into();
            }),
            ("cell.options.io.device", |o| {
                o.io.push(v1::IoLimit::default());
            }),
            ("cell.options.io", |o| {
                o.io = vec![v1::IoLimit::default(); 65];
            }),
            ("cell.options.cpu.cpuset", |o| {
                o.cpu = Some(v1::CpuLimit {
                    cpuset: "x".into(),
                    ..Default::default()
                });
            }),
            ("cell.options.memory.low", |o| {
                o.memory = Some(v1::MemoryLimit {
                    low: Some(2 << 20),
                    high: None,
                    max: Some(1 << 20),
                });
            }),
        ];
        for (field, change) in cases {
            assert_eq!(cell(change).unwrap_err().field(), Some(field));
        }
    }
}

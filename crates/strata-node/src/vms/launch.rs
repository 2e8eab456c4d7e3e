//! How QEMU is run: as root without any capability, in a cell whose files
//! cannot be changed but for the machine's own folder, and whose network is a
//! loopback. Its card is an open file that it inherits.

use std::path::Path;

use strata_cell::{CellInit, Confinement, Fitting};
use strata_rootfs::BindOptions;
use strata_types::{
    CellSpec, CpuLimit, Error, ExecutableSpec, Limits, MemoryLimit, Result, RootMode,
};
use strata_vm::{Boot, Launch, MacAddress, Network, OnReboot, Tap, VmSpec, ip_parameter};

use super::MAIN;
use super::ask::{VmAsk, VmBoot};
use super::kind::{Made, cell_name, endpoint};

/// Processes and threads that QEMU needs beside its cpus.
const THREADS: u64 = 256;

/// The guest as QEMU is told of it.
pub(super) fn spec(ask: &VmAsk, made: &Made) -> Result<VmSpec> {
    let boot = match (&ask.boot, &made.disk) {
        (VmBoot::Image { .. }, Some(disk)) => Boot::Disk(disk.clone()),
        (
            VmBoot::Kernel {
                kernel,
                initrd,
                cmdline,
            },
            _,
        ) => Boot::Kernel {
            kernel: kernel.clone(),
            initrd: initrd.clone(),
            cmdline: with_address(cmdline, ask, made),
        },
        _ => return Err(Error::internal("a machine that boots from a disk has none")),
    };
    let network = match endpoint(ask, made) {
        Some(endpoint) => Some(Network {
            mac: MacAddress::new(endpoint.mac().0)
                .ok_or_else(|| Error::internal("an address on the wire cannot be used"))?,
            tap: Tap::Inherited,
        }),
        None => None,
    };
    Ok(VmSpec {
        name: ask.name.label().clone(),
        machine: ask.machine,
        cpus: ask.cpus,
        memory: ask.memory,
        boot,
        disks: made.disks.clone(),
        network,
        accel: ask.accel,
        on_reboot: OnReboot::Restart,
    })
}

/// A kernel that is started without a disk often has nobody who asks for an
/// address; it is told.
fn with_address(cmdline: &str, ask: &VmAsk, made: &Made) -> String {
    let tells = cmdline
        .split_whitespace()
        .any(|word| word.starts_with("ip="));
    match (made.address, made.gateway) {
        (Some(address), Some(gateway)) if !tells => {
            let hostname = ask.name.label();
            let ip = ip_parameter(address, made.prefix, gateway, hostname, Some(gateway));
            format!("{cmdline} {ip}").trim().to_owned()
        }
        _ => cmdline.to_owned(),
    }
}

/// The cell of QEMU, with what the guest may come to need.
pub(super) fn cell(ask: &VmAsk, launch: &Launch) -> CellSpec {
    let mut cell = CellSpec::named(cell_name(ask));
    cell.isolated_network = true;
    cell.root = RootMode::Handed;
    // One cpu more than the guest has, for its disks and its network.
    let cpus = u64::from(ask.cpus) + 1;
    cell.limits = Limits {
        cpu: Some(CpuLimit {
            quota_us: cpus * 100_000,
            period_us: 100_000,
        }),
        memory: MemoryLimit {
            max: Some(launch.memory),
            ..MemoryLimit::default()
        },
        pids_max: Some(THREADS + u64::from(ask.cpus)),
        ..Limits::default()
    };
    cell
}

/// Gives the cell the machine's files, unchangeable, and its own folder.
pub(super) fn fit_out(init: &CellInit, folder: &Path) -> Result<()> {
    let failed = |error| {
        Error::internal(format!(
            "cannot make the cell's root: {}",
            strata_types::chain(&error)
        ))
    };
    let everything = BindOptions {
        read_only: true,
        recursive: true,
        no_suid: true,
        ..BindOptions::default()
    };
    let root = strata_rootfs::bind(Path::new("/"), everything).map_err(failed)?;
    let own = BindOptions {
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..BindOptions::default()
    };
    let folder_text = folder.to_string_lossy().into_owned();
    let fittings = [
        Fitting::New {
            kind: "proc",
            path: "/proc",
            read_only: false,
        },
        Fitting::Folder(
            folder_text,
            strata_rootfs::bind(folder, own).map_err(failed)?,
        ),
    ];
    init.furnish(&root, &fittings)
        .map_err(|error| Error::wrong_state(error.to_string()))?;
    // QEMU has a filter of its own for system calls.
    let confinement = Confinement {
        capabilities: 0,
        no_new_privileges: true,
        rlimits: Vec::new(),
        filter: None,
    };
    init.confine(&confinement)
        .map_err(|error| Error::internal(error.to_string()))
}

/// QEMU's process.
pub(super) fn executable(ask: &VmAsk, launch: Launch) -> Result<ExecutableSpec> {
    Ok(ExecutableSpec {
        name: MAIN.parse()?,
        cell: cell_name(ask),
        command: launch.command,
        description: String::new(),
        identity: strata_types::Identity::default(),
        environment: Vec::new(),
        working_directory: None,
        stop_grace: ask.stop_grace,
        stop_signal: ExecutableSpec::default_stop_signal(),
    })
}

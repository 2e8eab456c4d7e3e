//! How QEMU is run: as root without any capability, in a cell that has its
//! programs, the guest's images and the guest's own folder, and whose network
//! is a loopback. Its card is an open file that it inherits.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use strata_cell::{CellInit, Confinement, Fitting};
use strata_rootfs::{BindOptions, Owner, RootError, TmpfsOptions};
use strata_types::{
    CellSpec, CpuLimit, Error, ExecutableSpec, Label, Limits, MemoryLimit, Result, RootMode,
};
use strata_vm::{Boot, Launch, MacAddress, Network, OnReboot, Tap, VmSpec, ip_parameter};

use super::ask::{VmAsk, VmBoot};
use super::kind::{Made, VmKind, endpoint};
use super::{MAIN, disks};
use crate::units::Kind as _;

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
    let mut cell = CellSpec::named(VmKind::cell(ask));
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

/// What QEMU and its libraries are in. Where the machine has a link instead of
/// a folder, as most have for all but the first, the cell has the same link.
const PROGRAMS: [&str; 7] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];
/// Folders on the way to what is mounted, and nothing else, are in the root.
const ROOT_BYTES: u64 = 1 << 20;

/// Gives the cell a root with programs, what this machine is made from, and
/// its own folder, which alone can be changed. A guest that breaks out of QEMU
/// finds neither keys nor sockets nor disks of the machine.
pub(super) fn fit_out(
    init: &CellInit,
    folder: &Path,
    qemu: &Path,
    files: &[&Path],
    pool: Vec<Fitting>,
) -> Result<()> {
    let (root, mut fittings) = furniture(folder, qemu, files).map_err(|error| {
        let why = strata_types::chain(&error);
        Error::internal(format!("cannot make the cell's root: {why}"))
    })?;
    fittings.extend(pool);
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

/// A disk of the pool, in the cell.
pub(super) fn pool_disk(disk: &OwnedFd, name: &Label, read_only: bool) -> Result<Fitting> {
    let options = BindOptions {
        read_only,
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..BindOptions::default()
    };
    let mount = strata_rootfs::bind_fd(disk.as_fd(), options).map_err(|error| {
        let why = strata_types::chain(&error);
        Error::internal(format!(
            "volume {name} of the pool cannot be mounted: {why}"
        ))
    })?;
    Ok(Fitting::File(disks::pool_path(name), mount))
}

fn furniture(
    folder: &Path,
    qemu: &Path,
    files: &[&Path],
) -> Result<(OwnedFd, Vec<Fitting>), RootError> {
    let root = strata_rootfs::tmpfs(TmpfsOptions {
        bytes: ROOT_BYTES,
        mode: 0o755,
        owner: Owner::default(),
        no_exec: false,
    })?;
    let read_only = BindOptions {
        read_only: true,
        recursive: true,
        no_suid: true,
        no_dev: true,
        ..BindOptions::default()
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut fittings = vec![
        Fitting::New {
            kind: "proc",
            path: "/proc",
            read_only: false,
        },
        Fitting::Folder("/dev".into(), strata_rootfs::devices(Owner::default())?),
    ];
    for path in PROGRAMS.map(Path::new) {
        if let Ok(target) = std::fs::read_link(path) {
            let name = path.strip_prefix("/").unwrap_or(path);
            // A link that cannot be made is one that QEMU does without.
            let _ = rustix::fs::symlinkat(&target, &root, name);
        } else if path.is_dir() {
            fittings.push(Fitting::Folder(
                text(path),
                strata_rootfs::bind(path, read_only)?,
            ));
        }
    }
    // A program that is somewhere else, and what the machine is made from.
    let elsewhere = (!qemu.starts_with("/usr")).then_some(qemu);
    for path in files.iter().copied().chain(elsewhere) {
        fittings.push(Fitting::File(
            text(path),
            strata_rootfs::bind(path, read_only)?,
        ));
    }
    let kvm = Path::new("/dev/kvm");
    if kvm.exists() {
        let device = BindOptions::default();
        fittings.push(Fitting::File(text(kvm), strata_rootfs::bind(kvm, device)?));
    }
    let own = BindOptions {
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..BindOptions::default()
    };
    fittings.push(Fitting::Folder(
        text(folder),
        strata_rootfs::bind(folder, own)?,
    ));
    Ok((root, fittings))
}

/// QEMU's process.
pub(super) fn executable(ask: &VmAsk, launch: Launch) -> Result<ExecutableSpec> {
    Ok(ExecutableSpec {
        name: MAIN.parse()?,
        cell: VmKind::cell(ask),
        command: launch.command,
        description: String::new(),
        identity: strata_types::Identity::default(),
        environment: Vec::new(),
        working_directory: None,
        stop_grace: ask.stop_grace,
        stop_signal: ExecutableSpec::default_stop_signal(),
        restart: ExecutableSpec::default_restart(),
    })
}

//! How QEMU is run: as a user of its own without any capability, in a cell
//! that has QEMU's own files ([`root`]) and whose network is a loopback. All
//! else that it needs are open files that it inherits. It is started by the
//! jail, which takes these over and restricts itself by Landlock.

use strata_rootfs::Owner;
use strata_types::{
    CellSpec, CommandLine, CpuLimit, Error, ExecutableSpec, Identity, Limits, MemoryLimit, Result,
    RootMode,
};
use strata_vm::{
    Boot, Launch, MacAddress, Network, OnReboot, ProgramFiles, Tap, VmSpec, ip_parameter,
};

use super::kind::{VmAllocation, VmKind, endpoint};
use super::spec::{VmBoot, VmUnitSpec};
use super::{MAIN, root};
use crate::units::UnitKind as _;

/// Processes and threads that QEMU needs beside its cpus.
const THREADS: u64 = 256;

/// The guest as QEMU is configured.
pub(super) fn spec(unit_spec: &VmUnitSpec, allocated: &VmAllocation) -> Result<VmSpec> {
    let boot = match (&unit_spec.boot, &allocated.disk) {
        (VmBoot::Image { .. }, Some(disk)) => Boot::Disk(disk.clone()),
        (
            VmBoot::Kernel {
                initrd, cmdline, ..
            },
            _,
        ) => Boot::Kernel {
            kernel: root::KERNEL.into(),
            initrd: initrd.as_ref().map(|_| root::INITRD.into()),
            cmdline: with_address(cmdline, unit_spec, allocated),
        },
        _ => return Err(Error::internal("a machine that boots from a disk has none")),
    };
    let network = match endpoint(unit_spec, allocated) {
        Some(endpoint) => Some(Network {
            mac: MacAddress::new(endpoint.mac().0)
                .ok_or_else(|| Error::internal("an address on the wire cannot be used"))?,
            tap: Tap::Inherited,
        }),
        None => None,
    };
    Ok(VmSpec {
        name: unit_spec.name.label().clone(),
        machine: unit_spec.machine,
        cpus: unit_spec.cpus,
        memory: unit_spec.memory,
        boot,
        disks: allocated.disks.clone(),
        network,
        accel: unit_spec.accel,
        on_reboot: OnReboot::Restart,
    })
}

/// A kernel that is started without a disk often has no DHCP client; it
/// receives its address on the command line.
fn with_address(cmdline: &str, unit_spec: &VmUnitSpec, allocated: &VmAllocation) -> String {
    let tells = cmdline
        .split_whitespace()
        .any(|word| word.starts_with("ip="));
    match (allocated.address, allocated.gateway) {
        (Some(address), Some(gateway)) if !tells => {
            let hostname = unit_spec.host_name();
            let ip = ip_parameter(address, allocated.prefix, gateway, &hostname, Some(gateway));
            format!("{cmdline} {ip}").trim().to_owned()
        }
        _ => cmdline.to_owned(),
    }
}

/// The cell of QEMU. What it may use is what placement counts: the requested
/// cpu time, of which the guest's devices have their part too, and beside the
/// guest's memory a fixed amount for QEMU itself (decision 42).
pub(super) fn cell(unit_spec: &VmUnitSpec, launch: &Launch) -> CellSpec {
    let mut cell = CellSpec::named(VmKind::cell(unit_spec));
    cell.isolated_network = true;
    cell.root = RootMode::Handed;
    cell.limits = Limits {
        cpu: Some(CpuLimit {
            quota_us: unit_spec.cpu_limit() * 100,
            period_us: 100_000,
        }),
        memory: MemoryLimit {
            max: Some(launch.memory),
            ..MemoryLimit::default()
        },
        pids_max: Some(THREADS + u64::from(unit_spec.cpus)),
        ..Limits::default()
    };
    cell
}

/// QEMU's process, through the jail.
pub(super) fn executable(
    unit_spec: &VmUnitSpec,
    launch: &Launch,
    program: &ProgramFiles,
    user: Owner,
) -> Result<ExecutableSpec> {
    let programs: Vec<&str> = program
        .programs
        .iter()
        .filter_map(|path| path.to_str())
        .collect();
    let words = strata_cell::jailed(root::JAIL_PATH, &programs, launch.command.words());
    Ok(ExecutableSpec {
        name: MAIN.parse()?,
        cell: VmKind::cell(unit_spec),
        command: CommandLine::try_from(words)?,
        description: String::new(),
        identity: Identity {
            uid: Some(user.uid),
            gid: Some(user.gid),
            groups: Vec::new(),
        },
        environment: Vec::new(),
        working_directory: None,
        stop_grace: unit_spec.stop_grace,
        stop_signal: ExecutableSpec::default_stop_signal(),
        restart: ExecutableSpec::default_restart(),
    })
}

#[cfg(test)]
mod tests {
    use strata_vm::{Host, Kvm, Version, command};

    use super::*;

    /// The numbers of inherited files are defined in two crates.
    #[test]
    fn qemu_finds_what_the_jail_took_over() {
        let spec = VmSpec {
            name: "web".parse().unwrap(),
            machine: strata_vm::Machine::Auto,
            cpus: 1,
            memory: 64 << 20,
            boot: Boot::Kernel {
                kernel: root::KERNEL.into(),
                initrd: None,
                cmdline: String::new(),
            },
            disks: Vec::new(),
            network: None,
            accel: strata_vm::Accel::Tcg,
            on_reboot: OnReboot::Restart,
        };
        let host = Host {
            qemu: "/usr/bin/qemu-system-x86_64".into(),
            version: Version {
                major: 8,
                minor: 0,
                micro: 0,
            },
            kvm: Kvm::Works,
            sandbox: true,
        };
        let launch = command(&spec, &host).unwrap();
        let words = launch.command.words().join(" ");
        let first = format!("id=qmp0,fd={},", strata_cell::JAIL_FIRST_FD);
        let log = format!("fd={},set=", strata_cell::JAIL_LOG_FD);
        assert!(words.contains(&first) && words.contains(&log), "{words}");
        let most = 4 + 2 * (VmSpec::MAX_DISKS + 1);
        assert!(most <= strata_cell::JAIL_MAX_FDS);
    }
}

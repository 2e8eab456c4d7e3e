//! The command line of a guest, as a pure function of the specification and
//! what the probe found.
//!
//! QEMU gets nothing that is not configured here: no default devices, no
//! configuration of a user, no display, no monitor for people. Formats of disks
//! and what they stand on are set explicitly, never probed.
//!
//! QEMU opens nothing of a guest by a path but its kernel: sockets, disks and
//! the tap are open files that it inherits, so its user needs no right to any
//! directory, and no name that QEMU could change leads anywhere.

mod disk;

use std::path::{Path, PathBuf};

use strata_types::instance::VM_OVERHEAD;
use strata_types::{CommandLine, Error, Result};

use crate::spec::{MIB, OnReboot};
use crate::{Accel, Boot, Disk, Host, Kvm, Machine, Network, Tap, VmSpec};

/// A copy of standard output: QEMU takes none of the first three.
const LOG_FD: u32 = 3;
/// The first of the files that it inherits.
const FIRST_INHERITED: u32 = 4;
/// How much translated code TCG keeps, in MiB: part of [`VM_OVERHEAD`]. It would
/// take an eighth of the host's memory; less made no boot slower.
const TCG_CODE: u64 = 128;
const _: () = assert!(TCG_CODE * MIB < VM_OVERHEAD);
/// Where devices sit. Fixed, for guests name their NICs by it: one more disk
/// must not rename the network.
const NETWORK_SLOT: usize = 2;
const RANDOM_SLOT: usize = 3;
const BALLOON_SLOT: usize = 4;
const FIRST_DISK_SLOT: usize = 5;
/// What QEMU forbids itself once it runs.
pub(crate) const SANDBOX: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// How a guest is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The words. stdout becomes the log of the guest's console, stderr that
    /// of QEMU.
    pub command: CommandLine,
    /// Open files it expects, the first as descriptor 4 and so on. Descriptor
    /// 3 is a copy of stdout.
    pub inherits: Vec<Inherited>,
    /// What will run its instructions.
    pub kvm: bool,
    /// What the whole process may come to need, in bytes: a memory limit
    /// below that may end the guest.
    pub memory: u64,
}

/// An open file that QEMU expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// A socket that listens at [`crate::VmDir::qmp`].
    Qmp,
    /// A socket that listens at [`crate::VmDir::console`].
    Console,
    /// The tap interface of the guest's NIC.
    Tap,
    /// A disk, or the base that one stands on.
    File {
        path: PathBuf,
        /// Open for reading only; otherwise for reading and writing.
        read_only: bool,
    },
}

/// Makes the command line of a guest.
pub fn command(spec: &VmSpec, host: &Host) -> Result<Launch> {
    spec.check()?;
    let kvm = uses_kvm(spec.accel, host)?;
    let mut words = Arguments::new(&host.qemu)?;
    words.base(spec, host);
    words.board(spec, kvm);
    words.sockets();
    words.boot(&spec.boot, kvm)?;
    if let Some(network) = &spec.network {
        words.network(network);
    }
    words.helpers();
    for (number, disk) in all_disks(spec).enumerate() {
        let boots = number == 0 && matches!(spec.boot, Boot::Disk(_));
        disk::add(&mut words, number, disk, boots);
    }
    Ok(Launch {
        command: CommandLine::try_from(words.words)?,
        inherits: words.inherits,
        kvm,
        memory: spec.memory + VM_OVERHEAD,
    })
}

fn all_disks(spec: &VmSpec) -> impl Iterator<Item = &Disk> {
    let first = match &spec.boot {
        Boot::Disk(disk) => Some(disk),
        Boot::Kernel { .. } => None,
    };
    first.into_iter().chain(&spec.disks)
}

fn uses_kvm(wanted: Accel, host: &Host) -> Result<bool> {
    match (wanted, &host.kvm) {
        (Accel::Tcg, _) | (Accel::Auto, Kvm::Broken(_)) => Ok(false),
        (_, Kvm::Works) => Ok(true),
        (Accel::Kvm, Kvm::Broken(why)) => {
            let why = format!("KVM does not work on this machine: {why}");
            Err(Error::wrong_state(why)
                .in_field("accel")
                .with_hint("ask for `auto`: the guest then runs without it, slower"))
        }
    }
}

/// The words so far, and the files that they are about.
struct Arguments {
    words: Vec<String>,
    inherits: Vec<Inherited>,
}

impl Arguments {
    fn new(program: &Path) -> Result<Self> {
        Ok(Self {
            words: vec![text(program)?.to_owned()],
            inherits: Vec::new(),
        })
    }

    fn flag(&mut self, flag: &str) {
        self.words.push(flag.to_owned());
    }

    fn option(&mut self, option: &str, value: impl Into<String>) {
        self.words.push(option.to_owned());
        self.words.push(value.into());
    }

    /// Expects an open file; its number.
    fn inherit(&mut self, what: Inherited) -> u32 {
        let fd = FIRST_INHERITED + self.inherits.len() as u32;
        self.inherits.push(what);
        fd
    }

    /// Makes a descriptor a file that QEMU can open, by the name that is
    /// answered.
    fn file_of(&mut self, fd: u32) -> String {
        self.option("-add-fd", format!("fd={fd},set={fd}"));
        format!("/dev/fdset/{fd}")
    }

    fn base(&mut self, spec: &VmSpec, host: &Host) {
        self.option("-name", format!("guest={}", spec.name.as_str()));
        self.flag("-nodefaults");
        self.flag("-no-user-config");
        self.option("-display", "none");
        self.option("-monitor", "none");
        if host.sandbox {
            self.option("-sandbox", SANDBOX);
        }
        let reboot = match spec.on_reboot {
            OnReboot::Restart => "reset",
            OnReboot::Exit => "shutdown",
        };
        self.option("-action", format!("reboot={reboot},shutdown=poweroff"));
    }

    fn board(&mut self, spec: &VmSpec, kvm: bool) {
        let mut machine = match spec.machine {
            Machine::Auto | Machine::Q35 => "q35,usb=off,vmport=off,smbus=off,sata=off",
            // ACPI for the power button and to find devices by; PCI so that
            // they are the same devices as on the other board.
            Machine::Microvm => "microvm,acpi=on,pcie=on,rtc=on,pit=on,pic=on",
        }
        .to_owned();
        machine += ",dump-guest-core=off";
        if let Boot::Disk(_) = spec.boot {
            // Shows the firmware and the boot loader on the serial console.
            machine += ",graphics=off";
        }
        self.option("-machine", machine);
        if kvm {
            self.option("-accel", "kvm");
            self.option("-cpu", "host");
        } else {
            self.option("-accel", format!("tcg,thread=multi,tb-size={TCG_CODE}"));
            self.option("-cpu", "max");
        }
        self.option("-smp", format!("cpus={}", spec.cpus));
        self.option("-m", format!("size={}M", spec.memory / MIB));
    }

    /// Neither waits for a client. The console's socket is also its log: what a
    /// client reads or misses, stdout has.
    fn sockets(&mut self) {
        let qmp = self.inherit(Inherited::Qmp);
        let socket = |id: &str, fd: u32| format!("socket,id={id},fd={fd},server=on,wait=off");
        self.option("-chardev", socket("qmp0", qmp));
        self.option("-mon", "chardev=qmp0,mode=control");
        let console = self.inherit(Inherited::Console);
        let log = self.file_of(LOG_FD);
        let socket = socket("console0", console);
        self.option("-chardev", format!("{socket},logfile={log},logappend=on"));
        self.option("-serial", "chardev:console0");
    }

    fn boot(&mut self, boot: &Boot, kvm: bool) -> Result<()> {
        let Boot::Kernel {
            kernel,
            initrd,
            cmdline,
        } = boot
        else {
            self.option("-boot", "strict=on");
            return Ok(());
        };
        self.option("-kernel", text(kernel)?);
        if let Some(initrd) = initrd {
            // A comma would begin the next file: only for multiboot kernels.
            self.option("-initrd", text(initrd)?);
        }
        let names_console = cmdline
            .split_whitespace()
            .any(|word| word.starts_with("console="));
        let cmdline = match (names_console, cmdline.is_empty()) {
            (true, _) => cmdline.clone(),
            (false, true) => "console=ttyS0".to_owned(),
            // First: what stands behind two dashes goes to the init.
            (false, false) => format!("console=ttyS0 {cmdline}"),
        };
        // The kernel counts interrupts for some milliseconds at its start, and
        // panics where emulation on a busy host has delivered none of them. It
        // omits that by itself under KVM.
        let cmdline = match kvm {
            true => cmdline,
            false => format!("no_timer_check {cmdline}"),
        };
        self.option("-append", cmdline);
        Ok(())
    }

    fn network(&mut self, network: &Network) {
        match &network.tap {
            Tap::Inherited => {
                let fd = self.inherit(Inherited::Tap);
                self.option("-netdev", format!("tap,id=net0,fd={fd}"));
            }
            Tap::Named(name) => {
                self.option(
                    "-netdev",
                    format!("tap,id=net0,ifname={name},script=no,downscript=no"),
                );
            }
        }
        // Without a boot ROM, which is in a package of its own.
        self.option(
            "-device",
            format!(
                "virtio-net-pci,netdev=net0,mac={},romfile=,addr={NETWORK_SLOT:#x}",
                network.mac
            ),
        );
    }

    fn helpers(&mut self) {
        self.option("-object", "rng-builtin,id=rng0");
        let random = format!("virtio-rng-pci,rng=rng0,addr={RANDOM_SLOT:#x}");
        self.option("-device", random);
        // Gives memory that the guest freed back to the host.
        let balloon = "virtio-balloon-pci,id=balloon0,deflate-on-oom=on,free-page-reporting=on";
        self.option("-device", format!("{balloon},addr={BALLOON_SLOT:#x}"));
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| Error::invalid("path", format!("{} is not UTF-8", path.display())))
}

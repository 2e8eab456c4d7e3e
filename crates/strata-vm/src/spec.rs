//! The specification of a guest. Everything is checked here, at the border:
//! what [`VmSpec::check`] lets pass, the command line can be made from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strata_types::{Error, Label, Result};

use crate::MacAddress;

/// The smallest unit of memory that QEMU is given.
pub(crate) const MIB: u64 = 1 << 20;

/// The specification of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmSpec {
    /// Its name, for readers of the process list.
    pub name: Label,
    /// The board it sees.
    #[serde(default)]
    pub machine: Machine,
    /// How many cpus it sees.
    pub cpus: u32,
    /// Its memory in bytes, whole MiB.
    pub memory: u64,
    /// Where its first program comes from.
    pub boot: Boot,
    #[serde(default)]
    pub disks: Vec<Disk>,
    /// Its NIC; none without.
    #[serde(default)]
    pub network: Option<Network>,
    /// What runs its instructions.
    #[serde(default)]
    pub accel: Accel,
    /// What a reboot from inside does.
    #[serde(default)]
    pub on_reboot: OnReboot,
}

/// The board a guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// The one that always works: `q35`.
    #[default]
    Auto,
    /// QEMU's board without the past of the PC. A little quicker to boot, but
    /// without KVM some of its boots hang.
    Microvm,
    /// A PC with PCI Express.
    Q35,
}

/// Where the first program of a guest comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boot {
    /// From a disk, by its own boot loader.
    Disk(Disk),
    /// A Linux kernel that QEMU loads itself.
    Kernel {
        /// The kernel: a bzImage, or an ELF file with a PVH entry.
        kernel: PathBuf,
        /// Its first files.
        #[serde(default)]
        initrd: Option<PathBuf>,
        /// Its command line; `console=ttyS0` is added when it names no console.
        #[serde(default)]
        cmdline: String,
    },
}

/// A disk of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub path: PathBuf,
    /// What the file is. Never guessed at the start: a guest can write the
    /// beginning of its raw disk, and so make it look like anything.
    pub format: DiskFormat,
    /// The unchanged base that a copy-on-write file stands on.
    #[serde(default)]
    pub base: Option<Base>,
    /// The guest cannot change it.
    #[serde(default)]
    pub read_only: bool,
    /// How the guest sees it.
    #[serde(default)]
    pub bus: DiskBus,
}

/// The base of a copy-on-write disk: a file that no process changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    pub path: PathBuf,
    /// What the file is.
    pub format: DiskFormat,
}

/// What a disk's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFormat {
    /// The bytes of the disk and nothing else.
    Raw,
    /// QEMU's own format: grows as it is written, may stand on a base.
    Qcow2,
}

impl DiskFormat {
    /// As QEMU calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// How a guest sees a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskBus {
    /// `/dev/vda`: the quickest, what images for clouds expect.
    #[default]
    Virtio,
    /// `/dev/nvme0n1`: for guests whose kernel has no virtio built in.
    Nvme,
}

/// The NIC of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Its address on the wire; what a DHCP server knows the guest by.
    pub mac: MacAddress,
    /// The interface on our side.
    pub tap: Tap,
}

/// The interface on our side of a guest's NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tap {
    /// QEMU inherits an open one; see [`crate::Launch::inherits`].
    Inherited,
    /// QEMU opens this one, which is there already, in its own network
    /// namespace.
    Named(String),
}

/// What runs the instructions of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accel {
    /// KVM where it truly works, else TCG.
    #[default]
    Auto,
    Kvm,
    /// QEMU's translator: works everywhere, several times slower.
    Tcg,
}

/// What a reboot from inside does. Switching off always ends QEMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnReboot {
    /// The guest boots again, in the same process.
    #[default]
    Restart,
    /// QEMU ends: for guests that do one job, and for kernels with `panic=-1`.
    Exit,
}

impl VmSpec {
    pub const MAX_CPUS: u32 = 128;
    pub const MIN_MEMORY: u64 = 16 * MIB;
    pub const MAX_MEMORY: u64 = 4 << 40;
    /// The most further disks: each takes one of the slots of the board.
    pub const MAX_DISKS: usize = 16;
    /// The longest command line of a kernel: Linux takes no more.
    pub const MAX_CMDLINE: usize = 2047;

    pub fn check(&self) -> Result<()> {
        if !(1..=Self::MAX_CPUS).contains(&self.cpus) {
            let (cpus, most) = (self.cpus, Self::MAX_CPUS);
            return Err(Error::invalid(
                "cpus",
                format!("is {cpus}; 1 to {most} are allowed"),
            ));
        }
        check_memory(self.memory)?;
        match &self.boot {
            Boot::Disk(disk) => disk.check("boot.disk")?,
            Boot::Kernel {
                kernel,
                initrd,
                cmdline,
            } => {
                check_path("boot.kernel", kernel)?;
                if let Some(initrd) = initrd {
                    check_path("boot.initrd", initrd)?;
                }
                check_cmdline(cmdline)?;
            }
        }
        if self.disks.len() > Self::MAX_DISKS {
            let (count, most) = (self.disks.len(), Self::MAX_DISKS);
            return Err(Error::invalid(
                "disks",
                format!("are {count}; {most} are the most"),
            ));
        }
        for (number, disk) in self.disks.iter().enumerate() {
            disk.check(&format!("disks[{number}]"))?;
        }
        match self.network.as_ref().map(|network| &network.tap) {
            Some(Tap::Named(name)) => check_interface(name),
            Some(Tap::Inherited) | None => Ok(()),
        }
    }
}

impl Disk {
    /// A disk with a file and nothing special.
    pub fn new(path: impl Into<PathBuf>, format: DiskFormat) -> Self {
        Self {
            path: path.into(),
            format,
            base: None,
            read_only: false,
            bus: DiskBus::default(),
        }
    }

    /// A copy-on-write disk as [`crate::clone_disk`] makes it.
    pub fn clone_of(
        path: impl Into<PathBuf>,
        base: impl Into<PathBuf>,
        format: DiskFormat,
    ) -> Self {
        Self {
            base: Some(Base {
                path: base.into(),
                format,
            }),
            ..Self::new(path, DiskFormat::Qcow2)
        }
    }

    fn check(&self, field: &str) -> Result<()> {
        check_path(&format!("{field}.path"), &self.path)?;
        let Some(base) = &self.base else {
            return Ok(());
        };
        if self.format != DiskFormat::Qcow2 {
            let why = "only a qcow2 disk can stand on a base";
            return Err(Error::invalid(format!("{field}.base"), why));
        }
        check_path(&format!("{field}.base.path"), &base.path)
    }
}

fn check_memory(memory: u64) -> Result<()> {
    let invalid = |why: String| Err(Error::invalid("memory", why));
    if !(VmSpec::MIN_MEMORY..=VmSpec::MAX_MEMORY).contains(&memory) {
        return invalid(format!("is {memory} bytes; 16 MiB to 4 TiB are allowed"));
    }
    if !memory.is_multiple_of(MIB) {
        return invalid(format!("is {memory} bytes; it must be whole MiB"));
    }
    Ok(())
}

/// QEMU is started in another directory than we are, and words are text.
fn check_path(field: &str, path: &Path) -> Result<()> {
    let Some(text) = path.to_str() else {
        return Err(Error::invalid(field, "is not UTF-8"));
    };
    if !path.is_absolute() {
        let why = format!("{text:?} is not an absolute path");
        return Err(Error::invalid(field, why));
    }
    if text.contains('\0') {
        return Err(Error::invalid(field, "has a NUL character in it"));
    }
    Ok(())
}

fn check_cmdline(cmdline: &str) -> Result<()> {
    let field = "boot.cmdline";
    if cmdline.len() > VmSpec::MAX_CMDLINE {
        let (length, most) = (cmdline.len(), VmSpec::MAX_CMDLINE);
        let why = format!("is {length} bytes long; {most} is the most");
        return Err(Error::invalid(field, why));
    }
    if cmdline.chars().any(char::is_control) {
        return Err(Error::invalid(field, "has a control character in it"));
    }
    Ok(())
}

/// As the kernel checks names of interfaces.
fn check_interface(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=15).contains(&name.len()) && name.chars().all(allowed);
    if !fits || name.starts_with('.') {
        let why = format!("{name:?} is not a name of an interface (1 to 15 of a-z, 0-9, - _ .)");
        return Err(Error::invalid("network.tap", why));
    }
    Ok(())
}

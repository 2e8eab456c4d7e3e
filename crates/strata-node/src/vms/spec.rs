//! The specification of a virtual machine.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_api::strata::v1;
use strata_api::strata::v1::vm_spec::Boot as WireBoot;
use strata_api::{grace_from_field, pod_fields};
use strata_types::instance::VM_DEFAULT_MEMORY;
use strata_types::pod::{PodName, PortMapping, RestartPolicy};
use strata_types::{Error, Label, Result};
use strata_vm::{Accel, Machine};

use crate::network::name_of;

const MIB: u64 = 1 << 20;
/// A quota of the kernel is at least one millisecond of a hundred.
const MIN_CPU_MILLIS: u32 = 10;
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// The specification of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmUnitSpec {
    pub(crate) name: PodName,
    pub(crate) cpus: u32,
    /// Thousandths of a core; none in records from before there was a limit.
    #[serde(default)]
    pub(crate) cpu_millis: Option<u32>,
    pub(crate) memory: u64,
    pub(crate) boot: VmBoot,
    pub(crate) disks: Vec<VmDisk>,
    pub(crate) machine: Machine,
    pub(crate) accel: Accel,
    pub(crate) network: bool,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) ports: Vec<PortMapping>,
    pub(crate) restart: RestartPolicy,
    pub(crate) stop_grace: Duration,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) user_data: String,
}

/// Where its first program comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VmBoot {
    /// A clone of this image, which appears so large; as the image with 0.
    Image { path: PathBuf, bytes: u64 },
    Kernel {
        kernel: PathBuf,
        initrd: Option<PathBuf>,
        cmdline: String,
    },
}

/// A further disk: a clone of an image, an empty one, or a volume of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VmDisk {
    pub(crate) image: Option<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) read_only: bool,
    #[serde(default)]
    pub(crate) pool: Option<Label>,
}

impl VmUnitSpec {
    /// How much of the host's cpus it may use, in thousandths of one.
    pub(crate) fn cpu_limit(&self) -> u64 {
        let all = self.cpus.saturating_mul(1000);
        u64::from(self.cpu_millis.unwrap_or(all).min(all))
    }

    /// The name it has for itself: what people call the instance that it is.
    pub(crate) fn host_name(&self) -> Label {
        name_of(&self.labels).unwrap_or_else(|| self.name.label().clone())
    }

    /// Volumes of the pool that it has, with the place of each in the list of
    /// disks and whether it only reads it.
    pub(crate) fn pool_disks(&self) -> impl Iterator<Item = (usize, &Label, bool)> {
        let disks = self.disks.iter().enumerate();
        disks.filter_map(|(i, disk)| Some((i, disk.pool.as_ref()?, disk.read_only)))
    }

    /// Files of this machine that it is made from.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let mut files: Vec<&Path> = match &self.boot {
            VmBoot::Image { path, .. } => vec![path],
            VmBoot::Kernel { kernel, initrd, .. } => {
                let initrd = initrd.as_deref();
                [Some(kernel.as_path()), initrd]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        files.extend(self.disks.iter().filter_map(|disk| disk.image.as_deref()));
        files
    }
}

impl VmUnitSpec {
    /// Whether something of what it writes outlives it.
    pub(crate) fn leaves_data(&self) -> bool {
        self.pool_disks().any(|(_, _, read_only)| !read_only)
    }
}

impl TryFrom<v1::VmSpec> for VmUnitSpec {
    type Error = Error;

    fn try_from(vm: v1::VmSpec) -> Result<Self> {
        let boot = match vm.boot {
            Some(WireBoot::Image(image)) => VmBoot::Image {
                path: path("vm.image", &image)?,
                bytes: vm.disk_bytes,
            },
            Some(WireBoot::Kernel(kernel)) => VmBoot::Kernel {
                initrd: match kernel.initrd.as_str() {
                    "" => None,
                    initrd => Some(path("vm.kernel.initrd", initrd)?),
                },
                kernel: path("vm.kernel.kernel", &kernel.kernel)?,
                cmdline: kernel.command_line,
            },
            None => {
                return Err(Error::invalid(
                    "vm.boot",
                    "is missing: an image or a kernel",
                ));
            }
        };
        let unit_spec = Self {
            name: PodName::from_field("vm.name", &vm.name)?,
            cpus: if vm.cpus == 0 { 1 } else { vm.cpus },
            cpu_millis: cpu_millis(vm.cpu_millis)?,
            memory: match vm.memory_bytes {
                0 => VM_DEFAULT_MEMORY,
                // Never more than was requested.
                bytes => bytes / MIB * MIB,
            },
            boot,
            disks: disks(vm.disks)?,
            machine: match v1::VmMachine::try_from(vm.machine) {
                Ok(v1::VmMachine::Auto) => Machine::Auto,
                Ok(v1::VmMachine::Q35) => Machine::Q35,
                Ok(v1::VmMachine::Microvm) => Machine::Microvm,
                Err(_) => return Err(Error::invalid("vm.machine", "is none of its values")),
            },
            accel: match v1::VmAccelerator::try_from(vm.accelerator) {
                Ok(v1::VmAccelerator::Auto) => Accel::Auto,
                Ok(v1::VmAccelerator::Kvm) => Accel::Kvm,
                Ok(v1::VmAccelerator::Tcg) => Accel::Tcg,
                Err(_) => return Err(Error::invalid("vm.accelerator", "is none of its values")),
            },
            network: !vm.no_network,
            address: pod_fields::address("vm.address", &vm.address)?,
            ports: pod_fields::parse_all("vm.ports", &vm.ports)?,
            restart: pod_fields::restart("vm.restart", vm.restart)?,
            stop_grace: match vm.stop_grace_ms {
                Some(ms) => grace_from_field("vm.stop_grace_ms", ms)?,
                None => DEFAULT_GRACE,
            },
            labels: vm.labels.into_iter().collect(),
            user_data: vm.user_data,
        };
        pod_fields::check_labels("vm.labels", &unit_spec.labels)?;
        unit_spec.check_network()?;
        Ok(unit_spec)
    }
}

impl VmUnitSpec {
    fn check_network(&self) -> Result<()> {
        if !self.network && (self.address.is_some() || !self.ports.is_empty()) {
            let why = "does not go with an address or ports";
            return Err(Error::invalid("vm.no_network", why));
        }
        for (i, port) in self.ports.iter().enumerate() {
            if self.ports[..i]
                .iter()
                .any(|other| other.collides_with(port))
            {
                let why = format!("publishes {}/{} twice", port.host_port, port.protocol);
                return Err(Error::invalid(format!("vm.ports[{i}]"), why));
            }
        }
        Ok(())
    }
}

fn cpu_millis(millis: u32) -> Result<Option<u32>> {
    match millis {
        0 => Ok(None),
        1..MIN_CPU_MILLIS => {
            let why = format!("is {millis}; {MIN_CPU_MILLIS} is the least");
            Err(Error::invalid("vm.cpu_millis", why))
        }
        _ => Ok(Some(millis)),
    }
}

fn path(field: &str, text: &str) -> Result<PathBuf> {
    if !text.starts_with('/') || text.contains('\0') || text.len() >= 4096 {
        let shown: String = text.chars().take(80).collect();
        let why = format!("{shown:?} is not an absolute path on the node's machine");
        return Err(Error::invalid(field, why));
    }
    Ok(text.into())
}

fn disks(disks: Vec<v1::VmDisk>) -> Result<Vec<VmDisk>> {
    let read = |(i, disk): (usize, v1::VmDisk)| {
        let field = |part: &str| format!("vm.disks[{i}].{part}");
        let pool = match disk.pool.as_str() {
            "" => None,
            _ if !disk.image.is_empty() || disk.bytes > 0 => {
                let why = "does not go with an image or a size: the volume has its own";
                return Err(Error::invalid(field("pool"), why));
            }
            name => Some(Label::from_field(&field("pool"), name)?),
        };
        let image = match disk.image.as_str() {
            "" if pool.is_some() => None,
            "" if disk.bytes == 0 => {
                let why = "must not be 0 without an image";
                return Err(Error::invalid(field("bytes"), why));
            }
            "" => None,
            image => Some(path(&field("image"), image)?),
        };
        Ok(VmDisk {
            image,
            bytes: disk.bytes,
            read_only: disk.read_only,
            pool,
        })
    };
    disks.into_iter().enumerate().map(read).collect()
}

impl From<&VmUnitSpec> for v1::VmSpec {
    fn from(unit_spec: &VmUnitSpec) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (boot, disk_bytes) = match &unit_spec.boot {
            VmBoot::Image { path, bytes } => (WireBoot::Image(text(path)), *bytes),
            VmBoot::Kernel {
                kernel,
                initrd,
                cmdline,
            } => {
                let kernel = v1::VmKernel {
                    kernel: text(kernel),
                    initrd: initrd.as_deref().map(text).unwrap_or_default(),
                    command_line: cmdline.clone(),
                };
                (WireBoot::Kernel(kernel), 0)
            }
        };
        Self {
            name: unit_spec.name.to_string(),
            cpus: unit_spec.cpus,
            cpu_millis: unit_spec.cpu_millis.unwrap_or(0),
            memory_bytes: unit_spec.memory,
            boot: Some(boot),
            disk_bytes,
            disks: unit_spec
                .disks
                .iter()
                .map(|disk| v1::VmDisk {
                    image: disk.image.as_deref().map(text).unwrap_or_default(),
                    bytes: disk.bytes,
                    read_only: disk.read_only,
                    pool: disk.pool.as_ref().map(Label::to_string).unwrap_or_default(),
                })
                .collect(),
            machine: match unit_spec.machine {
                Machine::Auto => v1::VmMachine::Auto,
                Machine::Q35 => v1::VmMachine::Q35,
                Machine::Microvm => v1::VmMachine::Microvm,
            }
            .into(),
            accelerator: match unit_spec.accel {
                Accel::Auto => v1::VmAccelerator::Auto,
                Accel::Kvm => v1::VmAccelerator::Kvm,
                Accel::Tcg => v1::VmAccelerator::Tcg,
            }
            .into(),
            no_network: !unit_spec.network,
            address: unit_spec.address.map(|a| a.to_string()).unwrap_or_default(),
            ports: unit_spec.ports.iter().map(ToString::to_string).collect(),
            restart: pod_fields::restart_to_wire(unit_spec.restart).into(),
            stop_grace_ms: u32::try_from(unit_spec.stop_grace.as_millis()).ok(),
            labels: unit_spec.labels.clone().into_iter().collect(),
            user_data: unit_spec.user_data.clone(),
        }
    }
}

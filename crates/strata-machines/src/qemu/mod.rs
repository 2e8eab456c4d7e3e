//! Virtual machines of a node (`runtime.Instances`) that boot our own kernel
//! and initramfs: whole machines, with a kernel of their own, on any host that
//! has QEMU.
//!
//! What a machine boots is in a directory of ours, named by its tag, so the node
//! has to be on the same host.
//!
//! A machine without a disk has its data in memory. Switched off and on again
//! it has lost its identity, and the token it joined with is used up: to come
//! back as a node it has to be booted, which gives it a new one.

mod files;

use std::path::PathBuf;

use strata_api::strata::v1::vm_spec::Boot as VmBoot;
use strata_api::strata::v1::{
    CreateVmRequest, DestroyVmRequest, GetVmRequest, ListVmsRequest, PodLogsRequest, PodState,
    RestartPolicy, StartVmRequest, StopVmRequest, Vm, VmDisk, VmKernel, VmSpec,
};
use strata_client::Target as Node;
use strata_types::machine::{PowerState, ProviderKind};

use crate::hosted::{Hosted, ObservedMachine};
use crate::hosting::{Hosting, console, tag_of, tagged};
use crate::image::NodeImages;
use crate::{Boot, Console, Discovered, ProviderError, Target};
use files::{Files, Made};

const MB: u64 = 1_000_000;
/// Memory of a machine whose specification names none, in MB.
const DEFAULT_RAM: u64 = 1024;
/// The kernel logs little, its errors go to the serial console, and a machine
/// whose kernel panics starts again.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1";

type Result<T> = std::result::Result<T, ProviderError>;

/// What a driver for virtual machines goes by.
#[derive(Clone, Debug)]
pub struct QemuConfig {
    /// A directory of its own, for what machines boot.
    pub directory: PathBuf,
    /// Where the kernel is; see [`crate::image::KernelDirectory::find`].
    pub kernel_folder: Option<PathBuf>,
    /// The `strata` binary that machines run: our own, as a rule.
    pub program: PathBuf,
    /// How machines reach the server: the address of the node's bridge, as a
    /// rule.
    pub server: Option<String>,
    /// How their nodes reach registries.
    pub images: NodeImages,
}

/// Virtual machines of a node.
#[derive(Clone, Debug)]
pub struct Qemu {
    node: Hosting,
    files: Files,
    server: Option<String>,
}

impl Qemu {
    /// Virtual machines of this node, which is on this host. It is connected
    /// to when it is needed.
    pub fn new(node: Node, config: QemuConfig) -> Self {
        Self {
            node: Hosting::new(node),
            server: config.server.clone(),
            files: Files::new(config),
        }
    }
}

/// The machine as it is requested from its node.
fn vm(machine: &Target, boot: &Boot, made: Made) -> VmSpec {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let disk = made.disk.map(|image| VmDisk {
        image: text(image),
        ..VmDisk::default()
    });
    let spec = &machine.spec;
    VmSpec {
        name: machine.handle().to_owned(),
        cpus: spec.cpu.unwrap_or(1),
        memory_bytes: spec.ram.unwrap_or(DEFAULT_RAM).saturating_mul(MB),
        boot: Some(VmBoot::Kernel(VmKernel {
            kernel: text(made.kernel),
            initrd: text(made.initrd),
            command_line: COMMAND_LINE.to_owned(),
        })),
        // Without a disk it could not come back as the node that it was.
        restart: match &disk {
            Some(_) => RestartPolicy::OnFailure,
            None => RestartPolicy::Never,
        }
        .into(),
        disks: disk.into_iter().collect(),
        labels: tagged(&boot.labels, &machine.tag),
        ..VmSpec::default()
    }
}

fn observed(vm: Vm) -> ObservedMachine {
    let power = match vm.state() {
        PodState::Running | PodState::Stopping => PowerState::On,
        // Its process may run already, or still.
        PodState::Starting | PodState::Destroying | PodState::Unspecified => PowerState::Unknown,
        _ => PowerState::Off,
    };
    let spec = vm.spec.unwrap_or_default();
    ObservedMachine {
        machine: Discovered {
            tag: tag_of(&spec.labels),
            hostname: Some(spec.name.clone()),
            handle: spec.name,
            power,
            cpu: Some(spec.cpus),
            ram: Some(spec.memory_bytes / MB),
        },
        address: vm.address,
    }
}

impl Hosted for Qemu {
    const KIND: ProviderKind = ProviderKind::Qemu;

    fn node(&self) -> &Hosting {
        &self.node
    }

    fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    async fn list(&self) -> Result<Vec<ObservedMachine>> {
        let request = ListVmsRequest {};
        let asked = self
            .node
            .request(async |node| node.vms().list(request).await);
        Ok(asked.await?.vms.into_iter().map(observed).collect())
    }

    async fn get(&self, handle: &str) -> Result<ObservedMachine> {
        let name = handle.to_owned();
        let request = GetVmRequest { name };
        let asked = self
            .node
            .request(async |node| node.vms().get(request).await);
        asked.await.map(observed)
    }

    async fn make(&self, machine: &Target, boot: &Boot) -> Result<()> {
        let made = self.files.make(machine, boot).await?;
        let request = CreateVmRequest {
            vm: Some(vm(machine, boot, made)),
            start: true,
        };
        let asked = self
            .node
            .request(async |node| node.vms().create(request).await);
        asked.await.map(drop)
    }

    /// The configuration of this boot takes the place of that of the last one.
    async fn reboot(&self, machine: &Target, boot: &Boot) -> Result<()> {
        self.files.make(machine, boot).await?;
        self.start(machine.handle()).await
    }

    async fn start(&self, handle: &str) -> Result<()> {
        let name = handle.to_owned();
        let request = StartVmRequest { name };
        let asked = self
            .node
            .request(async |node| node.vms().start(request).await);
        asked.await.map(drop)
    }

    async fn stop(&self, handle: &str) -> Result<()> {
        let request = StopVmRequest {
            name: handle.to_owned(),
            grace_ms: Some(0),
        };
        let asked = self
            .node
            .request(async |node| node.vms().stop(request).await);
        asked.await.map(drop)
    }

    async fn destroy(&self, handle: &str) -> Result<()> {
        let name = handle.to_owned();
        let request = DestroyVmRequest { name };
        let asked = self
            .node
            .request(async |node| node.vms().destroy(request).await);
        asked.await.map(drop)
    }

    /// The files may be there without the machine, and are ours in any case:
    /// their directory is named by the tag.
    async fn discard(&self, machine: &Target) -> Result<()> {
        self.files.remove(machine).await
    }

    async fn console(&self, handle: &str) -> Result<Console> {
        let request = PodLogsRequest {
            name: handle.to_owned(),
            follow: true,
            ..PodLogsRequest::default()
        };
        let asked = self
            .node
            .request(async |node| node.vms().logs(request).await);
        asked.await.map(console)
    }
}

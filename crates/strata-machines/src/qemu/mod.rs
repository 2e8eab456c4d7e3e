//! Virtual machines of a node (`runtime.Instances`) that boot our own kernel
//! and initramfs: whole machines, with a kernel of their own, on any host that
//! has QEMU.
//!
//! A machine is there from its first boot to its wipe; before and after, its
//! name is free, which counts as off. The tag is a label of the virtual
//! machine. What it boots is in a folder of ours, named by the tag, so the
//! node has to be on the same host.
//!
//! A machine without a disk has its data in memory. Switched off and on again
//! it has forgotten who it was, and the token it joined with is used up: to
//! come back as a node it has to be booted, which tells it a new one.

mod files;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_api::strata::v1::vm_spec::Boot as VmBoot;
use strata_api::strata::v1::{
    CreateVmRequest, DestroyVmRequest, GetVmRequest, ListVmsRequest, PodLogsRequest, PodState,
    RestartPolicy, StartVmRequest, StopVmRequest, Vm, VmDisk, VmKernel, VmSpec,
};
use strata_client::Target as Node;
use strata_types::machine::{PowerState, ProviderKind};

use crate::hosting::{Hosting, console, or_gone, tag_of, tagged};
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Tag, Target, Up};
use files::{Files, Made};

const MB: u64 = 1_000_000;
/// Memory of a machine of which nothing is said, in MB.
const DEFAULT_RAM: u64 = 1024;
/// The kernel says little, its errors go to the serial console, and a machine
/// whose kernel panics starts anew.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1";
/// How often a boot looks again when what it found has changed meanwhile.
const TRIES: usize = 3;
/// How long a machine may take until it runs, and how often that is looked at.
const RUNS_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

type Result<T> = std::result::Result<T, ProviderError>;

/// What a driver for virtual machines goes by.
#[derive(Clone, Debug)]
pub struct QemuConfig {
    /// A folder of its own, for what machines boot.
    pub folder: PathBuf,
    /// Where the kernel is; see [`crate::image::KernelFolder::find`].
    pub kernel_folder: Option<PathBuf>,
    /// The `strata` binary that machines run: our own, as a rule.
    pub program: PathBuf,
    /// How machines reach the server: the address of the node's bridge, as a
    /// rule.
    pub server: Option<String>,
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

    async fn get(&self, machine: &Target) -> Result<Option<Vm>> {
        let name = machine.handle().to_owned();
        let request = GetVmRequest { name };
        let asked = self.node.ask(async |node| node.vms().get(request).await);
        or_gone(asked.await)
    }

    /// One that is ours; none when there is none at all.
    async fn ours(&self, machine: &Target) -> Result<Option<Vm>> {
        let found = self.get(machine).await?;
        match found {
            Some(found) if tag(&found).as_ref() != Some(&machine.tag) => Err(taken(machine)),
            found => Ok(found),
        }
    }

    async fn boot(&self, machine: &Target, boot: &Boot) -> Result<()> {
        for _ in 0..TRIES {
            let found = self.ours(machine).await?;
            if found.as_ref().map(state) == Some(PowerState::On) {
                return Ok(());
            }
            let made = self.files.make(machine, boot).await?;
            let done = match found {
                Some(_) => or_gone(self.start(machine).await)?,
                None => match self.create(machine, boot, made).await {
                    // Somebody was faster, maybe an earlier call of ours.
                    Err(ProviderError::Taken(why)) => match self.ours(machine).await? {
                        Some(_) => None,
                        // The name is that of something else.
                        None => return Err(ProviderError::Taken(why)),
                    },
                    made => Some(made?),
                },
            };
            if done.is_some() {
                return Ok(());
            }
        }
        let handle = machine.handle();
        Err(ProviderError::Unavailable(format!(
            "{handle} comes and goes: somebody else is at it"
        )))
    }

    async fn create(&self, machine: &Target, boot: &Boot, made: Made) -> Result<()> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let disk = made.disk.map(|image| VmDisk {
            image: text(image),
            ..VmDisk::default()
        });
        let spec = &machine.spec;
        let vm = VmSpec {
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
        };
        let request = CreateVmRequest {
            vm: Some(vm),
            start: true,
        };
        let asked = self.node.ask(async |node| node.vms().create(request).await);
        asked.await.map(drop)
    }

    async fn start(&self, machine: &Target) -> Result<()> {
        let name = machine.handle().to_owned();
        let request = StartVmRequest { name };
        let asked = self.node.ask(async |node| node.vms().start(request).await);
        asked.await.map(drop)
    }

    /// Pulls the plug: whoever wants it to end in order sees to that before.
    async fn stop(&self, machine: &Target) -> Result<()> {
        let request = StopVmRequest {
            name: machine.handle().to_owned(),
            grace_ms: Some(0),
        };
        let asked = self.node.ask(async |node| node.vms().stop(request).await);
        asked.await.map(drop)
    }

    async fn wait(&self, machine: &Target) -> Result<Up> {
        let runs = async {
            loop {
                match self.ours(machine).await {
                    Ok(Some(found)) if state(&found) == PowerState::On => {
                        let address = Some(found.address).filter(|text| !text.is_empty());
                        return Ok(Up { address });
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => return Err(missing(machine)),
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error),
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let within = RUNS_WITHIN.as_secs();
        tokio::time::timeout(RUNS_WITHIN, runs)
            .await
            .unwrap_or_else(|_| {
                let handle = machine.handle();
                Err(ProviderError::Unavailable(format!(
                    "{handle} does not run after {within} s"
                )))
            })
    }

    async fn power(&self, machine: &Target, power: Power) -> Result<()> {
        match (self.ours(machine).await?, power) {
            (None, Power::Off) => Ok(()),
            (None, Power::On | Power::Cycle) => Err(missing(machine)),
            (Some(_), Power::On) => self.start(machine).await,
            (Some(_), Power::Off) => or_gone(self.stop(machine).await).map(drop),
            (Some(_), Power::Cycle) => {
                self.stop(machine).await?;
                self.start(machine).await
            }
        }
    }

    async fn wipe(&self, machine: &Target) -> Result<()> {
        match self.ours(machine).await {
            Ok(Some(_)) => {
                let name = machine.handle().to_owned();
                let request = DestroyVmRequest { name };
                let asked = self
                    .node
                    .ask(async |node| node.vms().destroy(request).await);
                or_gone(asked.await)?;
            }
            // The files may be there without the machine; they are ours.
            Ok(None) | Err(ProviderError::Taken(_)) => {}
            Err(error) => return Err(error),
        }
        self.files.remove(machine).await
    }

    async fn console(&self, machine: &Target) -> Result<Console> {
        self.ours(machine).await?.ok_or_else(|| missing(machine))?;
        let request = PodLogsRequest {
            name: machine.handle().to_owned(),
            follow: true,
            ..PodLogsRequest::default()
        };
        let asked = self.node.ask(async |node| node.vms().logs(request).await);
        asked.await.map(console)
    }

    async fn discover(&self) -> Result<Vec<Discovered>> {
        let asked = self
            .node
            .ask(async |node| node.vms().list(ListVmsRequest {}).await);
        Ok(asked.await?.vms.into_iter().map(discovered).collect())
    }
}

fn discovered(vm: Vm) -> Discovered {
    let (tag, power) = (tag(&vm), state(&vm));
    let spec = vm.spec.unwrap_or_default();
    Discovered {
        handle: spec.name,
        tag,
        power,
        cpu: Some(spec.cpus),
        ram: Some(spec.memory_bytes / MB),
    }
}

fn tag(vm: &Vm) -> Option<Tag> {
    vm.spec.as_ref().and_then(|spec| tag_of(&spec.labels))
}

fn state(vm: &Vm) -> PowerState {
    match vm.state() {
        PodState::Running | PodState::Stopping => PowerState::On,
        _ => PowerState::Off,
    }
}

fn taken(machine: &Target) -> ProviderError {
    let handle = machine.handle();
    ProviderError::Taken(format!(
        "there is a virtual machine {handle} already that was made by somebody else"
    ))
}

fn missing(machine: &Target) -> ProviderError {
    let handle = machine.handle();
    ProviderError::NoSuchMachine(format!(
        "there is no virtual machine {handle}: boot it first"
    ))
}

impl Provider for Qemu {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Qemu
    }

    fn server_seen_from_machines(&self) -> Option<String> {
        self.server.clone()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>>> {
        self.node.bounded(self.discover())
    }

    fn boot<'a>(&'a self, machine: &'a Target, boot: &'a Boot) -> BoxFuture<'a, Result<()>> {
        self.node.bounded(self.boot(machine, boot))
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up>> {
        self.wait(machine).boxed()
    }

    fn power<'a>(&'a self, machine: &'a Target, power: Power) -> BoxFuture<'a, Result<()>> {
        self.node.bounded(self.power(machine, power))
    }

    fn power_state<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<PowerState>> {
        self.node.bounded(async {
            let found = self.get(machine).await?;
            Ok(found.as_ref().map_or(PowerState::Off, state))
        })
    }

    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<()>> {
        self.node.bounded(self.wipe(machine))
    }

    fn console<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Console>> {
        self.node.bounded(self.console(machine))
    }
}

//! Virtual machines, end to end: QEMU guests on a daemon of their own, on the
//! bridge of a network namespace of its own.

mod disks;
mod spec_validation;
mod vm_lifecycle;

use std::time::Duration;

use strata_testkit::guest::{Guest, kernel, small_initramfs};
use strata_testkit::v1::vm_spec::Boot;
use strata_testkit::v1::{
    CreateVmRequest, GetVmRequest, PodLogsRequest, PodState, StopVmRequest, Vm, VmKernel, VmSpec,
};
use strata_testkit::{Daemon, NetworkNamespace, Node, Status, skip, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// How long a guest may take to boot on a busy machine without KVM.
const BOOT: Duration = Duration::from_secs(120);

/// A daemon in a network of its own.
struct World {
    node: Node,
    daemon: Daemon,
    network: NetworkNamespace,
}

/// None where guests cannot run.
async fn world() -> Option<World> {
    world_with("").await
}

async fn world_with(config: &str) -> Option<World> {
    if let Some(why) = Guest::lacks() {
        skip(why);
        return None;
    }
    let network = NetworkNamespace::new();
    let daemon = Daemon::build(STRATA)
        .config(config)
        .within(&network)
        .start()
        .await;
    let node = daemon.node().await;
    Some(World {
        node,
        daemon,
        network,
    })
}

impl World {
    /// A guest that runs a shell script once it is up.
    fn guest(&self, name: &str, script: &str) -> VmSpec {
        let initrd = self.daemon.scratch().join(format!("{name}.initramfs"));
        small_initramfs(&initrd, script).expect("an initramfs can be written");
        VmSpec {
            name: name.into(),
            memory_bytes: 192 << 20,
            boot: Some(Boot::Kernel(VmKernel {
                kernel: kernel().to_string_lossy().into_owned(),
                initrd: initrd.to_string_lossy().into_owned(),
                command_line: "console=ttyS0 quiet panic=-1".into(),
            })),
            ..VmSpec::default()
        }
    }

    async fn run(&self, vm: VmSpec) -> Result<Vm, Status> {
        let request = CreateVmRequest {
            vm: Some(vm),
            start: true,
        };
        let answer = self.node.client().vms().create(request).await?;
        Ok(answer.into_inner())
    }

    async fn get(&self, name: &str) -> Vm {
        let request = GetVmRequest { name: name.into() };
        let answer = self.node.client().vms().get(request).await;
        answer.expect("the machine is there").into_inner()
    }

    async fn stop(&self, name: &str, grace_ms: u32) -> Vm {
        let request = StopVmRequest {
            name: name.into(),
            grace_ms: Some(grace_ms),
        };
        let answer = self.node.client().vms().stop(request).await;
        answer.expect("a machine can be stopped").into_inner()
    }

    /// Waits until a line with this in it is on the console; the line.
    async fn says(&self, name: &str, text: &str) -> String {
        let request = PodLogsRequest {
            name: name.into(),
            follow: true,
            ..PodLogsRequest::default()
        };
        let answer = self.node.client().vms().logs(request).await;
        let mut lines = answer.expect("a console has a log").into_inner();
        let mut seen = Vec::new();
        let search = async {
            while let Ok(Some(line)) = lines.message().await {
                let line = String::from_utf8_lossy(&line.line).into_owned();
                if line.contains(text) {
                    return Some(line);
                }
                seen.push(line);
            }
            None
        };
        let found = tokio::time::timeout(BOOT, search).await.ok().flatten();
        found.unwrap_or_else(|| panic!("{text:?} is not in {seen:#?}"))
    }

    async fn becomes(&self, name: &str, state: PodState) -> Vm {
        wait_for("the machine's state", BOOT, async || {
            let vm = self.get(name).await;
            match vm.state() == state {
                true => Ok(vm),
                false => Err(format!("{:?}: {}", vm.state(), vm.reason)),
            }
        })
        .await
    }
}

//! Machines inside a machine that runs a node (`runtime.Spawn`): a node daemon
//! as PID 1, with a root, a network and a cgroup subtree of its own. They cost
//! a fraction of a second and no hardware, so a whole fleet fits on one host.

use strata_api::strata::v1::{
    CreateMachineRequest, DestroyMachineRequest, GetMachineRequest, ListMachinesRequest, Machine,
    MachineLogsRequest, MachineSpec, StartMachineRequest, StopMachineRequest,
};
use strata_client::Target as Node;
use strata_types::machine::{PowerState, ProviderKind};

use crate::hosted::{Hosted, ObservedMachine};
use crate::hosting::{Hosting, console, tag_of, tagged};
use crate::{Boot, Console, Discovered, ProviderError, Target};

const MB: u64 = 1_000_000;

type Result<T> = std::result::Result<T, ProviderError>;

/// Nested nodes of a node.
#[derive(Clone, Debug)]
pub struct Local {
    node: Hosting,
    server: Option<String>,
}

impl Local {
    /// Machines of this node. It is connected to when it is needed.
    pub fn new(node: Node) -> Self {
        Self {
            node: Hosting::new(node),
            server: None,
        }
    }

    /// How its machines reach the server: the address of the node's bridge, as
    /// a rule, for they see no loopback but their own.
    #[must_use]
    pub fn with_server(self, server: impl Into<String>) -> Self {
        Self {
            server: Some(server.into()),
            ..self
        }
    }
}

fn observed(machine: Machine) -> ObservedMachine {
    let spec = machine.spec.unwrap_or_default();
    let power = match machine.running {
        true => PowerState::On,
        false => PowerState::Off,
    };
    ObservedMachine {
        machine: Discovered {
            tag: tag_of(&spec.labels),
            hostname: Some(spec.name.clone()),
            handle: spec.name,
            power,
            cpu: spec.cpu_millis.map(|millis| millis.div_ceil(1000)),
            ram: spec.memory_bytes.map(|bytes| bytes / MB),
        },
        address: machine.address,
    }
}

impl Hosted for Local {
    const KIND: ProviderKind = ProviderKind::Local;

    fn node(&self) -> &Hosting {
        &self.node
    }

    fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    async fn list(&self) -> Result<Vec<ObservedMachine>> {
        let request = ListMachinesRequest {};
        let asked = self
            .node
            .request(async |node| node.spawn().list(request).await);
        Ok(asked.await?.machines.into_iter().map(observed).collect())
    }

    async fn get(&self, handle: &str) -> Result<ObservedMachine> {
        let name = handle.to_owned();
        let request = GetMachineRequest { name };
        let asked = self
            .node
            .request(async |node| node.spawn().get(request).await);
        asked.await.map(observed)
    }

    async fn make(&self, machine: &Target, boot: &Boot) -> Result<()> {
        let spec = &machine.spec;
        let spec = MachineSpec {
            name: machine.handle().to_owned(),
            cpu_millis: spec.cpu.map(|threads| threads.saturating_mul(1000)),
            memory_bytes: spec.ram.map(|mb| mb.saturating_mul(MB)),
            address: String::new(),
            server: boot.server.clone(),
            join_token: boot.join_token.expose().to_owned(),
            labels: tagged(&boot.labels, &machine.tag),
            node_name: machine.id().to_string(),
        };
        let request = CreateMachineRequest {
            machine: Some(spec),
        };
        let asked = self
            .node
            .request(async |node| node.spawn().create(request).await);
        asked.await.map(drop)
    }

    /// It has joined before, and needs no token for it.
    async fn reboot(&self, machine: &Target, _: &Boot) -> Result<()> {
        self.start(machine.handle()).await
    }

    async fn start(&self, handle: &str) -> Result<()> {
        let name = handle.to_owned();
        let request = StartMachineRequest { name };
        let asked = self
            .node
            .request(async |node| node.spawn().start(request).await);
        asked.await.map(drop)
    }

    async fn stop(&self, handle: &str) -> Result<()> {
        let request = StopMachineRequest {
            name: handle.to_owned(),
            grace_ms: Some(0),
        };
        let asked = self
            .node
            .request(async |node| node.spawn().stop(request).await);
        asked.await.map(drop)
    }

    async fn destroy(&self, handle: &str) -> Result<()> {
        let name = handle.to_owned();
        let request = DestroyMachineRequest { name };
        let asked = self
            .node
            .request(async |node| node.spawn().destroy(request).await);
        asked.await.map(drop)
    }

    async fn discard(&self, _: &Target) -> Result<()> {
        Ok(())
    }

    async fn console(&self, handle: &str) -> Result<Console> {
        let request = MachineLogsRequest {
            name: handle.to_owned(),
            follow: true,
            tail: None,
        };
        let asked = self
            .node
            .request(async |node| node.spawn().logs(request).await);
        asked.await.map(console)
    }
}

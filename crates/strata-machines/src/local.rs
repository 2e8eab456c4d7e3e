//! Machines inside a machine that runs a node (`runtime.Spawn`): a node daemon
//! as PID 1, with a root, a network and a cgroup subtree of its own. They cost
//! a fraction of a second and no hardware, so a whole fleet fits on one host.
//!
//! A machine is there from its first boot to its wipe; before and after, its
//! name is free, which counts as off. The tag is a label of the machine.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_api::strata::v1::{
    CreateMachineRequest, DestroyMachineRequest, GetMachineRequest, ListMachinesRequest, Machine,
    MachineLogsRequest, MachineSpec, StartMachineRequest, StopMachineRequest,
};
use strata_client::Target as Node;
use strata_types::machine::{PowerState, ProviderKind};

use crate::hosting::{Hosting, console, or_gone, tag_of, tagged};
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Tag, Target, Up};

const MB: u64 = 1_000_000;
/// How often a boot looks again when what it found has changed meanwhile.
const TRIES: usize = 3;
/// How long a machine may take until it runs, and how often that is looked at.
const RUNS_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

type Result<T> = std::result::Result<T, ProviderError>;

/// Machines inside the machine of a node.
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
    pub fn with_server(self, server: impl Into<String>) -> Self {
        Self {
            server: Some(server.into()),
            ..self
        }
    }

    async fn get(&self, machine: &Target) -> Result<Option<Machine>> {
        let name = machine.handle().to_owned();
        let asked = self.node.ask(async |node| {
            let request = GetMachineRequest { name };
            node.spawn().get(request).await
        });
        or_gone(asked.await)
    }

    /// One that is ours; none when there is none at all.
    async fn ours(&self, machine: &Target) -> Result<Option<Machine>> {
        let found = self.get(machine).await?;
        match found {
            Some(found) if tag(&found).as_ref() != Some(&machine.tag) => Err(taken(machine)),
            found => Ok(found),
        }
    }

    async fn boot(&self, machine: &Target, boot: &Boot) -> Result<()> {
        for _ in 0..TRIES {
            let done = match self.ours(machine).await? {
                Some(found) if found.running => return Ok(()),
                // It has joined before and needs no token for it.
                Some(_) => or_gone(self.start(machine).await)?,
                None => match self.create(machine, boot).await {
                    // Somebody was faster, maybe an earlier call of ours.
                    Err(ProviderError::Taken(why)) => match self.ours(machine).await? {
                        Some(_) => None,
                        // The name is that of something else than a machine.
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

    async fn create(&self, machine: &Target, boot: &Boot) -> Result<()> {
        let spec = &machine.spec;
        let request = CreateMachineRequest {
            machine: Some(MachineSpec {
                name: machine.handle().to_owned(),
                cpu_millis: spec.cpu.map(|threads| threads.saturating_mul(1000)),
                memory_bytes: spec.ram.map(|mb| mb.saturating_mul(MB)),
                address: String::new(),
                server: boot.server.clone(),
                join_token: boot.join_token.expose().to_owned(),
                labels: tagged(&boot.labels, &machine.tag),
                node_name: machine.id().to_string(),
            }),
        };
        let asked = self
            .node
            .ask(async |node| node.spawn().create(request).await);
        asked.await.map(drop)
    }

    async fn start(&self, machine: &Target) -> Result<()> {
        let name = machine.handle().to_owned();
        let request = StartMachineRequest { name };
        let asked = self
            .node
            .ask(async |node| node.spawn().start(request).await);
        asked.await.map(drop)
    }

    /// At once: whoever wants it to end in order sees to that before.
    async fn stop(&self, machine: &Target) -> Result<()> {
        let request = StopMachineRequest {
            name: machine.handle().to_owned(),
            grace_ms: Some(0),
        };
        let asked = self.node.ask(async |node| node.spawn().stop(request).await);
        asked.await.map(drop)
    }

    async fn wait(&self, machine: &Target) -> Result<Up> {
        let runs = async {
            loop {
                match self.ours(machine).await {
                    Ok(Some(found)) if found.running => {
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
        tokio::time::timeout(RUNS_WITHIN, runs)
            .await
            .unwrap_or_else(|_| {
                let (handle, within) = (machine.handle(), RUNS_WITHIN.as_secs());
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
            Ok(Some(_)) => {}
            Ok(None) | Err(ProviderError::Taken(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
        or_gone(self.stop(machine).await)?;
        let name = machine.handle().to_owned();
        let request = DestroyMachineRequest { name };
        let asked = self
            .node
            .ask(async |node| node.spawn().destroy(request).await);
        or_gone(asked.await).map(drop)
    }

    async fn console(&self, machine: &Target) -> Result<Console> {
        self.ours(machine).await?.ok_or_else(|| missing(machine))?;
        let request = MachineLogsRequest {
            name: machine.handle().to_owned(),
            follow: true,
            tail: None,
        };
        let asked = self.node.ask(async |node| node.spawn().logs(request).await);
        asked.await.map(console)
    }

    async fn discover(&self) -> Result<Vec<Discovered>> {
        let asked = self
            .node
            .ask(async |node| node.spawn().list(ListMachinesRequest {}).await);
        let all = asked.await?.machines;
        Ok(all.into_iter().map(discovered).collect())
    }
}

fn discovered(machine: Machine) -> Discovered {
    let (tag, power) = (tag(&machine), state(&machine));
    let spec = machine.spec.unwrap_or_default();
    Discovered {
        handle: spec.name,
        tag,
        power,
        cpu: spec.cpu_millis.map(|millis| millis.div_ceil(1000)),
        ram: spec.memory_bytes.map(|bytes| bytes / MB),
    }
}

fn tag(machine: &Machine) -> Option<Tag> {
    machine.spec.as_ref().and_then(|spec| tag_of(&spec.labels))
}

fn state(machine: &Machine) -> PowerState {
    match machine.running {
        true => PowerState::On,
        false => PowerState::Off,
    }
}

fn taken(machine: &Target) -> ProviderError {
    let handle = machine.handle();
    ProviderError::Taken(format!(
        "there is a machine {handle} already that was made by somebody else"
    ))
}

fn missing(machine: &Target) -> ProviderError {
    let handle = machine.handle();
    ProviderError::NoSuchMachine(format!("there is no machine {handle}: boot it first"))
}

impl Provider for Local {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Local
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

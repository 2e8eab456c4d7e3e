//! Nested nodes: a daemon in a network namespace of its own,
//! the machines it spawned, and clients to their nodes. Two of them are a
//! world of two nodes on one host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_api::strata::v1::{
    CreateMachineRequest, DestroyMachineRequest, GetMachineRequest, GetNodeInfoRequest,
    ListMachinesRequest, Machine, MachineSpec,
};
use strata_client::{NodeClient, Target};
use strata_identity::Credentials;
use tonic::Status;

use crate::namespace_proxy::NamespaceProxy;
use crate::{Daemon, NetworkNamespace, Node, wait_for};

type Result<T> = std::result::Result<T, Status>;

/// How long a node inside may take to answer, on a busy host.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A machine with nothing set but its name.
pub fn machine(name: &str) -> MachineSpec {
    MachineSpec {
        name: name.into(),
        ..MachineSpec::default()
    }
}

impl Node {
    /// Makes a machine; answers once its node answers.
    pub async fn spawn(&self, machine: MachineSpec) -> Result<Machine> {
        let request = CreateMachineRequest {
            machine: Some(machine),
        };
        Ok(self.client().spawn().create(request).await?.into_inner())
    }

    /// A machine as it is now.
    pub async fn machine(&self, name: &str) -> Result<Machine> {
        let request = GetMachineRequest { name: name.into() };
        Ok(self.client().spawn().get(request).await?.into_inner())
    }

    /// Every machine.
    pub async fn machines(&self) -> Result<Vec<Machine>> {
        let request = ListMachinesRequest {};
        let answer = self.client().spawn().list(request).await?;
        Ok(answer.into_inner().machines)
    }

    /// Ends a machine and takes everything of it away.
    pub async fn destroy_machine(&self, name: &str) -> Result<()> {
        let request = DestroyMachineRequest { name: name.into() };
        self.client().spawn().destroy(request).await.map(drop)
    }

    /// Waits until a machine meets the condition.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn machine_until(&self, name: &str, wanted: impl Fn(&Machine) -> bool) -> Machine {
        wait_for("the machine", READY_TIMEOUT, async || {
            let machine = self.machine(name).await.map_err(|e| e.to_string())?;
            match wanted(&machine) {
                true => Ok(machine),
                false => Err(format!("{machine:?}")),
            }
        })
        .await
    }
}

/// A daemon in a network of its own, around the machines that it spawns.
#[derive(Debug)]
pub struct HostDaemon {
    /// The daemon.
    pub daemon: Daemon,
    /// Where it is, and the bridge of its machines.
    pub network: NetworkNamespace,
}

impl HostDaemon {
    /// Starts one with defaults.
    pub async fn start(binary: impl Into<PathBuf>) -> Self {
        Self::start_with(binary, "").await
    }

    /// Starts one with a text for `--config`.
    pub async fn start_with(binary: impl Into<PathBuf>, config: &str) -> Self {
        let network = NetworkNamespace::new();
        let builder = Daemon::build(binary).config(config).within(&network);
        Self {
            daemon: builder.start().await,
            network,
        }
    }

    /// A client to the daemon around.
    pub async fn node(&self) -> Node {
        self.daemon.node().await
    }

    /// Makes a machine and connects to its node.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn spawn(&self, spec: MachineSpec) -> NestedNode {
        let made = self.node().await.spawn(spec).await;
        self.reach(made.expect("a machine can be made")).await
    }

    /// Connects to the node of a machine over TLS, with the credentials of the
    /// daemon around, and waits until it answers.
    ///
    /// # Panics
    /// When it does not.
    pub async fn reach(&self, machine: Machine) -> NestedNode {
        let far = machine.endpoint.strip_prefix("https://");
        let far: SocketAddr = far
            .and_then(|far| far.parse().ok())
            .expect("a machine has an endpoint");
        let way = NamespaceProxy::to(&self.network, far).await;
        let dir = self.daemon.data_dir().join("client");
        let target = Target::Tls {
            // Its certificate names the loopback as well.
            address: format!("https://{}", way.near())
                .parse()
                .expect("an address is one"),
            credentials: Credentials::read(&dir).expect("the daemon has served"),
        };
        let node = wait_for("the node of a machine", READY_TIMEOUT, async || {
            let client = NodeClient::connect(&target).await;
            let client = client.map_err(|error| error.to_string())?;
            let answer = client.node().get_info(GetNodeInfoRequest {}).await;
            answer.map_err(|status| status.to_string())?;
            Ok(Node::new(client))
        })
        .await;
        NestedNode {
            disk: self.disk(&machine),
            machine,
            node,
            _way: way,
        }
    }

    fn disk(&self, machine: &Machine) -> PathBuf {
        let dirs = self.daemon.data_dir().join("node/_machines/folders");
        dirs.join(&machine.id).join("lib")
    }
}

/// A machine, and a client to its node.
pub struct NestedNode {
    /// As it was when it was made or last reached.
    pub machine: Machine,
    /// Its node, over TLS.
    pub node: Node,
    disk: PathBuf,
    _way: NamespaceProxy,
}

impl NestedNode {
    /// Its `/var/lib`, seen from outside.
    pub fn disk(&self) -> &Path {
        &self.disk
    }

    /// An image of busybox on its disk, as its node names it.
    pub fn busybox(&self) -> String {
        let layout = crate::images::busybox_layout(&self.disk);
        layout.replace(&*self.disk.to_string_lossy(), "/var/lib")
    }
}

/// Two nodes on one host.
pub struct TwoNodes {
    /// The machine `one`.
    pub one: NestedNode,
    /// The machine `two`.
    pub two: NestedNode,
    /// What is around them.
    pub outside: HostDaemon,
}

impl TwoNodes {
    /// Starts a daemon and two machines in it.
    pub async fn start(binary: impl Into<PathBuf>) -> Self {
        let outside = HostDaemon::start(binary).await;
        let (one, two) =
            tokio::join!(outside.spawn(machine("one")), outside.spawn(machine("two")),);
        Self { one, two, outside }
    }
}

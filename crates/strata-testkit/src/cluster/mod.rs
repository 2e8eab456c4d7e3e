//! A cluster on one machine: a server and some nodes, each the real binary in
//! a network namespace of its own, joined by a switch that can be cut.
//!
//! ```no_run
//! # async fn x(binary: &str) {
//! use strata_testkit::cluster::Cluster;
//! let cluster = Cluster::build(binary).nodes(2).start().await;
//! let mut web = cluster.create(cluster.instance("web")).await.unwrap();
//! web.until_running().await;
//! # }
//! ```

mod etcd;
mod images;
mod look;
mod network;
mod requests;
mod rest;
mod seed;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_client::{Error, ServerClient, Target};
use strata_identity::Credentials;

use crate::namespace_proxy::NamespaceProxy;
use crate::{Cli, Daemon, Host, NetworkNamespace, Node, wait_for};

pub use etcd::Etcd;
pub use images::scripted;
pub use look::Running;
pub use network::{Plug, Switch};
pub use requests::{ObservedState, Updates, port};
pub use rest::Rest;
pub use seed::{SeedNode, SeedStream};

/// How long anything of a cluster may take on a machine busy with others.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(90);
const PORT: u16 = 7700;

/// What kind of cluster to start.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    binary: PathBuf,
    node_binary: Option<PathBuf>,
    nodes: u8,
    server_config: String,
    node_config: String,
    switch: Option<Switch>,
}

impl ClusterBuilder {
    /// On a switch with something on it already.
    #[must_use]
    pub fn on(mut self, switch: &Switch) -> Self {
        self.switch = Some(switch.clone());
        self
    }

    /// Has the nodes be of another release than the server.
    #[must_use]
    pub fn node_binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.node_binary = Some(binary.into());
        self
    }

    /// How many nodes it begins with; two by default.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// The text of the server's configuration, instead of a short lease and
    /// instances spread over the nodes.
    #[must_use]
    pub fn server_config(mut self, text: &str) -> Self {
        self.server_config = text.to_owned();
        self
    }

    /// The text of every node's configuration, instead of images that stay.
    #[must_use]
    pub fn node_config(mut self, text: &str) -> Self {
        self.node_config = text.to_owned();
        self
    }

    /// Starts it, and waits until every node follows the server.
    pub async fn start(self) -> Cluster {
        let switch = self.switch.clone().unwrap_or_default();
        let plug = switch.plug(1);
        let server = Daemon::build(&self.binary)
            .role("server")
            .config(&self.server_config)
            .listen(&format!("{}:{PORT}", plug.address))
            .within(&plug.network)
            .start()
            .await;
        let way = NamespaceProxy::to(&plug.network, (plug.address, PORT).into()).await;
        let image = scripted(&server.scratch());
        let mut cluster = Cluster {
            nodes: Vec::new(),
            builder: self,
            server,
            image,
            plug,
            switch,
            way,
        };
        for _ in 0..cluster.builder.nodes {
            cluster.add_node().await;
        }
        cluster
    }
}

/// A server and its nodes. Everything of them is gone when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes; `n1` is the first.
    pub nodes: Vec<Member>,
    /// The server.
    pub server: Daemon,
    /// The image that runs the `SCRIPT` in its environment.
    pub image: String,
    /// The server on the switch.
    pub plug: Plug,
    /// What joins them.
    pub switch: Switch,
    builder: ClusterBuilder,
    way: NamespaceProxy,
}

/// A node of a cluster.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its daemon.
    pub daemon: Daemon,
    /// It on the switch.
    pub plug: Plug,
}

impl Member {
    /// A client to the node itself, which works also when it is cut off.
    pub async fn node(&self) -> Node {
        self.daemon.node().await
    }

    /// Its network.
    pub fn network(&self) -> &NetworkNamespace {
        &self.plug.network
    }

    /// Where its traces are.
    pub fn host(&self) -> Host {
        self.daemon.host()
    }
}

impl Cluster {
    /// A cluster of this binary.
    pub fn build(binary: impl Into<PathBuf>) -> ClusterBuilder {
        ClusterBuilder {
            binary: binary.into(),
            node_binary: None,
            nodes: 2,
            server_config: "[scheduler]\nlease_seconds = 3\npolicy = \"spread\"\n".into(),
            // How full the disk is does not matter here.
            node_config: "[images]\nhigh_water = 100\n".into(),
            switch: None,
        }
    }

    /// Starts one with this many nodes.
    pub async fn start(binary: impl Into<PathBuf>, nodes: u8) -> Self {
        Self::build(binary).nodes(nodes).start().await
    }

    /// Where nodes and clients of the switch find the server.
    pub fn url(&self) -> String {
        format!("https://{}:{PORT}", self.plug.address)
    }

    /// One more node, joined with a token, that the server accepts.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn add_node(&mut self) {
        let config = self.builder.node_config.clone();
        self.add_node_with(&config).await;
    }

    /// The same with a configuration of its own.
    ///
    /// # Panics
    /// When it does not come to be.
    pub async fn add_node_with(&mut self, config: &str) {
        self.add(config, None).await;
    }

    /// One more node, with everything of it below this directory.
    pub async fn add_node_on(&mut self, disk: &Path) {
        let config = self.builder.node_config.clone();
        self.add(&config, Some(disk)).await;
    }

    async fn add(&mut self, config: &str, disk: Option<&Path>) {
        let number = u8::try_from(self.nodes.len() + 1).expect("few nodes");
        let name = format!("n{number}");
        let token = self.join_token(&name).await;
        let plug = self.switch.plug(10 + number);
        let binary = &self.builder.binary;
        let mut builder = Daemon::build(self.builder.node_binary.as_ref().unwrap_or(binary));
        if let Some(disk) = disk {
            builder = builder.on_disk(disk);
        }
        let daemon = builder
            .role("node")
            .config(config)
            .within(&plug.network)
            .arg("--server")
            .arg(self.url())
            .arg("--join-token")
            .arg(token)
            .arg("--name")
            .arg(&name)
            .start()
            .await;
        self.nodes.push(Member { name, daemon, plug });
        self.followed(self.nodes.len() - 1, 1).await;
    }

    /// Waits until a node has come to follow the server for the `times`th
    /// time since its directory was made.
    pub async fn followed(&self, node: usize, times: usize) {
        let daemon = &self.nodes[node].daemon;
        wait_for("the node to follow", TEST_TIMEOUT, async || {
            let log = daemon.log();
            match log.matches(" following").count() >= times {
                true => Ok(()),
                false => Err(log),
            }
        })
        .await;
    }

    /// A token for one node.
    pub async fn join_token(&self, name: &str) -> String {
        let words = ["token", "create", "--join", "--name", name, "-q"];
        self.cli().run(words).await.ok().trim().to_owned()
    }

    /// The binary as an admin runs it beside the server.
    pub fn cli(&self) -> Cli {
        self.server.cli_with_endpoints()
    }

    /// Takes a node off the switch.
    pub fn cut(&self, node: usize) {
        self.switch.cut(&self.nodes[node].plug);
    }

    /// Puts it back.
    pub fn heal(&self, node: usize) {
        self.switch.heal(&self.nodes[node].plug);
    }

    /// Where the server is reached from the tests.
    pub fn near(&self) -> SocketAddr {
        self.way.near()
    }

    /// A client of an admin.
    ///
    /// # Panics
    /// When the server does not answer for long.
    pub async fn client(&self) -> ServerClient {
        let dir = self.server.data_dir().join("client");
        wait_for("the server to answer", TEST_TIMEOUT, async || {
            let client = self.client_with(&dir).await;
            client.map_err(|error| error.to_string())
        })
        .await
    }

    /// A client with the credentials in `dir`.
    pub async fn client_with(&self, dir: &Path) -> Result<ServerClient, Error> {
        self.client_at(self.near(), dir).await
    }

    /// A client to another server that is reached there.
    pub async fn client_at(&self, near: SocketAddr, dir: &Path) -> Result<ServerClient, Error> {
        let target = Target::Tls {
            address: format!("https://{near}")
                .parse()
                .expect("an address is one"),
            credentials: Credentials::read(dir).expect("the credentials can be read"),
        };
        ServerClient::connect(&target).await
    }

    /// Credentials of a role, in a directory.
    pub async fn credentials(&self, role: &str, name: &str) -> PathBuf {
        let dir = self.server.scratch().join(format!("{role}-{name}"));
        let out = dir.display().to_string();
        let words = [
            "certificate",
            "issue",
            "--role",
            role,
            "--name",
            name,
            "--out",
            &out,
        ];
        self.cli().run(words).await.ok();
        dir
    }
}

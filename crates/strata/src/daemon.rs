//! The daemons: put together, announced, served, and ended in order.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_cli::{BuildInfo, Exit, Failure, Global, Result};
use strata_client::{Address, Endpoints};
use strata_identity::{CertificateSpec, Clock, Name};
use strata_node::daemon_log::DaemonLog;
use strata_node::{Agent, AgentConfig, Node, NodeConfig, NodeFolder};
use strata_server::operations::Storage;
use strata_server::{Build, ControlPlane, Faces, IdentityFace, Metrics};
use strata_transport::{Gate, Limits, Serve};
use strata_types::Role;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::{Listen, NodeArguments, NodeListen, ServerArguments, UpArguments};
use crate::config::Settings;
use crate::identity::{Identities, client_folder};
use crate::join::{self, Joined};
use crate::machinery::{self, Door};
use crate::serve::{self, Port};
use crate::{lock, machine};

/// How long requests under way may take to finish when the daemon ends.
const DRAIN: Duration = Duration::from_secs(4);

/// `strata up`: the server and a node.
pub(crate) async fn up(global: &Global, arguments: UpArguments) -> Result {
    let settings = Settings::new(
        global,
        &arguments.common,
        &arguments.listen,
        &arguments.node,
    )?;
    let mut daemon = Daemon::prepare(settings)?;
    crate::restore::check_whole(&daemon.settings.data_dir)?;
    let identities = Identities::open(&daemon.settings.data_dir)?;
    // What the server's pool holds, the node beside it reaches.
    let pool = crate::config::pool_folder(&daemon.settings.data_dir).join("mount");
    daemon.settings.node.pool.get_or_insert(pool);
    let authority = NodeAuthority::Own(&identities, false);
    let storage = machinery::storage(&daemon.settings).await;
    let node = daemon.open_node(&authority).await?;
    let served = daemon.serve_control_plane(&identities, Some(&node), storage);
    served.await?;
    daemon.serve_node(node, authority).await?;
    daemon.run().await
}

/// `strata server`: the control plane alone.
pub(crate) async fn server(global: &Global, arguments: ServerArguments) -> Result {
    let node = NodeListen::default();
    let settings = Settings::new(global, &arguments.common, &arguments.listen, &node)?;
    let mut daemon = Daemon::prepare(settings)?;
    crate::restore::check_whole(&daemon.settings.data_dir)?;
    let identities = Identities::open(&daemon.settings.data_dir)?;
    let storage = machinery::storage(&daemon.settings).await;
    let served = daemon.serve_control_plane(&identities, None, storage);
    served.await?;
    daemon.run().await
}

/// `strata node`: a node alone, or one that joins a server.
pub(crate) async fn node(global: &Global, arguments: NodeArguments) -> Result {
    let listen = Listen::default();
    let settings = Settings::new(global, &arguments.common, &listen, &arguments.node)?;
    let mut daemon = Daemon::prepare(settings)?;
    let data_dir = daemon.settings.data_dir.clone();
    if let Some(joined) = join::ensure(global, &arguments, &data_dir).await? {
        let further = daemon.settings.node.servers.clone();
        let servers = global.server.iter().cloned().chain(further).collect();
        let authority = NodeAuthority::Joined(&joined, servers);
        let node = daemon.open_node(&authority).await?;
        daemon.serve_node(node, authority).await?;
    } else {
        let identities = Identities::open(&data_dir)?;
        let authority = NodeAuthority::Own(&identities, true);
        let node = daemon.open_node(&authority).await?;
        daemon.serve_node(node, authority).await?;
    }
    daemon.run().await
}

/// Whose certificates a node goes by.
enum NodeAuthority<'a> {
    /// Its own CA; the flag says whether it also serves identities.
    Own(&'a Identities, bool),
    /// The CA of the server it joined, and whom it follows.
    Joined(&'a Joined, Vec<Address>),
}

/// A daemon in the making.
struct Daemon {
    settings: Settings,
    endpoints: Endpoints,
    node: Option<Node>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    _lock: lock::Lock,
}

impl Daemon {
    /// Takes the data folder and starts to log.
    fn prepare(settings: Settings) -> Result<Self> {
        let data_dir = &settings.data_dir;
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(
                Exit::Unexpected,
                format!("cannot {what} {}: {error}", data_dir.display()),
            )
        };
        make_private(data_dir).map_err(|error| cannot("make the data folder", &error))?;
        let lock = lock::take(data_dir)?;
        let folder =
            NodeFolder::open(data_dir).map_err(|error| cannot("use the data folder", &error))?;
        let log =
            DaemonLog::open(&folder.log()).map_err(|error| cannot("open the log in", &error))?;
        start_logging(log);
        raise_open_files();
        tracing::info!(
            version = BuildInfo::current().version,
            pid = std::process::id(),
            "starting"
        );
        Ok(Self {
            settings,
            endpoints: Endpoints::default(),
            node: None,
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            _lock: lock,
        })
    }

    async fn serve_control_plane(
        &mut self,
        identities: &Identities,
        node: Option<&Node>,
        storage: Storage,
    ) -> Result {
        let port = Port::bind("--listen", &self.settings.listen).await?;
        let name: Name = "server".parse().map_err(unexpected)?;
        let gateway = node.and_then(Node::gateway);
        let near = gateway.map(|gateway| gateway.to_string());
        let near: Vec<&str> = near.iter().map(String::as_str).collect();
        let hosts = serve::hosts(&port, &self.settings.hosts, &near);
        let door = gateway.map(|gateway| Door::open(gateway, port.bound));
        let door = door.transpose()?;
        let live = identities.serving(
            CertificateSpec::server(name),
            &hosts,
            &self.tasks,
            &self.shutdown,
        )?;
        identities.keep_client(&self.settings.data_dir, &self.tasks, &self.shutdown)?;
        let gate = Gate::new(Some(identities.tokens.clone()), Clock::system());
        let metrics = Arc::new(Metrics::new(gate.refusals(), build()));
        let identity = IdentityFace::new(identities.authority.clone(), identities.tokens.clone());
        let machinery = machinery::build(
            &self.settings,
            identities,
            node.map(|_| self.settings.node_socket.as_path()),
            door.as_ref().map(|door| door.url.as_str()),
            &port,
            storage,
        )?;
        let control = ControlPlane::start(
            &self.settings.control.store,
            self.settings.control.core.clone(),
            port.url.clone(),
            machinery,
            self.shutdown.clone(),
        )
        .await
        .map_err(unexpected)?;
        let core = control.core.clone();
        let is_ready = move |name: &str| core.node_is_ready(name);
        let app = control
            .serve(Faces::new(metrics).grpc(identity.with_nodes(is_ready).service()))
            .router()
            .await
            .map_err(unexpected)?;
        let tls = serve::tls(identities.authority.ca_pem(), live, true)?;
        self.endpoints.server = Some(port.url.clone());
        if let Some(listener) = door.and_then(|door| door.listener) {
            let (tls, shutdown) = (tls.clone(), self.shutdown.clone());
            let serve = Serve::new(app.clone(), gate.clone()).with_limits(Limits::of_a_server());
            self.tasks
                .spawn(async move { serve.tls(listener, tls, shutdown).await });
        }
        let serve = Serve::new(app, gate).with_limits(Limits::of_a_server());
        port.serve(tls, serve, &self.tasks, &self.shutdown);
        Ok(())
    }

    async fn open_node(&self, authority: &NodeAuthority<'_>) -> Result<Node> {
        let settings = &self.settings;
        let opened = Node::open(NodeConfig {
            data_dir: settings.data_dir.clone(),
            host: Default::default(),
            logs: settings.logs,
            images: settings.images.clone(),
            network: settings.network.clone(),
            version: BuildInfo::current().version.to_owned(),
            machine_init: machine::init_pid(),
            authority: match authority {
                NodeAuthority::Own(identities, _) => Some(identities.authority.clone()),
                NodeAuthority::Joined(..) => None,
            },
            pool: settings.node.pool.clone(),
            kubernetes: Some(match &settings.node.kubernetes {
                Some(folder) => folder.clone(),
                None => settings.clusters.bundles(),
            }),
        });
        opened.await.map_err(unexpected)
    }

    async fn serve_node(&mut self, node: Node, authority: NodeAuthority<'_>) -> Result {
        let settings = &self.settings;
        let port = Port::bind("--node-listen", &settings.node_listen).await?;
        let group = settings.socket_group;
        let socket = serve::bind_socket(&settings.node_socket, group.map(|group| group.gid))?;
        let hosts = serve::hosts(&port, &settings.hosts, &[]);
        let mut servers = Vec::new();
        let (live, ca_pem, identities) = match authority {
            NodeAuthority::Own(identities, serves_identities) => {
                let name: Name = node.id().parse().map_err(unexpected)?;
                let spec = CertificateSpec::caller(name, Role::Node);
                let live = identities.serving(spec, &hosts, &self.tasks, &self.shutdown)?;
                let ca_pem = identities.authority.ca_pem().to_owned();
                // With a server beside it, it is that one's like any other.
                for server in self.endpoints.server.iter() {
                    servers.push(server.parse().map_err(unexpected)?);
                }
                (live, ca_pem, serves_identities.then_some(identities))
            }
            NodeAuthority::Joined(joined, followed) => {
                servers = followed;
                let live = joined.keep(&self.tasks, &self.shutdown);
                (live, joined.ca_pem.clone(), None)
            }
        };
        let mut gate = Gate::new(identities.map(|i| i.tokens.clone()), Clock::system());
        if let Some(group) = group {
            gate = gate.with_socket_group(group.gid, group.role);
        }
        let app = node_app(&node, &gate, identities).await?;
        if let Some(identities) = identities {
            identities.keep_client(&settings.data_dir, &self.tasks, &self.shutdown)?;
        }
        let tls = serve::tls(&ca_pem, live.clone(), false)?;
        self.endpoints.node = Some(port.url.clone());
        self.endpoints.node_socket = Some(settings.node_socket.clone());
        let serve = Serve::new(app.clone(), gate.clone());
        port.serve(tls, serve, &self.tasks, &self.shutdown);
        let agent = AgentConfig {
            servers,
            ca_pem,
            identity: live,
            labels: settings.node.labels.clone(),
            address: settings.address,
            app: app.clone(),
            gate: gate.clone(),
        };
        if !agent.servers.is_empty() {
            let agent = Agent::start(&node, agent, self.shutdown.clone()).map_err(unexpected)?;
            self.tasks.spawn(agent.ended());
        }
        serve::serve_socket(socket, app, gate, &self.tasks, &self.shutdown);
        self.node = Some(node);
        Ok(())
    }

    /// Says that it serves, and serves until it is told to end.
    async fn run(self) -> Result {
        let client = client_folder(&self.settings.data_dir);
        make_private(&client).map_err(unexpected)?;
        self.endpoints.write(&client).map_err(unexpected)?;
        let mut ends = Ends::listen().map_err(unexpected)?;
        self.announce().map_err(unexpected)?;
        let why = ends.next().await;
        tracing::info!(signal = why, "ending");
        tokio::spawn(async move {
            ends.next().await;
            tracing::warn!("told twice, ending at once");
            std::process::exit(1);
        });
        self.end().await
    }

    fn announce(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match (&self.endpoints.server, &self.endpoints.node_socket) {
            (Some(url), _) => writeln!(out, "ready {url}")?,
            (None, Some(socket)) => writeln!(out, "ready unix:{}", socket.display())?,
            (None, None) => {}
        }
        out.flush()
    }

    async fn end(self) -> Result {
        if let Some(node) = &self.node {
            node.close();
        }
        self.shutdown.cancel();
        self.tasks.close();
        if tokio::time::timeout(DRAIN, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some requests did not finish in time");
        }
        if let Some(node) = self.node {
            if self.settings.stop_workloads {
                node.stop_workloads().await.map_err(unexpected)?;
            }
            node.release();
        }
        tracing::info!("ended");
        Ok(())
    }
}

async fn node_app(
    node: &Node,
    gate: &Gate,
    identities: Option<&Identities>,
) -> Result<axum::Router> {
    let mut faces = Faces::new(Arc::new(Metrics::new(gate.refusals(), build())))
        .grpc(node.cell_service())
        .grpc(node.pods_service())
        .grpc(node.spawn_service())
        .grpc(node.instances_service())
        .grpc(node.observe())
        .grpc(node.cells_service())
        .grpc(node.images_service())
        .grpc(node.volumes_service())
        .grpc(node.logs_service())
        .grpc(node.node_service());
    if let Some(Identities { authority, tokens }) = identities {
        faces = faces.grpc(IdentityFace::new(authority.clone(), tokens.clone()).service());
    }
    faces.router().await.map_err(unexpected)
}

/// The facts of this binary, for whoever asks the daemon.
fn build() -> Build {
    let build = BuildInfo::current();
    Build {
        version: build.version.into(),
        commit: build.commit.into(),
        tree_state: build.tree_state.into(),
        build_date: build
            .build_date
            .map(|date| date.to_string())
            .unwrap_or_default(),
        compiler: build.rustc.into(),
        platform: build.platform.into(),
    }
}

/// The signals that end a daemon.
struct Ends {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

impl Ends {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

pub(crate) fn unexpected(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Unexpected, error.to_string())
}

pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

fn start_logging(log: DaemonLog) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("STRATA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // A second daemon in one process would be a test's; the first one's
    // subscriber serves both.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(log)
        .try_init();
}

/// Every cell takes a few descriptors, every connection one.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const ENOUGH: u64 = 65_536;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum,
            },
        );
    }
}

//! The daemons: put together, announced, served, and ended in order.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_audit::{AuditLog, Limits as AuditLimits};
use strata_cli::{AUDIT, BuildInfo, Exit, Failure, Global, Result};
use strata_client::{Address, Endpoints};
use strata_identity::{CertificateSpec, Clock, Name};
use strata_node::daemon_log::DaemonLog;
use strata_node::{Agent, AgentConfig, KeptRevocations, Node, NodeConfig, NodeFolder};
use strata_server::core::Core;
use strata_server::operations::Storage;
use strata_server::{Build, ControlPlane, Faces, IdentityFace, Metrics};
use strata_transport::{Budgets, Gate, Limits, Serve};
use strata_types::Role;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::{Listen, NodeArguments, NodeListen, ServerArguments, UpArguments};
use crate::config::Settings;
use crate::identity::{Identities, client_folder};
use crate::join::{self, Joined};
use crate::machinery::{self, Door};
use crate::node_runtime::NodeRuntime;
use crate::serve::{self, Port};
use crate::{lock, machine, new_store};

/// How long requests under way may take to finish when the daemon ends.
const DRAIN: Duration = Duration::from_secs(4);

/// The key of a node that certifies itself: it stays the same node.
const NODE_KEY: &str = "node/node.key";

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
    daemon.settle_store(arguments.store.new_store)?;
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
    daemon.settle_store(arguments.store.new_store)?;
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
        // A server that is started here later begins with an empty store.
        new_store::may_be_made(&data_dir, false)?;
        let identities = Identities::open(&data_dir)?;
        let authority = NodeAuthority::Own(&identities, true);
        let node = daemon.open_node(&authority).await?;
        daemon.serve_node(node, authority).await?;
    }
    daemon.run().await
}

/// Why the control plane does not start: in its own words, with what to do.
fn refused_start(error: strata_types::Error) -> Failure {
    Failure::from(error)
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
    /// Of the server in this process.
    core: Option<Core>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    nodes: NodeRuntime,
    audit: Arc<AuditLog>,
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
        let audit = AuditLog::open(&data_dir.join(AUDIT), AuditLimits::default())
            .map_err(|error| cannot("open the audit log in", &error))?;
        tracing::info!(
            version = BuildInfo::current().version,
            pid = std::process::id(),
            "starting"
        );
        Ok(Self {
            settings,
            endpoints: Endpoints::default(),
            node: None,
            core: None,
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            nodes: NodeRuntime::start()?,
            audit,
            _lock: lock,
        })
    }

    /// Decides whether the server may make a store, and whose it has to be.
    fn settle_store(&mut self, insists: bool) -> Result {
        let data_dir = &self.settings.data_dir;
        let store = &mut self.settings.control.store;
        store.may_be_new = new_store::may_be_made(data_dir, insists)?;
        store.control_plane = new_store::control_plane(data_dir);
        Ok(())
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
        let gate = Gate::new(Some(identities.tokens.clone()), Clock::system())
            .with_audit(self.audit.clone())
            .with_trust(identities.authority.trust());
        let server_hosts = CertificateSpec::server_hosts(&hosts);
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
        .map_err(refused_start)?
        .with_audit(self.audit.clone())
        .with_authority(identities.authority.clone());
        let id = control.core.run_id().await.map_err(unexpected)?;
        new_store::opened(&self.settings.data_dir, &id)?;
        let gate = gate
            .with_revocations(control.core.revocations())
            .with_lookup(Arc::new(control.core.clone()));
        self.core = Some(control.core.clone());
        identities.record(&self.settings.data_dir, &control.core);
        let identity = identity
            .with_core(control.core.clone())
            .with_server_hosts(&server_hosts);
        let app = control
            .serve(Faces::new(metrics.clone()).grpc(identity.service()))
            .router()
            .await
            .map_err(unexpected)?;
        let tls = serve::tls(identities.authority.trust(), live, true)?;
        self.endpoints.server = Some(port.url.clone());
        // Both listeners together bound a caller once.
        let limits = Limits::of_a_server();
        let budgets = Budgets::new(&limits, self.settings.limits.clone());
        metrics.count_budgets(budgets.clone());
        let serve = || {
            Serve::new(app.clone(), gate.clone())
                .with_limits(limits.clone())
                .with_budgets(budgets.clone())
                .with_nodes_on(self.nodes.handle())
        };
        if let Some(listener) = door.and_then(|door| door.listener) {
            let (tls, shutdown, serve) = (tls.clone(), self.shutdown.clone(), serve());
            self.tasks
                .spawn(async move { serve.tls(listener, tls, shutdown).await });
        }
        port.serve(tls, serve(), &self.tasks, &self.shutdown);
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
        let mut kept = None;
        let mut kept_trust = None;
        let (live, trust, identities) = match authority {
            NodeAuthority::Own(identities, serves_identities) => {
                let name: Name = node.id().parse().map_err(unexpected)?;
                let spec = CertificateSpec::caller(name, Role::Node);
                // Alone, it is all that this CA has serve.
                let spec = match serves_identities {
                    true => spec.with_loopback(),
                    false => spec,
                };
                let key = settings.data_dir.join(NODE_KEY);
                let live =
                    identities.serving_node(spec, &key, &hosts, &self.tasks, &self.shutdown)?;
                let trust = identities.authority.trust();
                // With a server beside it, it is that one's like any other.
                if let (Some(core), Some(id)) = (&self.core, live.certificate_id()) {
                    core.trust_local_node(&id.key);
                }
                for server in self.endpoints.server.iter() {
                    servers.push(server.parse().map_err(unexpected)?);
                }
                (live, trust, serves_identities.then_some(identities))
            }
            NodeAuthority::Joined(joined, followed) => {
                servers = followed;
                let known = KeptRevocations::open(&settings.data_dir);
                kept = Some(known.map_err(unexpected)?);
                kept_trust = joined.kept_trust();
                let live = joined.keep(&servers, &self.tasks, &self.shutdown);
                (live, joined.trust.clone(), None)
            }
        };
        let mut gate = Gate::new(identities.map(|i| i.tokens.clone()), Clock::system())
            .with_audit(self.audit.clone())
            .with_trust(trust.clone());
        let own = self.core.as_ref().map(Core::revocations);
        if let Some(revocations) = own.or(kept.as_ref().map(KeptRevocations::live)) {
            gate = gate.with_revocations(revocations);
        }
        if let Some(group) = group {
            gate = gate.with_socket_group(group.gid, group.role);
        }
        let app = node_app(&node, &gate, identities).await?;
        if let Some(identities) = identities {
            identities.keep_client(&settings.data_dir, &self.tasks, &self.shutdown)?;
        }
        let tls = serve::tls(trust.clone(), live.clone(), false)?;
        self.endpoints.node = Some(port.url.clone());
        self.endpoints.node_socket = Some(settings.node_socket.clone());
        let budgets = Budgets::new(&Limits::default(), settings.limits.clone());
        let serve = |app: &axum::Router, gate: &Gate| {
            Serve::new(app.clone(), gate.clone()).with_budgets(budgets.clone())
        };
        port.serve(tls, serve(&app, &gate), &self.tasks, &self.shutdown);
        let agent = AgentConfig {
            revocations: kept,
            servers,
            trust,
            kept_trust,
            identity: live,
            labels: settings.node.labels.clone(),
            address: settings.address,
            app: app.clone(),
            gate: gate.clone(),
            orphan_grace: settings.node.orphan_grace,
            runtime: self.nodes.handle(),
        };
        if !agent.servers.is_empty() {
            let agent = Agent::start(&node, agent, self.shutdown.clone()).map_err(unexpected)?;
            self.tasks.spawn(agent.ended());
        }
        serve::serve_socket(socket, serve(&app, &gate), &self.tasks, &self.shutdown);
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

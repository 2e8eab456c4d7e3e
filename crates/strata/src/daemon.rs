//! The daemons: put together, announced, served, and ended in order.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use strata_audit::{AuditLog, Limits as AuditLimits};
use strata_cli::{AUDIT, AUDIT_HEAD, BuildInfo, Exit, Failure, Global, Result};
use strata_client::{Address, Endpoints};
use strata_identity::{CertificateSpec, Clock, Name};
use strata_node::daemon_log::DaemonLog;
use strata_node::{Agent, AgentConfig, Node, NodeConfig, NodeDir, StoredRevocations};
use strata_server::core::Core;
use strata_server::operations::Storage;
use strata_server::{ApiServer, Build, ControlPlane, IdentityApi, Metrics, api};
use strata_tasks::{Stage, Tasks, spawn_detached};
use strata_transport::{AuthLayer, Budgets, Limits, Serve};
use strata_types::Role;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Listen, NodeArguments, NodeListen, ServerArguments, UpArguments};
use crate::config::Settings;
use crate::identity::{Identities, client_dir};
use crate::join::{self, Joined};
use crate::node_runtime::NodeRuntime;
use crate::provisioning::{self, BridgeListener};
use crate::serve::{self, Port};
use crate::{lock, machine, new_store};

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
    let pool = crate::config::pool_dir(&daemon.settings.data_dir).join("mount");
    daemon.settings.node.pool.get_or_insert(pool);
    let authority = NodeTrust::Own(&identities, false);
    let storage = provisioning::storage(&daemon.settings).await;
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
    let storage = provisioning::storage(&daemon.settings).await;
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
        daemon.settings.add_joined_registries()?;
        let further = daemon.settings.node.servers.clone();
        let servers = global.server.iter().cloned().chain(further).collect();
        let authority = NodeTrust::Joined(&joined, servers);
        let node = daemon.open_node(&authority).await?;
        daemon.serve_node(node, authority).await?;
    } else {
        // A server that is started here later begins with an empty store.
        new_store::may_be_made(&data_dir, false)?;
        let identities = Identities::open(&data_dir)?;
        let authority = NodeTrust::Own(&identities, true);
        let node = daemon.open_node(&authority).await?;
        daemon.serve_node(node, authority).await?;
    }
    daemon.run().await
}

/// Why the control plane does not start: in its own words, with what to do.
fn refused_start(error: strata_types::Error) -> Failure {
    Failure::from(error)
}

/// CA that a node trusts.
enum NodeTrust<'a> {
    /// Its own CA; the flag is whether it also serves the identity API.
    Own(&'a Identities, bool),
    /// The CA of the server it joined, and the servers it follows.
    Joined(&'a Joined, Vec<Address>),
}

/// A daemon in the making.
struct Daemon {
    settings: Settings,
    endpoints: Endpoints,
    node: Option<Node>,
    /// Of the server in this process.
    core: Option<Core>,
    tasks: Tasks,
    nodes: NodeRuntime,
    audit: Arc<AuditLog>,
    _lock: lock::Lock,
}

impl Daemon {
    /// Takes the data directory and starts to log.
    fn prepare(settings: Settings) -> Result<Self> {
        let data_dir = &settings.data_dir;
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(
                Exit::Unexpected,
                format!("cannot {what} {}: {error}", data_dir.display()),
            )
        };
        make_private(data_dir).map_err(|error| cannot("create the data directory", &error))?;
        let lock = lock::take(data_dir)?;
        let directory =
            NodeDir::open(data_dir).map_err(|error| cannot("use the data directory", &error))?;
        let log =
            DaemonLog::open(&directory.log()).map_err(|error| cannot("open the log in", &error))?;
        start_logging(log);
        raise_open_files();
        let (log, head) = (data_dir.join(AUDIT), data_dir.join(AUDIT_HEAD));
        let audit = AuditLog::open_with_head(&log, AuditLimits::default(), &head)
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
            tasks: Tasks::default(),
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
        let (api, services) = (
            self.tasks.group(Stage::Api),
            self.tasks.group(Stage::Services),
        );
        let port = Port::bind("--listen", &self.settings.listen).await?;
        let name: Name = "server".parse().map_err(unexpected)?;
        let gateway = node.and_then(Node::gateway);
        let near = gateway.map(|gateway| gateway.to_string());
        let near: Vec<&str> = near.iter().map(String::as_str).collect();
        let hosts = serve::hosts(&port, &self.settings.hosts, &near);
        let bridge = gateway.map(|gateway| BridgeListener::open(gateway, port.bound));
        let bridge = bridge.transpose()?;
        let live = identities.serving(CertificateSpec::server(name), &hosts, &services)?;
        identities.keep_client(&self.settings.data_dir, &services)?;
        let gate = AuthLayer::new(
            api::policy(),
            Some(identities.tokens.clone()),
            Clock::system(),
        )
        .with_audit(self.audit.clone())
        .with_trust(identities.authority.trust());
        let server_hosts = CertificateSpec::server_hosts(&hosts);
        let metrics = Arc::new(Metrics::new(gate.refusals(), build()));
        metrics.watch_tasks(self.tasks.clone());
        let identity = IdentityApi::new(identities.authority.clone(), identities.tokens.clone())
            .with_registries(self.settings.images.to_joining());
        let deps = provisioning::build(
            &self.settings,
            identities,
            node.map(|_| self.settings.node_socket.as_path()),
            bridge.as_ref().map(|bridge| bridge.url.as_str()),
            &port,
            storage,
        )?;
        let control = ControlPlane::start(
            &self.settings.control.store,
            self.settings.control.core.clone(),
            port.url.clone(),
            deps,
            &self.tasks,
        )
        .await
        .map_err(refused_start)?
        .with_audit(self.audit.clone())
        .with_ca(identities.authority.clone());
        let id = control.core.run_id().await.map_err(unexpected)?;
        new_store::opened(&self.settings.data_dir, &id)?;
        self.keep_audit_anchor(&control.core, &port.url).await;
        let gate = gate
            .with_revocations(control.core.certificates().revocations())
            .with_lookup(Arc::new(control.core.clone()));
        self.core = Some(control.core.clone());
        identities.record(&self.settings.data_dir, &control.core);
        let identity = identity
            .with_core(control.core.clone())
            .with_server_hosts(&server_hosts);
        let app = control
            .serve(ApiServer::new(metrics.clone()).grpc(identity.service()))
            .router()
            .await
            .map_err(unexpected)?;
        let tls = serve::tls(identities.authority.trust(), live)?;
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
        if let Some(listener) = bridge.and_then(|bridge| bridge.listener) {
            let shutdown = api.shutdown().clone();
            api.critical(
                "bridge-listener",
                serve().tls(listener, tls.clone(), shutdown),
            );
        }
        port.serve("server-listener", tls, serve(), &api);
        Ok(())
    }

    /// Checks the audit log against what the store has recorded of it, and has
    /// its end recorded from now on.
    async fn keep_audit_anchor(&self, core: &Core, address: &str) {
        if let Err(error) = core.check_audit_log(&self.audit, address).await {
            tracing::error!(%error, "audit log cannot be checked");
        }
        let services = self.tasks.group(Stage::Services);
        let (core, log) = (core.clone(), self.audit.clone());
        let (address, shutdown) = (address.to_owned(), services.shutdown().clone());
        services.restart_until_done("audit-anchor", move || {
            let (log, address) = (log.clone(), address.clone());
            core.clone().note_audit_log(log, address, shutdown.clone())
        });
    }

    async fn open_node(&self, authority: &NodeTrust<'_>) -> Result<Node> {
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
                NodeTrust::Own(identities, _) => Some(identities.authority.clone()),
                NodeTrust::Joined(..) => None,
            },
            pool: settings.node.pool.clone(),
            allow_host_users: settings.node.allow_host_users,
            kubernetes: Some(match &settings.node.kubernetes {
                Some(directory) => directory.clone(),
                None => settings.clusters.bundles(),
            }),
            tasks: self.tasks.clone(),
        });
        opened.await.map_err(unexpected)
    }

    async fn serve_node(&mut self, node: Node, authority: NodeTrust<'_>) -> Result {
        let settings = &self.settings;
        let (api, services) = (
            self.tasks.group(Stage::Api),
            self.tasks.group(Stage::Services),
        );
        let port = Port::bind("--node-listen", &settings.node_listen).await?;
        let group = settings.socket_group;
        let socket = serve::bind_socket(&settings.node_socket, group.map(|group| group.gid))?;
        let hosts = serve::hosts(&port, &settings.hosts, &[]);
        let mut servers = Vec::new();
        let mut kept = None;
        let mut stored_trust = None;
        let (live, trust, identities) = match authority {
            NodeTrust::Own(identities, serves_identities) => {
                let name: Name = node.id().parse().map_err(unexpected)?;
                let spec = CertificateSpec::caller(name, Role::Node);
                // Alone, it is all that this CA has serve.
                let spec = match serves_identities {
                    true => spec.with_loopback(),
                    false => spec,
                };
                let key = settings.data_dir.join(NODE_KEY);
                let live = identities.serving_node(spec, &key, &hosts, &services)?;
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
            NodeTrust::Joined(joined, followed) => {
                servers = followed;
                let known = StoredRevocations::open(&settings.data_dir);
                kept = Some(known.map_err(unexpected)?);
                stored_trust = joined.stored_trust();
                let live = joined.keep(&servers, &services);
                (live, joined.trust.clone(), None)
            }
        };
        let mut gate = AuthLayer::new(
            api::policy(),
            identities.map(|i| i.tokens.clone()),
            Clock::system(),
        )
        .with_audit(self.audit.clone())
        .with_trust(trust.clone());
        let own = self
            .core
            .as_ref()
            .map(|core| core.certificates().revocations());
        if let Some(revocations) = own.or(kept.as_ref().map(StoredRevocations::live)) {
            gate = gate.with_revocations(revocations);
        }
        if let Some(group) = group {
            gate = gate.with_socket_group(group.gid, group.role);
        }
        let app = node_app(&node, &gate, identities, &self.tasks).await?;
        if let Some(identities) = identities {
            identities.keep_client(&settings.data_dir, &services)?;
        }
        let tls = serve::tls(trust.clone(), live.clone())?;
        self.endpoints.node = Some(port.url.clone());
        self.endpoints.node_socket = Some(settings.node_socket.clone());
        let budgets = Budgets::new(&Limits::default(), settings.limits.clone());
        let serve = |app: &axum::Router, gate: &AuthLayer| {
            Serve::new(app.clone(), gate.clone()).with_budgets(budgets.clone())
        };
        // A token is a bearer's: it is not sent to the ports of nodes.
        let port_gate = gate.clone().without_tokens();
        port.serve("node-listener", tls, serve(&app, &port_gate), &api);
        let agent = AgentConfig {
            revocations: kept,
            servers,
            trust,
            stored_trust,
            identity: live,
            labels: settings.node.labels.clone(),
            address: settings.address,
            app: app.clone(),
            gate: gate.clone(),
            orphan_grace: settings.node.orphan_grace,
            runtime: self.nodes.handle(),
        };
        if !agent.servers.is_empty() {
            Agent::start(&node, agent, &self.tasks.group(Stage::Agent)).map_err(unexpected)?;
        }
        serve::serve_socket(socket, serve(&app, &gate), &api);
        self.node = Some(node);
        Ok(())
    }

    /// Announces readiness and serves until a shutdown signal.
    async fn run(self) -> Result {
        let client = client_dir(&self.settings.data_dir);
        make_private(&client).map_err(unexpected)?;
        self.endpoints.write(&client).map_err(unexpected)?;
        let mut ends = ShutdownSignals::listen().map_err(unexpected)?;
        self.announce().map_err(unexpected)?;
        let failure = tokio::select! {
            signal = ends.next() => {
                tracing::info!(signal, "shutting down");
                None
            }
            failure = self.tasks.failed() => {
                tracing::error!(%failure, "shutting down: the daemon cannot run without this task");
                Some(failure)
            }
        };
        // Detached: it is not part of the shutdown that it cuts short.
        spawn_detached("second-signal", async move {
            let signal = ends.next().await;
            tracing::warn!(signal, "second signal, exiting");
            std::process::exit(1);
        });
        // After a fault, workloads keep running that were configured to end
        // with the daemon.
        let stop_workloads = self.settings.stop_workloads && failure.is_none();
        self.end(stop_workloads).await?;
        match failure {
            Some(failure) => Err(unexpected(failure)),
            None => Ok(()),
        }
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

    /// Stops one stage after the other, each within its deadline. Workloads
    /// are stopped while the services that notice their end still run.
    async fn end(self, stop_workloads: bool) -> Result {
        if let Some(node) = &self.node {
            node.close();
        }
        for stage in Stage::ORDER {
            if let (Stage::Services, Some(node)) = (stage, &self.node)
                && stop_workloads
            {
                node.stop_workloads().await.map_err(unexpected)?;
            }
            self.tasks.stop(stage).await;
        }
        if let Some(node) = self.node {
            node.release();
        }
        tracing::info!("shut down");
        Ok(())
    }
}

async fn node_app(
    node: &Node,
    gate: &AuthLayer,
    identities: Option<&Identities>,
    tasks: &Tasks,
) -> Result<axum::Router> {
    let metrics = Metrics::new(gate.refusals(), build());
    metrics.watch_tasks(tasks.clone());
    let mut apis = ApiServer::new(Arc::new(metrics))
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
        apis = apis.grpc(IdentityApi::new(authority.clone(), tokens.clone()).service());
    }
    apis.router().await.map_err(unexpected)
}

/// Build information, as served by the daemon.
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
struct ShutdownSignals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

impl ShutdownSignals {
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

pub(crate) fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

fn start_logging(log: DaemonLog) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("STRATA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // A second daemon in one process would be a test's; the first one's
    // subscriber serves both.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(true)
        .with_writer(log)
        .try_init();
    strata_tasks::log_all_panics();
}

/// Every cell takes a few descriptors, every connection one.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const OPEN_FILES: u64 = 65_536;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
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

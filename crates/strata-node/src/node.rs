//! The node as a whole: opened from its directory, served as a router.

use std::path::PathBuf;
use std::sync::Arc;

use strata_cell::{Cgroups, HostPaths, InitImage, LogLimits};
use strata_tasks::{Stage, Tasks};
use strata_types::{Error, Result};

use crate::agent;
use crate::cells::{Cells, Executable, Shim};
use crate::clock::now_ms;
use crate::components::NodeComponents;
use crate::images::{Images, ImagesConfig};
use crate::logs::LogWatch;
use crate::nested_nodes::NestedNodes;
use crate::network::{NetworkOptions, NodeNetwork};
use crate::node_dir::NodeDir;
use crate::pods::Pods;
use crate::pool::NodePool;
use crate::secrets::PodSecrets;
use crate::vms::Vms;

/// What a node needs to know.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where everything of this run is kept.
    pub data_dir: PathBuf,
    /// Where the kernel's interfaces are.
    pub host: HostPaths,
    /// How much is kept of each executable's output.
    pub logs: LogLimits,
    /// How images are dealt with.
    pub images: ImagesConfig,
    /// How pods are connected.
    pub network: NetworkOptions,
    /// The version of the product.
    pub version: String,
    /// The pid of the process that powers the machine off, where this node
    /// owns its machine.
    pub machine_init: Option<u32>,
    /// The CA that nested_nodes inside this one get their certificates from.
    pub authority: Option<Arc<strata_identity::Ca>>,
    /// Where the storage pool is mounted, whether or not it is there yet.
    pub pool: Option<PathBuf>,
    /// Whether pods have the users of the host where they cannot have their own.
    pub allow_host_users: bool,
    /// The directory of the versions of Kubernetes that nested_nodes inside this one
    /// find, unchangeable, at `/run/strata/kubernetes`.
    pub kubernetes: Option<PathBuf>,
    /// The tasks of the daemon, among which those of the node run.
    pub tasks: Tasks,
}

/// How long pods and virtual nested_nodes get to end when the daemon ends and they go along.
const LAST_GRACE: std::time::Duration = std::time::Duration::from_secs(3);
/// A node whose cells have been found again. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    pub(crate) config: Arc<NodeConfig>,
    pub(crate) id: Arc<str>,
    pub(crate) started_at_ms: i64,
    pub(crate) cells: Cells,
    pub(crate) images: Images,
    pub(crate) pods: Pods,
    pub(crate) vms: Vms,
    pub(crate) nested_nodes: NestedNodes,
    pub(crate) network: Arc<NodeNetwork>,
    pub(crate) pool: Arc<NodePool>,
    pub(crate) shim: Arc<Shim>,
    pub(crate) watch: LogWatch,
    pub(crate) log_dir: PathBuf,
}

/// What assignments can be restored from.
fn found_units(pods: &Pods, vms: &Vms) -> Vec<agent::RecoveredUnit> {
    let pods = pods.list().into_iter().map(|unit| unit.record());
    let pods = pods.filter(|record| !record.destroying);
    let pods = pods.map(|record| agent::RecoveredUnit {
        unit_spec: agent::AssignedSpec::Pod(Box::new(record.spec)),
        wanted: record.wanted,
    });
    let vms = vms.list().into_iter().map(|unit| unit.record());
    let vms = vms.filter(|record| !record.destroying);
    let vms = vms.map(|record| agent::RecoveredUnit {
        unit_spec: agent::AssignedSpec::Vm(Box::new(record.spec)),
        wanted: record.wanted,
    });
    pods.chain(vms).collect()
}

impl Node {
    /// The first address of its bridge, where what is on this machine reaches
    /// the machine itself. The bridge need not be there yet.
    pub fn gateway(&self) -> Option<std::net::Ipv4Addr> {
        let subnet = self.network.subnet_to_ask_for()?;
        Some(subnet.gateway())
    }

    /// Opens the node and finds its cells again.
    pub async fn open(config: NodeConfig) -> Result<Self> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Error::internal(format!("cannot {what}: {error}"))
        };
        let dir = NodeDir::open(&config.data_dir)
            .map_err(|error| failed("open the node's directory", &error))?;
        let run = dir.run().map_err(|error| failed("name this run", &error))?;
        let id = dir.id().map_err(|error| failed("name this node", &error))?;
        let cgroups = Cgroups::detect(&config.host, &run).map_err(|error| {
            Error::wrong_state(error.to_string())
                .with_hint("`strata doctor` shows what this host lacks")
        })?;
        // What cannot make a cgroup cannot make a cell: better reported now.
        cgroups.root().create_plain().map_err(|error| {
            Error::wrong_state(format!("this node cannot make cells: {error}"))
                .with_hint("run it as root; `strata doctor` shows what this host lacks")
        })?;
        let log_dir = dir.log();
        let tasks = config.tasks.group(Stage::Services);
        let images = Images::open(dir.images(), config.images.clone(), tasks.clone()).await?;
        let image = InitImage::new().map_err(|error| failed("load the cell init", &error))?;
        let image = Arc::new(image);
        let shim = Shim::new(dir.shim(), cgroups.clone(), image.clone())
            .map_err(|error| failed("make a file for the lease", &error))?;
        let shim = Arc::new(shim);
        let network_dir = dir
            .sub("network")
            .map_err(|error| failed("open the network's directory", &error))?;
        let network = NodeNetwork::new(config.network.clone(), &run, network_dir, tasks.clone())?;
        let components = NodeComponents {
            image,
            shim: shim.clone(),
            network: Arc::new(network),
            images: images.clone(),
            logs: config.logs,
            pool: Arc::new(NodePool::new(config.pool.clone())),
            names: Default::default(),
            secrets: Arc::new(PodSecrets::open(dir.root().join("secrets"))?),
            allow_host_users: config.allow_host_users,
            tasks: tasks.clone(),
            cgroups,
            dir,
        };
        let cells = Cells::recover(Arc::new(components.shared(None)?)).await?;
        let pods = components.pods().await?;
        images.report_uses_by({
            let pods = pods.clone();
            move || pods.images_in_use()
        });
        let vms = components.vms().await?;
        let (mut running, mut resting) = pods.endpoints();
        let (more_running, more_resting) = vms.endpoints();
        running.extend(more_running);
        resting.extend(more_resting);
        let nested_nodes = NestedNodes::open(&components, &config).await?;
        let (more_running, more_resting) = nested_nodes.endpoints();
        running.extend(more_running);
        resting.extend(more_resting);
        components.network.restore(&running, &resting)?;
        let node_dir = config.data_dir.join("node");
        agent::restore(&node_dir, found_units(&pods, &vms))?;
        let found = agent::found(&node_dir, components.network.has_peers())?;
        crate::blocking::blocking(|| shim.adopt_lease());
        for unit in &found.fenced {
            let cells = match unit.kind {
                agent::UnitType::Pod => &pods.kind().cells,
                agent::UnitType::Vm => &vms.kind().cells,
            };
            cells.set_fenced(&unit.name.clone().into(), true)?;
        }
        pods.hold(&found.held);
        vms.hold(&found.held);
        cells.resume();
        pods.resume();
        vms.resume();
        nested_nodes.resume();
        Ok(Self {
            id: id.into(),
            started_at_ms: now_ms(),
            cells,
            images,
            pods,
            vms,
            nested_nodes,
            network: components.network.clone(),
            pool: components.pool.clone(),
            shim,
            watch: LogWatch::start(&tasks).map_err(|error| failed("watch log files", &error))?,
            log_dir,
            config: Arc::new(config),
        })
    }

    /// Ends everything that runs here, as `--stop-workloads` requires, in less
    /// time than the daemon itself has to end.
    pub async fn stop_workloads(&self) -> Result<()> {
        let (cells, pods, vms, nested_nodes) = tokio::join!(
            self.cells.free_all(),
            self.pods.stop_all(LAST_GRACE),
            self.vms.stop_all(LAST_GRACE),
            self.nested_nodes.stop_all(LAST_GRACE),
        );
        cells.and(pods).and(vms).and(nested_nodes)
    }

    /// The daemon is about to end: nothing is started again from now on, as
    /// what ends now may do so because the machine does.
    pub fn close(&self) {
        self.cells.close();
        self.pods.close();
        self.vms.close();
        self.nested_nodes.close();
    }

    /// Leaves nothing behind where nothing is kept: an unused node has no
    /// process and no network on its machine.
    pub fn release(&self) {
        self.close();
        let unused = self.pods.list().is_empty() && self.vms.list().is_empty();
        if unused && self.nested_nodes.list().is_empty() {
            crate::blocking::blocking(|| self.network.close());
            if self.cells.is_empty() {
                self.shim.release();
            }
        }
    }

    /// The run that has, or last had, this pid, in any cell of any kind.
    pub(crate) fn by_pid(&self, pid: i64) -> Option<Arc<Executable>> {
        let kinds = [
            &self.cells,
            &self.pods.kind().cells,
            &self.vms.kind().cells,
            &self.nested_nodes.kind().cells,
        ];
        let found = kinds.into_iter().filter_map(|cells| cells.by_pid(pid));
        found.max_by_key(|run| run.run)
    }

    /// The cells of this node.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The images of this node.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// The name of this node.
    pub fn id(&self) -> &str {
        &self.id
    }
}

//! The node as a whole: opened from its folder, served as a router.

use std::path::PathBuf;
use std::sync::Arc;

use strata_cell::{Cgroups, HostPaths, InitImage, LogLimits};
use strata_types::{Error, Result};

use crate::agent;
use crate::cells::{Cells, Executable, Keeper};
use crate::clock::now_ms;
use crate::folder::NodeFolder;
use crate::images::{Images, ImagesConfig};
use crate::logs::LogWatch;
use crate::machines::Machines;
use crate::network::{NetworkOptions, NodeNetwork};
use crate::parts::Parts;
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
    /// The CA that machines inside this one get their certificates from.
    pub authority: Option<Arc<strata_identity::Authority>>,
    /// Where the storage pool is mounted, whether or not it is there yet.
    pub pool: Option<PathBuf>,
    /// The folder of the versions of Kubernetes that machines inside this one
    /// find, unchangeable, at `/run/strata/kubernetes`.
    pub kubernetes: Option<PathBuf>,
}

/// How long pods and virtual machines get to end when the daemon ends and they go along.
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
    pub(crate) machines: Machines,
    pub(crate) network: Arc<NodeNetwork>,
    pub(crate) pool: Arc<NodePool>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) watch: LogWatch,
    pub(crate) log_folder: PathBuf,
}

/// What assignments can be made again from.
fn found_units(pods: &Pods, vms: &Vms) -> Vec<agent::FoundUnit> {
    let pods = pods.list().into_iter().map(|unit| unit.record());
    let pods = pods.filter(|record| !record.destroying);
    let pods = pods.map(|record| agent::FoundUnit {
        ask: agent::Ask::Pod(Box::new(record.spec)),
        wanted: record.wanted,
    });
    let vms = vms.list().into_iter().map(|unit| unit.record());
    let vms = vms.filter(|record| !record.destroying);
    let vms = vms.map(|record| agent::FoundUnit {
        ask: agent::Ask::Vm(Box::new(record.spec)),
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
        let folder = NodeFolder::open(&config.data_dir)
            .map_err(|error| failed("open the node's folder", &error))?;
        let run = folder
            .run()
            .map_err(|error| failed("name this run", &error))?;
        let id = folder
            .id()
            .map_err(|error| failed("name this node", &error))?;
        let cgroups = Cgroups::detect(&config.host, &run).map_err(|error| {
            Error::wrong_state(error.to_string())
                .with_hint("`strata doctor` tells what this machine lacks")
        })?;
        // What cannot make a cgroup cannot make a cell: better said now.
        cgroups.root().create_plain().map_err(|error| {
            Error::wrong_state(format!("this node cannot make cells: {error}"))
                .with_hint("run it as root; `strata doctor` tells what this machine lacks")
        })?;
        let log_folder = folder.log();
        let images = Images::open(folder.images(), config.images.clone()).await?;
        let image = InitImage::new().map_err(|error| failed("load the cell init", &error))?;
        let image = Arc::new(image);
        let keeper = Keeper::new(folder.keeper(), cgroups.clone(), image.clone());
        let keeper = Arc::new(keeper);
        let network_folder = folder
            .sub("network")
            .map_err(|error| failed("open the network's folder", &error))?;
        let network = NodeNetwork::new(config.network.clone(), &run, network_folder)?;
        let parts = Parts {
            image,
            keeper: keeper.clone(),
            network: Arc::new(network),
            images: images.clone(),
            logs: config.logs,
            pool: Arc::new(NodePool::new(config.pool.clone())),
            names: Default::default(),
            secrets: Arc::new(PodSecrets::open(folder.root().join("secrets"))?),
            cgroups,
            folder,
        };
        let cells = Cells::recover(Arc::new(parts.shared(None)?)).await?;
        let pods = parts.pods().await?;
        images.report_uses_by({
            let pods = pods.clone();
            move || pods.images_in_use()
        });
        let vms = parts.vms().await?;
        let (mut running, mut resting) = pods.endpoints();
        let (more_running, more_resting) = vms.endpoints();
        running.extend(more_running);
        resting.extend(more_resting);
        let machines = Machines::open(&parts, &config).await?;
        let (more_running, more_resting) = machines.endpoints();
        running.extend(more_running);
        resting.extend(more_resting);
        parts.network.restore(&running, &resting)?;
        let node_folder = config.data_dir.join("node");
        agent::restore(&node_folder, found_units(&pods, &vms))?;
        let found = agent::found(&node_folder, parts.network.has_peers())?;
        crate::blocking::blocking(|| keeper.adopt_lease());
        for unit in &found.fenced {
            let cells = match unit.kind {
                agent::Kind::Pod => &pods.kind().cells,
                agent::Kind::Vm => &vms.kind().cells,
            };
            cells.set_fenced(&unit.name.clone().into(), true)?;
        }
        pods.hold(&found.held);
        vms.hold(&found.held);
        cells.resume();
        pods.resume();
        vms.resume();
        machines.resume();
        Ok(Self {
            id: id.into(),
            started_at_ms: now_ms(),
            cells,
            images,
            pods,
            vms,
            machines,
            network: parts.network.clone(),
            pool: parts.pool.clone(),
            keeper,
            watch: LogWatch::start().map_err(|error| failed("watch log files", &error))?,
            log_folder,
            config: Arc::new(config),
        })
    }

    /// Ends everything that runs here, as `--stop-workloads` asks for, in less
    /// time than the daemon itself has to end.
    pub async fn stop_workloads(&self) -> Result<()> {
        let (cells, pods, vms, machines) = tokio::join!(
            self.cells.free_all(),
            self.pods.stop_all(LAST_GRACE),
            self.vms.stop_all(LAST_GRACE),
            self.machines.stop_all(LAST_GRACE),
        );
        cells.and(pods).and(vms).and(machines)
    }

    /// The daemon is about to end: nothing is started again from now on, as
    /// what ends now may do so because the machine does.
    pub fn close(&self) {
        self.cells.close();
        self.pods.close();
        self.vms.close();
        self.machines.close();
    }

    /// Leaves nothing behind where nothing is kept: an unused node has no
    /// process and no network on its machine.
    pub fn release(&self) {
        self.close();
        let unused = self.pods.list().is_empty() && self.vms.list().is_empty();
        if unused && self.machines.list().is_empty() {
            crate::blocking::blocking(|| self.network.close());
            if self.cells.is_empty() {
                self.keeper.release();
            }
        }
    }

    /// The run that has, or last had, this pid, in any cell of any kind.
    pub(crate) fn by_pid(&self, pid: i64) -> Option<Arc<Executable>> {
        let kinds = [
            &self.cells,
            &self.pods.kind().cells,
            &self.vms.kind().cells,
            &self.machines.kind().cells,
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

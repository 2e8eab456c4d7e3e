//! The node as a whole: opened from its folder, served as a router.

use std::path::PathBuf;
use std::sync::Arc;

use strata_cell::{Cgroups, HostPaths, InitImage, LogLimits};
use strata_types::{Error, Result};

use crate::cells::{Cells, Shared};
use crate::clock::now_ms;
use crate::folder::NodeFolder;
use crate::logs::LogWatch;

/// What a node needs to know.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where everything of this run is kept.
    pub data_dir: PathBuf,
    /// Where the kernel's interfaces are.
    pub host: HostPaths,
    /// How much is kept of each executable's output.
    pub logs: LogLimits,
    /// The version of the product.
    pub version: String,
    /// The pid of the process that powers the machine off, where this node
    /// owns its machine.
    pub machine_init: Option<u32>,
}

/// A node whose cells have been found again. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    pub(crate) config: Arc<NodeConfig>,
    pub(crate) id: Arc<str>,
    pub(crate) started_at_ms: i64,
    pub(crate) cells: Cells,
    pub(crate) watch: LogWatch,
    pub(crate) log_folder: PathBuf,
}

impl Node {
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
        let shared = Shared {
            folder,
            cgroups,
            image: InitImage::new().map_err(|error| failed("load the cell init", &error))?,
            keeper: Default::default(),
            logs: config.logs,
        };
        Ok(Self {
            id: id.into(),
            started_at_ms: now_ms(),
            cells: Cells::recover(Arc::new(shared)).await?,
            watch: LogWatch::start().map_err(|error| failed("watch log files", &error))?,
            log_folder,
            config: Arc::new(config),
        })
    }

    /// The cells of this node.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The name of this node.
    pub fn id(&self) -> &str {
        &self.id
    }
}

//! `strata node limit`: the most that a node may say it has, whatever it says.

use clap::Args;
use strata_api::rest::{NodeLimits, NodePatch};

use super::{NodeArg, change};
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, Millicpus};

const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

/// Limit the capacity a node may report
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The given limits replace all limits set before.

Examples:
  strata node limit rack1-7 --cpus 8 --memory 32G --disk 500G --gpus 0
  strata node limit rack1-7 --no-pool
  strata node limit rack1-7 --none")]
pub struct Limit {
    #[command(flatten)]
    one: NodeArg,

    /// CPUs, e.g. 0.5
    #[arg(long, value_name = "N")]
    cpus: Option<Millicpus>,

    /// Memory, e.g. 32G
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,

    /// Disk, e.g. 500G
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,

    /// Number of GPUs of all kinds
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,

    /// Deny access to the storage pool
    #[arg(long)]
    no_pool: bool,

    /// Remove all limits
    #[arg(long, conflicts_with_all = ["cpus", "memory", "disk", "gpus", "no_pool"])]
    none: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Limit {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let units = |bytes: Bytes, unit: u64| u32::try_from(bytes.0 / unit).unwrap_or(u32::MAX);
        let limits = NodeLimits {
            cpu: self.cpus.map(|cpus| cpus.0),
            memory: self.memory.map(|memory| units(memory, MB)),
            disk: self.disk.map(|disk| units(disk, GB)),
            gpus: self.gpus,
            pool: self.no_pool.then_some(false),
        };
        if limits.is_none() && !self.none {
            let nothing =
                crate::failure::Failure::new(crate::failure::Exit::Usage, "no limit specified");
            return Err(nothing.hint("pass --cpus, --memory, --disk, --gpus, --no-pool or --none"));
        }
        let rest = session.rest().await?;
        let name = &self.one.name;
        let patch = NodePatch {
            limits: Some(limits),
            ..NodePatch::default()
        };
        let node = change(&rest, name, &patch, "limit").await?;
        session.printer.note(&format!("limited {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &node),
            None => Ok(()),
        }
    }
}

//! `strata node limit`: the most that a node may say it has, whatever it says.

use clap::Args;
use strata_api::rest::{NodeLimits, NodePatch};

use super::{One, change};
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::{Bytes, Millicpus};

const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

/// Bound what a node may say it has
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
What is given takes the place of all that was set before.

Examples:
  strata node limit rack1-7 --cpus 8 --memory 32G --disk 500G --gpus 0
  strata node limit rack1-7 --no-pool
  strata node limit rack1-7 --none")]
pub struct Limit {
    #[command(flatten)]
    one: One,

    /// Cores, such as 0.5
    #[arg(long, value_name = "N")]
    cpus: Option<Millicpus>,

    /// Memory, such as 32G
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,

    /// Disk, such as 500G
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,

    /// GPUs of all kinds
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,

    /// It does not reach the storage pool
    #[arg(long)]
    no_pool: bool,

    /// Take all bounds away
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
            let nothing = crate::failure::Failure::new(
                crate::failure::Exit::Usage,
                "nothing is said of what the node may have",
            );
            return Err(nothing.hint("give --cpus, --memory, --disk, --gpus, --no-pool or --none"));
        }
        let rest = session.rest().await?;
        let name = &self.one.name;
        let patch = NodePatch {
            limits: Some(limits),
            ..NodePatch::default()
        };
        let node = change(&rest, name, &patch, "limit").await?;
        session.printer.note(&format!("limited {name}"));
        match self.output.asked() {
            Some(format) => output::one(session, format, &node),
            None => Ok(()),
        }
    }
}

//! `strata vm stats`: what virtual machines use.

use clap::Args;
use futures_util::StreamExt as _;
use strata_api::strata::v1::{PodLimits, PodStat, PodStats, VmStat, VmStats, VmStatsRequest};

use crate::commands::usage::SampleArgs;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::label_name;

/// Show resource usage of virtual machines
#[derive(Args, Debug)]
#[command(after_help = "\
Memory includes that of QEMU and can exceed that of the guest, which follows
the slash. 100 CPU% is one CPU. On a terminal, q quits.

Examples:
  strata vm stats
  strata vm stats build --interval 5s
  strata vm stats --once -o json | jq '.vms[0].memory_bytes'")]
pub struct Stats {
    /// Only events of this virtual machine
    #[arg(value_parser = label_name, add = complete::vms())]
    name: Option<String>,

    #[command(flatten)]
    how: SampleArgs,
}

impl Stats {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = VmStatsRequest {
            name: self.name.unwrap_or_default(),
            interval_ms: self.how.interval_ms(),
        };
        let answer = node.vms().stats(request).await;
        let stats = answer.map_err(cannot(&node, "watch the vms"))?;
        let stats = stats.into_inner().map(|look| look.map(as_of_pods));
        self.how.show(session, &node, "vm", stats).await
    }
}

/// The figures of both are the same.
fn as_of_pods(stats: VmStats) -> PodStats {
    let stat = |vm: VmStat| PodStat {
        name: vm.name,
        state: vm.state,
        usage: vm.usage,
        limits: Some(PodLimits {
            memory_bytes: Some(vm.memory_bytes),
            ..PodLimits::default()
        }),
    };
    PodStats {
        pods: stats.vms.into_iter().map(stat).collect(),
        observed_at_ms: stats.observed_at_ms,
    }
}

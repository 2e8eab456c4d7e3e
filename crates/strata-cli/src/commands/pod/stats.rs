//! `strata pod stats`: what pods use.

use clap::Args;
use strata_api::strata::v1::PodStatsRequest;

use crate::commands::usage::SampleArgs;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::label_name;

/// Show resource usage of pods
#[derive(Args, Debug)]
#[command(after_help = "\
100 CPU% is one CPU. On a terminal, q quits.

Examples:
  strata pod stats
  strata pod stats web --interval 5s
  strata pod stats --once -o json | jq '.pods[0].memory_bytes'")]
pub struct Stats {
    /// Only events of this pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: Option<String>,

    #[command(flatten)]
    how: SampleArgs,
}

impl Stats {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = PodStatsRequest {
            name: self.name.unwrap_or_default(),
            interval_ms: self.how.interval_ms(),
        };
        let answer = node.pods().stats(request).await;
        let stats = answer.map_err(cannot(&node, "watch the pods"))?;
        self.how
            .show(session, &node, "pod", stats.into_inner())
            .await
    }
}

//! `strata vm logs`: what a virtual machine wrote to its serial console.

use clap::Args;
use strata_api::strata::v1::PodLogsRequest;

use crate::commands::logs;
use crate::complete;
use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::values::{Since, label_name};

/// Show the serial console output of a virtual machine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm logs build
  strata vm logs build -f --tail 20
  strata vm logs build --previous                the run before the latest")]
pub struct Logs {
    /// Name of the virtual machine
    #[arg(value_parser = label_name, add = complete::vms())]
    name: String,

    /// Keep streaming until it stops
    #[arg(short, long)]
    follow: bool,

    /// Only the last N lines
    #[arg(long, value_name = "N")]
    tail: Option<u32>,

    /// Only lines since: 10m, 2h, or an RFC 3339 timestamp
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,

    /// Logs of the previous run
    #[arg(long, conflicts_with = "follow")]
    previous: bool,

    /// Prefix each line with its timestamp
    #[arg(short, long)]
    timestamps: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let what = format!("read the console of the vm {}", self.name);
        let request = PodLogsRequest {
            name: self.name,
            follow: self.follow,
            tail: self.tail,
            since_ms: self.since.map(|since| since.millis(session.now())),
            previous: self.previous,
            ..Default::default()
        };
        let answer = node.vms().logs(request).await;
        let lines = answer.map_err(cannot(&node, &*what))?.into_inner();
        logs::print(session, &node, &what, lines, self.timestamps).await
    }
}

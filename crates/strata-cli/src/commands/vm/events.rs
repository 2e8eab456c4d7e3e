//! `strata vm events`: events of virtual machines.

use clap::Args;
use futures_util::StreamExt as _;
use strata_api::strata::v1::{VmEvent, WatchVmsRequest};

use crate::commands::node_events::{NodeEvent, print_all};
use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::values::label_name;
use crate::view::{state_word, time_ms};

/// Show events of virtual machines
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata vm events
  strata vm events build -f
  strata vm events -f -o json | jq -r .message")]
pub struct Events {
    /// Only events of this virtual machine
    #[arg(value_parser = label_name, add = complete::vms())]
    name: Option<String>,

    /// Watch for new events
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Events {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let request = WatchVmsRequest {
            name: self.name.clone().unwrap_or_default(),
            history: true,
        };
        let answer = node.vms().watch(request).await;
        let events = answer.map_err(cannot(&node, "watch the vms"))?;
        let events = events.into_inner().map(|event| event.map(node_events));
        let how = ("vm", self.output.format());
        print_all(session, &node, how, self.follow, events).await
    }
}

fn node_events(event: VmEvent) -> NodeEvent {
    NodeEvent {
        at: time_ms(event.at_ms),
        state: state_word(event.state()),
        name: event.vm,
        id: event.vm_id,
        message: event.message,
        missed: event.missed,
    }
}

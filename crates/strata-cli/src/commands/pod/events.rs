//! `strata pod events`: events of pods.

use clap::Args;
use futures_util::StreamExt as _;
use strata_api::strata::v1::{PodEvent, WatchPodsRequest};

use crate::commands::node_events::{NodeEvent, print_all};
use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::OutputArgs;
use crate::session::Session;
use crate::values::label_name;
use crate::view::{state_word, time_ms};

/// Show events of pods
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod events
  strata pod events web -f
  strata pod events -f -o json | jq -r .message")]
pub struct Events {
    /// Only events of this pod
    #[arg(value_parser = label_name, add = complete::pods())]
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
        let request = WatchPodsRequest {
            name: self.name.clone().unwrap_or_default(),
            history: true,
        };
        let answer = node.pods().watch(request).await;
        let events = answer.map_err(cannot(&node, "watch the pods"))?;
        let events = events.into_inner().map(|event| event.map(node_events));
        let how = ("pod", self.output.format());
        print_all(session, &node, how, self.follow, events).await
    }
}

fn node_events(event: PodEvent) -> NodeEvent {
    NodeEvent {
        at: time_ms(event.at_ms),
        state: state_word(event.state()),
        name: event.pod,
        id: event.pod_id,
        message: event.message,
        missed: event.missed,
    }
}

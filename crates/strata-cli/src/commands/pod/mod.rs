//! `strata pod`: containers on a node.

mod attach;
mod create;
mod destroy;
mod events;
mod exec;
mod list;
mod logs;
mod pull;
mod run;
mod show;
mod start;
mod stats;
mod stop;
mod wait;
mod wanted;

use clap::Subcommand;
use strata_api::strata::v1::GetPodRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::view::PodView;

/// The verbs of a pod.
#[derive(Debug, Subcommand)]
pub enum PodCommand {
    /// Make a pod, without starting it
    Create(Box<create::Create>),
    /// Make a pod and start it
    Run(Box<run::Run>),
    /// The pods of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One pod, all that is known of it
    Show(show::Show),
    /// Start pods
    Start(start::Start),
    /// End what runs in pods; what they wrote stays
    Stop(stop::Stop),
    /// Stop pods and take everything of them away
    #[command(visible_alias = "rm")]
    Destroy(destroy::Destroy),
    /// Wait until a pod has ended for good
    Wait(wait::Wait),
    /// What a pod wrote
    Logs(logs::Logs),
    /// What pods use, live
    Stats(stats::Stats),
    /// What happened to pods
    Events(events::Events),
    /// Run a further command in a pod
    Exec(exec::Exec),
    /// See what a pod writes from now on, and type to it
    Attach(attach::Attach),
}

impl PodCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::Run(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Start(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
            Self::Destroy(command) => command.run(session).await,
            Self::Wait(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Stats(command) => command.run(session).await,
            Self::Events(command) => command.run(session).await,
            Self::Exec(command) => command.run(session).await,
            Self::Attach(command) => command.run(session).await,
        }
    }
}

/// The pod as it is now.
async fn current(node: &NodeClient, name: &str, what: &str) -> Result<PodView> {
    let request = GetPodRequest {
        name: name.to_owned(),
    };
    let answer = node.pods().get(request).await;
    let pod = answer.map_err(cannot(node, format!("{what} the pod {name}")))?;
    Ok(pod.into_inner().into())
}

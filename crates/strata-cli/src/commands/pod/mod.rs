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
mod spec_args;
mod start;
mod stats;
mod stop;
mod wait;

use clap::Subcommand;
use strata_api::strata::v1::GetPodRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::view::PodView;

#[derive(Debug, Subcommand)]
pub enum PodCommand {
    /// Create pods without starting them
    Create(Box<create::Create>),
    /// Create and start a pod
    Run(Box<run::Run>),
    /// List the pods of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a pod
    Show(show::Show),
    /// Start pods
    Start(start::Start),
    /// Stop pods; their data is kept
    Stop(stop::Stop),
    /// Stop and delete pods
    #[command(visible_alias = "rm")]
    Destroy(destroy::Destroy),
    /// Wait until a pod stops and is not restarted
    Wait(wait::Wait),
    /// Show the logs of a pod
    Logs(logs::Logs),
    /// Show resource usage of pods
    Stats(stats::Stats),
    /// Show events of pods
    Events(events::Events),
    /// Run a command in a pod
    Exec(exec::Exec),
    /// Attach to the output and input of a pod
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

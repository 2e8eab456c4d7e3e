//! `strata hypervisor autoscale`: how much room is kept free over all
//! hypervisors, and what would be done to keep it.

mod plan;
mod set;
mod show;

use clap::Subcommand;
use strata_api::rest::Autoscaling;
use strata_client::rest::{Query, RestClient};

use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum AutoscaleCommand {
    /// Show the autoscaler settings
    Show(show::Show),
    /// Update the autoscaler settings
    Set(set::Set),
    /// Show what the autoscaler would do now, and why
    Plan(plan::Plan),
}

impl AutoscaleCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Show(command) => command.run(session).await,
            Self::Set(command) => command.run(session).await,
            Self::Plan(command) => command.run(session).await,
        }
    }
}

async fn current(rest: &RestClient) -> Result<Autoscaling> {
    let found = rest.get("", &Query::new()).await;
    Ok(found
        .map_err(unable("read the autoscaler settings"))?
        .object)
}

/// Capacity as text: `2 cpus, memory 4GB, 1 gpu`.
fn room(cpu: u64, memory: u64, gpu: u32) -> String {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut parts = Vec::new();
    if cpu > 0 {
        parts.push(format!("{} cpus", human::cores(number(cpu))));
    }
    if memory > 0 {
        parts.push(format!("memory {}", human::megabytes(number(memory))));
    }
    if gpu > 0 {
        let many = usize::try_from(gpu).unwrap_or(usize::MAX);
        parts.push(human::count(many, "gpu"));
    }
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => parts.join(", "),
    }
}

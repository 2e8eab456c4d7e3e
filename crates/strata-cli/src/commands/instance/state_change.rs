//! What start, stop and delete have in common: each name is asked for, then
//! each is seen through.

use clap::Args;
use strata_api::rest::{Instance, InstancePatch, InstanceState};
use strata_client::rest::RestClient;

use super::follow::{Goal, follow};
use super::{InstancesArg, current};
use crate::commands::last;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Waiting flags.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct InstanceWaitArgs {
    /// Return immediately; the server continues
    #[arg(short, long)]
    pub(super) detach: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// What is done to instances, in the words of its messages.
pub(super) struct StateChange {
    pub(super) verb: &'static str,
    pub(super) asked: &'static str,
    pub(super) goal: Goal,
}

impl StateChange {
    /// Asks for all of them, then waits for each.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        rest: &RestClient,
        which: &InstancesArg,
        detach: bool,
    ) -> Result {
        let mut failures = Vec::new();
        let mut asked = Vec::new();
        for name in &which.names {
            match self.ask(rest, name, which).await {
                Ok(instance) => asked.push((name, instance)),
                Err(failure) => failures.push(failure),
            }
        }
        for (name, instance) in asked {
            if detach {
                session.printer.note(&format!("{} {name}", self.asked));
                continue;
            }
            match follow(session, rest, &instance, self.goal).await {
                // The other ends are steps, which were told.
                Ok(()) if self.goal == Goal::Gone => {
                    session.printer.note(&format!("deleted {name}"));
                }
                Ok(()) => {}
                Err(failure) => failures.push(failure),
            }
        }
        last(session, failures)
    }

    async fn ask(&self, rest: &RestClient, name: &str, which: &InstancesArg) -> Result<Instance> {
        let failed = unable(format!("{} the instance {name}", self.verb));
        let query = which.scope.query();
        let status = match self.goal {
            Goal::Running => InstanceState::Running,
            Goal::Stopped => InstanceState::Stopped,
            Goal::Gone => {
                let now = current(rest, name, &which.scope, self.verb).await?.object;
                rest.delete::<Instance>(&now.id, &query)
                    .await
                    .map_err(failed)?;
                return Ok(now);
            }
        };
        let patch = InstancePatch {
            status: Some(status),
            ..Default::default()
        };
        let answer = rest.update(name, &query, &patch, None).await;
        answer.map_err(failed)
    }
}

//! Hypervisors: machines that are brought up and taken down.
//!
//! Every phase is recorded before the provider is called, under a tag that the
//! provider keeps: a server that dies in between leaves a record that says what
//! to look for, and an operation that goes on.

mod create;
mod destroy;
mod leader_only;
mod power;
mod prove;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use strata_machines::{Boot, Provider, ProviderError, Providers, Secret, Tag, Target};
use strata_types::machine::{MachineFailure, MachinePhase, MachineSpec, PowerState};
use strata_types::{Error, Result};
use strata_workflow::{Claim, Kind, StepContext, StepError};

pub use create::{CreateHypervisor, CreateInput};
pub use destroy::{DestroyHypervisor, DestroyInput};
pub use power::{SwitchInput, SwitchMachine};
pub use prove::CellProof;

use self::leader_only::LeaderOnly;
use crate::core::{Core, Machine, Node, NodeCondition, now_ms};
use crate::operations::step_failed;

/// Tries a node that came up: that it runs something in a cell.
pub trait HypervisorProof: Send + Sync + 'static {
    /// Runs something on the node and checks that it did.
    fn prove<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// Makes a token with which the node of a machine may join, while this
/// operation expects it.
pub type JoinTokens = Arc<dyn Fn(&str, &str) -> Result<Secret> + Send + Sync>;

/// What the operations of hypervisors work with. Cheap to clone.
#[derive(Clone)]
pub struct Hypervisors {
    /// The inventory and the nodes.
    pub core: Core,
    pub providers: Providers,
    /// How a machine may join.
    pub join_tokens: JoinTokens,
    /// Tries nodes that came up.
    pub prove: Arc<dyn HypervisorProof>,
    /// Where machines reach this server, unless their provider knows better.
    pub server: String,
    /// The id of this control plane, for tags.
    pub run: String,
}

impl Hypervisors {
    /// Of a control plane that brings no machines up.
    pub fn none(core: Core) -> Self {
        struct NeverProves;
        impl HypervisorProof for NeverProves {
            fn prove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
                Box::pin(std::future::ready(Ok(())))
            }
        }
        Self {
            core,
            providers: Providers::default(),
            join_tokens: Arc::new(|_, _| Err(Error::wrong_state("nodes cannot join this server"))),
            prove: Arc::new(NeverProves),
            server: String::new(),
            run: String::new(),
        }
    }

    /// A machine as its provider's driver needs to know it.
    pub fn target(&self, machine: &Machine) -> Target {
        Target {
            tag: Tag {
                run: self.run.clone(),
                machine: machine.id.clone(),
            },
            spec: machine.spec.clone(),
        }
    }

    /// Refuses a machine of a provider that this server does not have. One
    /// without any keeps an inventory alone.
    pub(crate) fn check_provider(&self, spec: &MachineSpec) -> Result<()> {
        if self.providers.all().next().is_none() {
            return Ok(());
        }
        let found = self.providers.get(spec.provider);
        found.map(drop).map_err(|error| error.in_field("provider"))
    }

    /// Whether the node of a machine that was brought up is there: one that is
    /// lost, has left, or whose machine is off, is not.
    pub(crate) fn serves(&self, machine: &Machine) -> bool {
        let node = self.core.node(machine.id.as_str());
        let ready = |node: &Node| node.condition == NodeCondition::Ready && !node.leaving;
        machine.power != PowerState::Off && node.is_ok_and(|node| ready(&node))
    }

    /// A machine and its driver, which changes the machine only while this
    /// server leads.
    pub fn reach(&self, id: &str) -> Result<(Arc<dyn Provider>, Target)> {
        let machine = self.core.machine(id)?;
        let provider = self.providers.get(machine.spec.provider)?;
        let provider = LeaderOnly::new(provider, self.core.clone());
        Ok((Arc::new(provider), self.target(&machine)))
    }

    fn boot(&self, provider: &dyn Provider, target: &Target, operation: &str) -> Result<Boot> {
        let seen = provider.server_seen_from_machines();
        Ok(Boot {
            server: seen.unwrap_or_else(|| self.server.clone()),
            join_token: (self.join_tokens)(target.id().as_str(), operation)?,
            labels: target.spec.labels.clone(),
        })
    }

    /// Turns a machine into another phase.
    async fn set_phase(
        &self,
        id: &str,
        phase: MachinePhase,
        operation: &str,
    ) -> Result<(), StepError> {
        let turned = self.core.lead_machine(id, |now| {
            let mut next = now.clone();
            next.set_phase(phase, operation)?;
            Ok(next)
        });
        turned.await.map(drop).map_err(step_failed)
    }

    /// Records what went wrong in a phase, and returns it.
    async fn note<T>(
        &self,
        id: &str,
        phase: MachinePhase,
        result: Result<T, StepError>,
    ) -> Result<T, StepError> {
        if let Err(error) = &result
            && !matches!(error, StepError::Cancelled)
        {
            let why: String = error.to_string().chars().take(2000).collect();
            let noted = self.core.lead_machine(id, |now| {
                let mut next = now.clone();
                let at_ms = now_ms();
                let why = why.clone();
                next.failure = Some(MachineFailure { phase, why, at_ms });
                Ok(next)
            });
            if let Err(error) = noted.await {
                tracing::warn!(machine = id, %error, "failure not recorded");
            }
        }
        result
    }

    /// The node of a machine is gone, and what was on it is placed elsewhere.
    async fn remove_node(&self, id: &str, why: &str) -> Result<(), StepError> {
        if self.core.node(id).is_err() {
            return Ok(());
        }
        let lost = self.core.mark_node_lost(id, why).await;
        let lost = lost.map_err(step_failed)?;
        self.core.fail_over_all(&lost).await;
        self.core.delete_node(id, true).await.map_err(step_failed)
    }
}

/// Refuses a machine that is of another cluster, or of one at all.
pub(crate) fn is_for(machine: &Machine, cluster: &str) -> Result<()> {
    let own = machine.cluster.as_ref().map_or("", |name| name.as_str());
    if own == cluster {
        return Ok(());
    }
    let why = match own {
        "" => format!(
            "machine {} is not of cluster {cluster} any more",
            machine.id
        ),
        own => format!("machine {} is of cluster {own}", machine.id),
    };
    Err(Error::wrong_state(why)
        .with_hint("it comes and goes with its cluster: strata pool scale, strata cluster delete"))
}

/// What an operation on a machine has to itself: it and its node.
fn claims(machine: &str) -> Vec<Claim> {
    vec![
        Claim::exclusive(format!("machine/{machine}")),
        Claim::exclusive(format!("node/{machine}")),
    ]
}

/// Erasing disks may take a provider that long.
const WIPE_TIMEOUT: Duration = Duration::from_secs(2 * 24 * 3600);

/// Wipes a machine, and waits for a provider that is still at it.
async fn wipe_with_retries<K: Kind>(
    ctx: &StepContext<K>,
    provider: &dyn Provider,
    target: &Target,
) -> Result<(), StepError> {
    let mut pause = Duration::from_millis(200);
    loop {
        match provider.wipe(target).await {
            Err(error) if error.is_transient() => {
                ctx.progress(format!("not yet: {error}"));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(60));
            }
            other => return other.map_err(provider_failed),
        }
    }
}

/// A step failed at the provider.
#[allow(clippy::needless_pass_by_value)] // for map_err
fn provider_failed(error: ProviderError) -> StepError {
    match error.is_transient() {
        true => StepError::transient(error.to_string()),
        false => StepError::permanent(error.to_string()),
    }
}

//! Switches a machine by hand. Nothing is recorded but what was observed: when
//! a hypervisor is switched off, its node is lost, as if a fuse had blown. What
//! was on it is placed elsewhere at once: nothing runs on a machine that is
//! off.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_machines::Power;
use strata_types::machine::PowerState;
use strata_workflow::{Claim, Kind, Outputs, Step, StepContext, StepError};

use super::{Hypervisors, provider_failed};
use crate::operations::step_failed;

#[derive(Default)]
pub struct SwitchMachine;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwitchInput {
    pub machine: String,
    pub power: strata_api::rest::PowerAction,
}

type Ctx = StepContext<SwitchMachine>;

impl Kind for SwitchMachine {
    type Input = SwitchInput;
    type Context = Hypervisors;
    const NAME: &'static str = "machine-power";

    fn claims(&self, input: &SwitchInput) -> Vec<Claim> {
        vec![Claim::exclusive(format!("machine/{}", input.machine))]
    }

    fn steps(&self, _: &SwitchInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let switch = Step::new("switch", |ctx: Ctx| async move { switch(&ctx).await });
        Ok(vec![switch.timeout(Duration::from_secs(5 * 60))])
    }
}

async fn switch(ctx: &Ctx) -> Result<(), StepError> {
    use strata_api::rest::PowerAction;
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    let power = match ctx.input.power {
        PowerAction::On => Power::On,
        PowerAction::Off => Power::Off,
        PowerAction::Cycle => Power::Cycle,
    };
    let switched = provider.power(&target, power).await;
    switched.map_err(provider_failed)?;
    let seen = provider.power_state(&target).await;
    let seen = seen.map_err(provider_failed)?;
    let noted = own.core.lead_machine(id, |now| {
        let mut next = now.clone();
        next.power = seen;
        Ok(next)
    });
    noted.await.map_err(step_failed)?;
    if seen == PowerState::Off && own.core.node(id).is_ok() {
        let why = "its machine was switched off";
        own.core
            .mark_node_lost(id, why)
            .await
            .map_err(step_failed)?;
        own.core.note_powered_off(id).await.map_err(step_failed)?;
    }
    Ok(())
}

//! Machines that are only simulated, with knobs to have calls fail: for tests.
//!
//! A fault strikes before the call has its effect, or after: as when the answer
//! is lost. The caller cannot know which, as with real ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use strata_types::machine::{PowerState, ProviderKind};

use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Tag, Target, Up};

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The call fails and nothing has happened.
    Before,
    /// It has happened, and the answer is lost.
    After,
    /// The call fails permanently; nothing has happened.
    Refused,
}

#[derive(Clone, Debug, Default)]
pub struct SimulatedMachine {
    pub tag: Option<Tag>,
    /// Whether it is on.
    pub on: bool,
    /// What it booted last.
    pub boot: Option<Boot>,
    /// How often it was booted.
    pub boots: u64,
    /// How often it was wiped.
    pub wipes: u64,
    /// Something of ours is on it.
    pub dirty: bool,
}

type Faults = Box<dyn FnMut(&str, &str) -> Fault + Send>;

/// A provider that simulates. Cheap to clone.
#[derive(Clone, Default)]
pub struct Sim(Arc<Mutex<SimState>>);

#[derive(Default)]
struct SimState {
    machines: BTreeMap<String, SimulatedMachine>,
    faults: Option<Faults>,
    /// A machine was booted for one while another had it: never right.
    double_uses: u64,
}

impl Sim {
    /// With machines of these handles.
    pub fn new<'a>(handles: impl IntoIterator<Item = &'a str>) -> Self {
        let sim = Self::default();
        for handle in handles {
            sim.guard()
                .machines
                .insert(handle.into(), SimulatedMachine::default());
        }
        sim
    }

    fn guard(&self) -> MutexGuard<'_, SimState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `faults` called at every call, with its name and the machine's
    /// handle, for what goes wrong.
    pub fn set_faults(&self, faults: impl FnMut(&str, &str) -> Fault + Send + 'static) {
        self.guard().faults = Some(Box::new(faults));
    }

    /// Nothing goes wrong any more.
    pub fn clear_faults(&self) {
        self.guard().faults = None;
    }

    /// All machines as they are.
    pub fn machines(&self) -> BTreeMap<String, SimulatedMachine> {
        self.guard().machines.clone()
    }

    /// How often a machine was booted for one while another had it.
    pub fn double_uses(&self) -> u64 {
        self.guard().double_uses
    }

    /// Runs one call, with what goes wrong.
    fn call<T>(
        &self,
        name: &str,
        handle: &str,
        act: impl FnOnce(&mut SimState) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let mut all = self.guard();
        let fault = match &mut all.faults {
            Some(faults) => faults(name, handle),
            None => Fault::None,
        };
        let lost = || ProviderError::Unavailable(format!("{name} of {handle}: no answer"));
        match fault {
            Fault::Before => return Err(lost()),
            Fault::Refused => {
                return Err(ProviderError::Refused(format!("{name} of {handle}: no")));
            }
            Fault::None | Fault::After => {}
        }
        let done = act(&mut all)?;
        match fault {
            Fault::After => Err(lost()),
            _ => Ok(done),
        }
    }
}

fn of<'a>(
    all: &'a mut SimState,
    target: &Target,
) -> Result<&'a mut SimulatedMachine, ProviderError> {
    let handle = target.handle();
    all.machines
        .get_mut(handle)
        .ok_or_else(|| ProviderError::NoSuchMachine(format!("there is no {handle}")))
}

impl Provider for Sim {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Sim
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ProviderError>> {
        let found = self.call("discover", "", |all| {
            let reported = all.machines.iter().map(|(handle, machine)| Discovered {
                handle: handle.clone(),
                hostname: Some(format!("{handle}.sim")),
                tag: machine.tag.clone(),
                power: state(machine),
                cpu: Some(4),
                ram: Some(8000),
            });
            Ok(reported.collect())
        });
        std::future::ready(found).boxed()
    }

    fn boot<'a>(
        &'a self,
        machine: &'a Target,
        boot: &'a Boot,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let booted = self.call("boot", machine.handle(), |all| {
            let simulated = of(all, machine)?;
            if simulated
                .tag
                .as_ref()
                .is_some_and(|tag| *tag != machine.tag)
            {
                all.double_uses += 1;
                return Err(ProviderError::Taken("another has it".into()));
            }
            simulated.tag = Some(machine.tag.clone());
            simulated.on = true;
            simulated.dirty = true;
            simulated.boots += 1;
            simulated.boot = Some(boot.clone());
            Ok(())
        });
        std::future::ready(booted).boxed()
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up, ProviderError>> {
        let up = self.call("wait", machine.handle(), |all| match of(all, machine)?.on {
            true => Ok(Up::default()),
            false => Err(ProviderError::Unavailable("it is off".into())),
        });
        std::future::ready(up).boxed()
    }

    fn power<'a>(
        &'a self,
        machine: &'a Target,
        power: Power,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let switched = self.call("power", machine.handle(), |all| {
            of(all, machine)?.on = power != Power::Off;
            Ok(())
        });
        std::future::ready(switched).boxed()
    }

    fn power_state<'a>(
        &'a self,
        machine: &'a Target,
    ) -> BoxFuture<'a, Result<PowerState, ProviderError>> {
        let seen = self.call("power_state", machine.handle(), |all| {
            Ok(state(of(all, machine)?))
        });
        std::future::ready(seen).boxed()
    }

    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<(), ProviderError>> {
        let wiped = self.call("wipe", machine.handle(), |all| {
            let Ok(simulated) = of(all, machine) else {
                return Ok(());
            };
            if simulated
                .tag
                .as_ref()
                .is_some_and(|tag| *tag != machine.tag)
            {
                return Ok(());
            }
            (simulated.on, simulated.dirty, simulated.boot) = (false, false, None);
            simulated.tag = None;
            simulated.wipes += 1;
            Ok(())
        });
        std::future::ready(wiped).boxed()
    }

    fn console<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Console, ProviderError>> {
        let handle = machine.handle().to_owned();
        let opened = self.call("console", &handle.clone(), |all| {
            of(all, machine)?;
            let text = format!("{handle} is simulated\n");
            Ok(futures_util::stream::iter([Ok(text.into())]).boxed())
        });
        std::future::ready(opened).boxed()
    }
}

fn state(machine: &SimulatedMachine) -> PowerState {
    match machine.on {
        true => PowerState::On,
        false => PowerState::Off,
    }
}

//! A driver that changes machines only while this server leads for certain.
//!
//! A server that stood still in the middle of a step goes on with it when it is
//! continued, before it notices that another leads: that one may have finished
//! the operation, and given the machine to another. So each call that changes a
//! machine is preceded by a look at the deadline of the lead. What remains is a
//! call that was sent before, and is in transit.

use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use strata_machines::{Boot, Console, Discovered, Power, Provider, ProviderError, Target, Up};
use strata_types::machine::{PowerState, ProviderKind};

use crate::core::Core;

pub(super) struct LeaderOnly {
    provider: Arc<dyn Provider>,
    core: Core,
}

impl LeaderOnly {
    pub(super) fn new(provider: Arc<dyn Provider>, core: Core) -> Self {
        Self { provider, core }
    }

    /// Makes a call, unless this server does not lead.
    fn led<'a>(
        &'a self,
        call: impl FnOnce(&'a dyn Provider) -> BoxFuture<'a, Result<(), ProviderError>>,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        match self.core.leads_now() {
            true => call(self.provider.as_ref()),
            false => Box::pin(ready(Err(ProviderError::Unavailable(
                "this server does not lead any more: the machine is left as it is".into(),
            )))),
        }
    }
}

impl Provider for LeaderOnly {
    fn kind(&self) -> ProviderKind {
        self.provider.kind()
    }

    fn server_seen_from_machines(&self) -> Option<String> {
        self.provider.server_seen_from_machines()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ProviderError>> {
        self.provider.discover()
    }

    fn boot<'a>(
        &'a self,
        machine: &'a Target,
        boot: &'a Boot,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.led(|provider| provider.boot(machine, boot))
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up, ProviderError>> {
        self.provider.wait(machine)
    }

    fn power<'a>(
        &'a self,
        machine: &'a Target,
        power: Power,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.led(|provider| provider.power(machine, power))
    }

    fn power_state<'a>(
        &'a self,
        machine: &'a Target,
    ) -> BoxFuture<'a, Result<PowerState, ProviderError>> {
        self.provider.power_state(machine)
    }

    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.led(|provider| provider.wipe(machine))
    }

    fn console<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Console, ProviderError>> {
        self.provider.console(machine)
    }
}

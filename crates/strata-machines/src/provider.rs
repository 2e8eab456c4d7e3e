//! The one trait of all providers, and what goes through it.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use strata_types::machine::{MachineId, MachineSpec, PowerState, ProviderKind};

use crate::{ProviderError, Secret};

/// Whose a machine is: the run that took it, and as which machine of its
/// inventory. The provider keeps it with the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// The control plane, by an id that it keeps.
    pub run: String,
    /// The machine of its inventory.
    pub machine: MachineId,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strata-{}-{}", self.run, self.machine)
    }
}

impl Tag {
    /// Reads what `Display` writes. `None` for what is another owner's.
    pub fn parse(text: &str) -> Option<Self> {
        let (run, machine) = text.strip_prefix("strata-")?.split_once('-')?;
        (!run.is_empty()).then_some(())?;
        Some(Self {
            run: run.to_owned(),
            machine: machine.parse().ok()?,
        })
    }
}

/// A machine of the inventory, as a driver needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whose it is while it is in use.
    pub tag: Tag,
    /// Its specification in the inventory.
    pub spec: MachineSpec,
}

impl Target {
    /// Its id in the inventory.
    pub fn id(&self) -> &MachineId {
        &self.tag.machine
    }

    /// What the provider calls it: its id by default.
    pub fn handle(&self) -> &str {
        match self.spec.handle.as_str() {
            "" => self.tag.machine.as_str(),
            handle => handle,
        }
    }
}

/// What a machine that boots needs to become a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The server that it joins, as machines of this provider reach it.
    pub server: String,
    /// Proves that it may. Made for this boot, good for one join.
    pub join_token: Secret,
    /// What its node reports itself.
    pub labels: BTreeMap<String, String>,
}

/// What to do with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Power {
    /// On, with whatever it boots.
    On,
    Off,
    Cycle,
}

/// A machine as its provider sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// What the provider calls it.
    pub handle: String,
    /// Its host name, where the provider knows it.
    pub hostname: Option<String>,
    /// Whose it is, where it is taken by a caller that tags as we do.
    pub tag: Option<Tag>,
    /// Whether it is on.
    pub power: PowerState,
    /// Threads, where the provider knows.
    pub cpu: Option<u32>,
    /// MB, where the provider knows.
    pub ram: Option<u64>,
}

/// What is known of a machine that came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Up {
    /// Where it is reached, where the provider knows.
    pub address: Option<String>,
}

/// A way to bring machines up and down.
///
/// All calls are **idempotent**: a caller that was killed in the middle calls
/// again, and the second call finds what the first has made. Every driver
/// bounds how long a call takes by itself (a minute, `wait` apart); being
/// dropped at an await point leaves something that the same call, or
/// [`Provider::wipe`], copes with.
pub trait Provider: Send + Sync + 'static {
    /// Which one it is.
    fn kind(&self) -> ProviderKind;

    /// How machines of this provider reach the server: what is configured, or
    /// what the driver knows better. `None` for the server's address.
    fn server_seen_from_machines(&self) -> Option<String> {
        None
    }

    /// All machines it knows, taken or not.
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ProviderError>>;

    /// Takes the machine under its tag, if it is not yet, and has it boot our
    /// node. [`ProviderError::Taken`] when it is another owner's; then nothing
    /// was changed.
    fn boot<'a>(
        &'a self,
        machine: &'a Target,
        boot: &'a Boot,
    ) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Waits until the provider sees it run, as far as it can see. That its
    /// node has come is not for the provider to report.
    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up, ProviderError>>;

    /// Switches it. Off when it is off, or on when it is on, is fine.
    fn power<'a>(
        &'a self,
        machine: &'a Target,
        power: Power,
    ) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Whether it is on.
    fn power_state<'a>(
        &'a self,
        machine: &'a Target,
    ) -> BoxFuture<'a, Result<PowerState, ProviderError>>;

    /// Switches it off if it is on, erases what we put on it, takes our tag
    /// off and gives it back. A machine that is not ours, or not there any
    /// more, is left alone, and that is a success.
    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// What it prints on its console: what there is, then live, until dropped.
    fn console<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Console, ProviderError>>;
}

/// What a machine prints.
pub type Console = BoxStream<'static, Result<Bytes, ProviderError>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_tags_round_trip() {
        let tag = Tag {
            run: "0a1b2c3d".into(),
            machine: "rack-1-a".parse().unwrap(),
        };
        assert_eq!(Tag::parse(&tag.to_string()), Some(tag));
        for foreign in ["", "strata", "strata-", "strata--x", "strata-x", "web-1"] {
            assert_eq!(Tag::parse(foreign), None, "{foreign}");
        }
    }
}

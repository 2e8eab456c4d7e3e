//! What drivers have in common whose machines are made and kept by a node, be
//! they inside its own machine or virtual: a machine is there from its first
//! boot to its wipe, carries its tag as a label, and its name is free before
//! and after, which counts as off.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_types::machine::{PowerState, ProviderKind};

use crate::hosting::{Hosting, or_gone};
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Target, Up};

/// How often a boot looks again when what it found has changed meanwhile.
const TRIES: usize = 3;
/// How long a machine may take until it runs, and how often that is looked at.
const RUNS_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

type Result<T> = std::result::Result<T, ProviderError>;

/// A machine as its node sees it.
pub struct Seen {
    pub(crate) machine: Discovered,
    pub(crate) address: String,
}

/// One kind of machines of a node. Calls name a machine by its handle; for one
/// that is not there they answer [`ProviderError::NoSuchMachine`].
pub trait Hosted: Send + Sync + 'static {
    const KIND: ProviderKind;

    fn node(&self) -> &Hosting;
    fn server(&self) -> Option<&str>;
    fn list(&self) -> impl Future<Output = Result<Vec<Seen>>> + Send;
    fn get(&self, handle: &str) -> impl Future<Output = Result<Seen>> + Send;
    /// Makes it with our tag and switches it on; [`ProviderError::Taken`] when
    /// something else has the name.
    fn make(&self, machine: &Target, boot: &Boot) -> impl Future<Output = Result<()>> + Send;
    /// Has one that is there and off come up as a node again.
    fn boot_again(&self, machine: &Target, boot: &Boot) -> impl Future<Output = Result<()>> + Send;
    fn start(&self, handle: &str) -> impl Future<Output = Result<()>> + Send;
    /// At once: whoever wants it to end in order sees to that before.
    fn stop(&self, handle: &str) -> impl Future<Output = Result<()>> + Send;
    fn destroy(&self, handle: &str) -> impl Future<Output = Result<()>> + Send;
    /// Takes away what we keep of it ourselves.
    fn forget(&self, machine: &Target) -> impl Future<Output = Result<()>> + Send;
    fn console(&self, handle: &str) -> impl Future<Output = Result<Console>> + Send;
}

/// One that is ours; none when there is none at all.
async fn ours(hosted: &impl Hosted, machine: &Target) -> Result<Option<Seen>> {
    let handle = machine.handle();
    let found = or_gone(hosted.get(handle).await)?;
    match found {
        Some(seen) if seen.machine.tag.as_ref() != Some(&machine.tag) => Err(ProviderError::Taken(
            format!("there is a machine {handle} already that was made by somebody else"),
        )),
        found => Ok(found),
    }
}

fn missing(machine: &Target) -> ProviderError {
    let handle = machine.handle();
    ProviderError::NoSuchMachine(format!("there is no machine {handle}: boot it first"))
}

async fn boot(hosted: &impl Hosted, machine: &Target, boot: &Boot) -> Result<()> {
    for _ in 0..TRIES {
        let done = match ours(hosted, machine).await? {
            Some(seen) if seen.machine.power == PowerState::On => return Ok(()),
            Some(_) => or_gone(hosted.boot_again(machine, boot).await)?,
            None => match hosted.make(machine, boot).await {
                // Somebody was faster, maybe an earlier call of ours.
                Err(ProviderError::Taken(why)) => match ours(hosted, machine).await? {
                    Some(_) => None,
                    // The name is that of something else than a machine.
                    None => return Err(ProviderError::Taken(why)),
                },
                made => Some(made?),
            },
        };
        if done.is_some() {
            return Ok(());
        }
    }
    let handle = machine.handle();
    Err(ProviderError::Unavailable(format!(
        "{handle} comes and goes: somebody else is at it"
    )))
}

async fn until_on(hosted: &impl Hosted, machine: &Target) -> Result<Up> {
    loop {
        match ours(hosted, machine).await {
            Ok(Some(seen)) if seen.machine.power == PowerState::On => {
                let address = Some(seen.address).filter(|text| !text.is_empty());
                return Ok(Up { address });
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(missing(machine)),
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn power(hosted: &impl Hosted, machine: &Target, power: Power) -> Result<()> {
    let handle = machine.handle();
    match (ours(hosted, machine).await?, power) {
        (None, Power::Off) => Ok(()),
        (None, Power::On | Power::Cycle) => Err(missing(machine)),
        (Some(_), Power::On) => hosted.start(handle).await,
        (Some(_), Power::Off) => or_gone(hosted.stop(handle).await).map(drop),
        (Some(_), Power::Cycle) => {
            hosted.stop(handle).await?;
            hosted.start(handle).await
        }
    }
}

async fn wipe(hosted: &impl Hosted, machine: &Target) -> Result<()> {
    let handle = machine.handle();
    match ours(hosted, machine).await {
        Ok(Some(_)) => {
            or_gone(hosted.stop(handle).await)?;
            or_gone(hosted.destroy(handle).await)?;
        }
        Ok(None) | Err(ProviderError::Taken(_)) => {}
        Err(error) => return Err(error),
    }
    hosted.forget(machine).await
}

impl<H: Hosted> Provider for H {
    fn kind(&self) -> ProviderKind {
        H::KIND
    }

    fn server_seen_from_machines(&self) -> Option<String> {
        self.server().map(str::to_owned)
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>>> {
        self.node().bounded(async {
            let all = self.list().await?;
            Ok(all.into_iter().map(|seen| seen.machine).collect())
        })
    }

    fn boot<'a>(&'a self, machine: &'a Target, told: &'a Boot) -> BoxFuture<'a, Result<()>> {
        self.node().bounded(boot(self, machine, told))
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up>> {
        let waiting = async {
            let up = tokio::time::timeout(RUNS_WITHIN, until_on(self, machine)).await;
            up.unwrap_or_else(|_| {
                let (handle, within) = (machine.handle(), RUNS_WITHIN.as_secs());
                Err(ProviderError::Unavailable(format!(
                    "{handle} does not run after {within} s"
                )))
            })
        };
        waiting.boxed()
    }

    fn power<'a>(&'a self, machine: &'a Target, what: Power) -> BoxFuture<'a, Result<()>> {
        self.node().bounded(power(self, machine, what))
    }

    fn power_state<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<PowerState>> {
        self.node().bounded(async {
            let found = or_gone(self.get(machine.handle()).await)?;
            Ok(found.map_or(PowerState::Off, |seen| seen.machine.power))
        })
    }

    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<()>> {
        self.node().bounded(wipe(self, machine))
    }

    fn console<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Console>> {
        self.node().bounded(async {
            let found = ours(self, machine).await?;
            found.ok_or_else(|| missing(machine))?;
            Hosted::console(self, machine.handle()).await
        })
    }
}

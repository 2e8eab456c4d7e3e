//! What drivers have in common whose machines are made and kept by a node, be
//! they inside its own machine or virtual: a machine is there from its first
//! boot to its wipe, carries its tag as a label, and its name is free before
//! and after, which counts as off.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_types::machine::{PowerState, ProviderKind};

use crate::hosting::{Hosting, none_if_not_found};
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Target, Up};

/// How often a boot is tried again when what it found has changed meanwhile.
const MAX_ATTEMPTS: usize = 3;
/// How long a machine may take until it runs, and how often that is checked.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

type Result<T> = std::result::Result<T, ProviderError>;

/// A machine as its node sees it.
pub struct ObservedMachine {
    pub(crate) machine: Discovered,
    pub(crate) address: String,
}

/// One kind of machines of a node. Calls name a machine by its handle; for one
/// that is not there they answer [`ProviderError::NoSuchMachine`].
pub trait Hosted: Send + Sync + 'static {
    const KIND: ProviderKind;

    fn node(&self) -> &Hosting;
    fn server(&self) -> Option<&str>;
    fn list(&self) -> impl Future<Output = Result<Vec<ObservedMachine>>> + Send;
    fn get(&self, handle: &str) -> impl Future<Output = Result<ObservedMachine>> + Send;
    /// Makes it with our tag and switches it on; [`ProviderError::Taken`] when
    /// something else has the name.
    fn make(&self, machine: &Target, boot: &Boot) -> impl Future<Output = Result<()>> + Send;
    /// Has one that is there and off come up as a node again.
    fn reboot(&self, machine: &Target, boot: &Boot) -> impl Future<Output = Result<()>> + Send;
    fn start(&self, handle: &str) -> impl Future<Output = Result<()>> + Send;
    /// At once: a caller that wants an orderly end arranges that before.
    fn stop(&self, handle: &str) -> impl Future<Output = Result<()>> + Send;
    fn destroy(&self, handle: &str) -> impl Future<Output = Result<()>> + Send;
    /// Takes away what we keep of it ourselves.
    fn discard(&self, machine: &Target) -> impl Future<Output = Result<()>> + Send;
    fn console(&self, handle: &str) -> impl Future<Output = Result<Console>> + Send;
}

/// One that is ours; none when there is none at all.
async fn ours(hosted: &impl Hosted, machine: &Target) -> Result<Option<ObservedMachine>> {
    let handle = machine.handle();
    let found = none_if_not_found(hosted.get(handle).await)?;
    match found {
        Some(seen) if seen.machine.tag.as_ref() != Some(&machine.tag) => Err(ProviderError::Taken(
            format!("there is a machine {handle} already that another owner created"),
        )),
        found => Ok(found),
    }
}

fn missing(machine: &Target) -> ProviderError {
    let handle = machine.handle();
    ProviderError::NoSuchMachine(format!("there is no machine {handle}: boot it first"))
}

async fn boot(hosted: &impl Hosted, machine: &Target, boot: &Boot) -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
        let done = match ours(hosted, machine).await? {
            Some(seen) if seen.machine.power == PowerState::On => return Ok(()),
            Some(_) => none_if_not_found(hosted.reboot(machine, boot).await)?,
            None => match hosted.make(machine, boot).await {
                // Another caller was faster, maybe an earlier call of ours.
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
        "{handle} changes concurrently: another owner uses it"
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
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn power(hosted: &impl Hosted, machine: &Target, power: Power) -> Result<()> {
    let handle = machine.handle();
    match (ours(hosted, machine).await?, power) {
        (None, Power::Off) => Ok(()),
        (None, Power::On | Power::Cycle) => Err(missing(machine)),
        (Some(_), Power::On) => hosted.start(handle).await,
        (Some(_), Power::Off) => none_if_not_found(hosted.stop(handle).await).map(drop),
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
            none_if_not_found(hosted.stop(handle).await)?;
            none_if_not_found(hosted.destroy(handle).await)?;
        }
        Ok(None) | Err(ProviderError::Taken(_)) => {}
        Err(error) => return Err(error),
    }
    hosted.discard(machine).await
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

    fn boot<'a>(&'a self, machine: &'a Target, reported: &'a Boot) -> BoxFuture<'a, Result<()>> {
        self.node().bounded(boot(self, machine, reported))
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up>> {
        let waiting = async {
            let up = tokio::time::timeout(START_TIMEOUT, until_on(self, machine)).await;
            up.unwrap_or_else(|_| {
                let (handle, within) = (machine.handle(), START_TIMEOUT.as_secs());
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
            let found = none_if_not_found(self.get(machine.handle()).await)?;
            let ours = found.filter(|seen| seen.machine.tag.as_ref() == Some(&machine.tag));
            Ok(ours.map_or(PowerState::Unknown, |seen| seen.machine.power))
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

#[cfg(test)]
mod tests {
    use strata_types::machine::MachineSpec;

    use super::*;
    use crate::Tag;

    /// A node with one machine, which is off.
    struct OneMachine {
        node: Hosting,
        tag: Tag,
    }

    fn tag(run: &str) -> Tag {
        Tag {
            run: run.into(),
            machine: "m1".parse().unwrap(),
        }
    }

    fn unused<T>() -> Result<T> {
        Err(ProviderError::Unavailable("not part of the test".into()))
    }

    impl Hosted for OneMachine {
        const KIND: ProviderKind = ProviderKind::Local;

        fn node(&self) -> &Hosting {
            &self.node
        }

        fn server(&self) -> Option<&str> {
            None
        }

        async fn list(&self) -> Result<Vec<ObservedMachine>> {
            Ok(vec![self.get("m1").await?])
        }

        async fn get(&self, handle: &str) -> Result<ObservedMachine> {
            if handle != "m1" {
                return Err(ProviderError::NoSuchMachine(handle.to_owned()));
            }
            Ok(ObservedMachine {
                machine: Discovered {
                    handle: handle.to_owned(),
                    hostname: None,
                    tag: Some(self.tag.clone()),
                    power: PowerState::Off,
                    cpu: None,
                    ram: None,
                },
                address: String::new(),
            })
        }

        async fn make(&self, _: &Target, _: &Boot) -> Result<()> {
            unused()
        }

        async fn reboot(&self, _: &Target, _: &Boot) -> Result<()> {
            unused()
        }

        async fn start(&self, _: &str) -> Result<()> {
            unused()
        }

        async fn stop(&self, _: &str) -> Result<()> {
            unused()
        }

        async fn destroy(&self, _: &str) -> Result<()> {
            unused()
        }

        async fn discard(&self, _: &Target) -> Result<()> {
            unused()
        }

        async fn console(&self, _: &str) -> Result<Console> {
            unused()
        }
    }

    #[tokio::test]
    async fn only_a_machine_of_ours_that_is_there_is_known_to_be_off() {
        let node = Hosting::new(strata_client::Target::Unix("/nowhere".into()));
        let hosted = OneMachine {
            node,
            tag: tag("aa"),
        };
        for (run, handle, power) in [
            ("aa", "m1", PowerState::Off),
            ("bb", "m1", PowerState::Unknown),
            ("aa", "m2", PowerState::Unknown),
        ] {
            let target = Target {
                tag: tag(run),
                spec: MachineSpec {
                    provider: ProviderKind::Local,
                    handle: handle.into(),
                    address: String::new(),
                    credentials: String::new(),
                    cpu: None,
                    ram: None,
                    disk: None,
                    labels: Default::default(),
                },
            };
            let seen = hosted.power_state(&target).await;
            assert_eq!(seen, Ok(power), "{run} {handle}");
        }
    }
}

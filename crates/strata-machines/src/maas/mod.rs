//! Machines of a MAAS region (API 2.0). MAAS allocates, deploys a system, and
//! releases; the system that it deploys is instructed by cloud-init to become
//! our node.
//!
//! ```text
//! config      [machines.maas]
//! oauth       authentication
//! region      requests, and what MAAS says
//! machine     what is read of a machine
//! user_data   what a deployed machine does first
//! find        which machine is ours, and taking one
//! ```
//!
//! Whose a machine is stands in two places. The allocation itself carries the
//! tag as its `agent_name`, so one whose answer was lost is found again; and
//! for people, and to report what others tagged, it is in the owner's data.
//! MAAS clears both when a machine is released.

mod config;
mod find;
mod machine;
mod oauth;
mod region;
mod user_data;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use strata_types::machine::{PowerState, ProviderKind};

use crate::call::within;
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Target, Up};
pub use config::{MaasConfig, MaasCredentials, MaasLimits};
use find::Probed;
use machine::{BOOT, Status, TAG};

/// The driver. Cheap to clone.
#[derive(Clone)]
pub struct Maas(Arc<Inner>);

struct Inner {
    config: MaasConfig,
    probed: Probed,
}

impl Maas {
    /// With this configuration. Nothing is reached yet.
    pub fn new(config: MaasConfig) -> Self {
        let probed = Probed::default();
        Self(Arc::new(Inner { config, probed }))
    }
}

/// Names a boot without reporting its token.
fn fingerprint(boot: &Boot) -> String {
    let hash = Sha256::digest(boot.join_token.expose().as_bytes());
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Inner {
    async fn boot(&self, target: &Target, boot: &Boot) -> Result<(), ProviderError> {
        // Before anything is taken: a bad setting must not cost a machine.
        let user_data = user_data::user_data(&self.config, target, boot)?;
        let user_data = BASE64_STANDARD.encode(user_data);
        let region = self.region(&target.spec)?;
        let tag = target.tag.to_string();
        let machine = match self.ours(&region, &tag).await? {
            Some(machine) => machine,
            None => self.allocate(&region, target).await?,
        };
        let (id, fingerprint) = (machine.system_id.clone(), fingerprint(boot));
        let same_boot = machine.owner_data.get(BOOT) == Some(&fingerprint);
        match machine.status() {
            Status::Allocated => {}
            Status::Deploying | Status::Deployed if same_boot => return Ok(()),
            Status::Deploying | Status::Deployed => {
                // Its token is an older one: it would never come.
                region.order(&id, "release", &[("comment", &tag)]).await?;
                return Err(ProviderError::Unavailable(format!(
                    "{} for an older boot, releasing it to be deployed again",
                    machine.reported()
                )));
            }
            Status::GoingBack => return Err(ProviderError::Unavailable(machine.reported())),
            _ => return Err(ProviderError::Refused(machine.reported())),
        }
        let noted = [(TAG, &*tag), (BOOT, &*fingerprint)];
        region.order(&id, "set_owner_data", &noted).await?;
        let mut fields = vec![("user_data", &*user_data), ("comment", &*tag)];
        if let Some(series) = &self.config.distro_series {
            fields.push(("distro_series", series));
        }
        region.order(&id, "deploy", &fields).await
    }

    /// Polls until it is deployed, less and less often.
    async fn wait(&self, target: &Target) -> Result<Up, ProviderError> {
        let region = self.region(&target.spec)?;
        let tag = target.tag.to_string();
        let mut pause = self.config.limits.pause;
        loop {
            let looked = self.ours(&region, &tag).await;
            let machine = match looked {
                Ok(Some(machine)) => machine,
                Ok(None) => {
                    return Err(ProviderError::NoSuchMachine(format!(
                        "no machine of {} is allocated as {tag}: it was released",
                        region.name()
                    )));
                }
                // One poll that failed is no failed deployment.
                Err(error) if error.is_transient() => {
                    tracing::debug!(%error, "MAAS did not report the state of the deployment");
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match machine.status() {
                Status::Deployed => {
                    let address = machine.ip_addresses.into_iter().next();
                    return Ok(Up { address });
                }
                Status::Allocated | Status::Deploying => {}
                _ => return Err(ProviderError::Refused(machine.reported())),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.config.limits.pause * 10);
        }
    }

    async fn power(&self, target: &Target, power: Power) -> Result<(), ProviderError> {
        let region = self.region(&target.spec)?;
        let tag = target.tag.to_string();
        let Some(machine) = self.ours(&region, &tag).await? else {
            if power == Power::Off {
                return Ok(());
            }
            return Err(ProviderError::Taken(format!(
                "no machine of {} is allocated as {tag}",
                region.name()
            )));
        };
        let id = &machine.system_id;
        if power != Power::On && machine.power() != PowerState::Off {
            region
                .order(id, "power_off", &[("stop_mode", "hard")])
                .await?;
            let mut pause = self.config.limits.pause;
            while region.machine(id).await?.power() != PowerState::Off {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(self.config.limits.pause * 10);
            }
        }
        match power {
            Power::Off => Ok(()),
            Power::On if machine.power() == PowerState::On => Ok(()),
            Power::On | Power::Cycle => region.order(id, "power_on", &[]).await,
        }
    }

    async fn power_state(&self, target: &Target) -> Result<PowerState, ProviderError> {
        let region = self.region(&target.spec)?;
        let ours = self.ours(&region, &target.tag.to_string()).await?;
        match ours {
            Some(machine) => Ok(machine.power()),
            None if target.handle().starts_with(find::BY_TAG) => Ok(PowerState::Unknown),
            None => Ok(region.machine(target.handle()).await?.power()),
        }
    }

    /// Released, and seen to be. Its disks are erased first, if configured.
    async fn wipe(&self, target: &Target) -> Result<(), ProviderError> {
        let region = self.region(&target.spec)?;
        let tag = target.tag.to_string();
        let Some(machine) = self.ours(&region, &tag).await? else {
            return Ok(());
        };
        if machine.status() != Status::GoingBack {
            let erase = if self.config.erase { "true" } else { "false" };
            let fields = [("erase", erase), ("comment", &*tag)];
            region.order(&machine.system_id, "release", &fields).await?;
        }
        let mut pause = self.config.limits.pause;
        while let Some(machine) = self.ours(&region, &tag).await? {
            if machine.status() == Status::FailedToGoBack {
                return Err(ProviderError::Refused(machine.reported()));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.config.limits.pause * 10);
        }
        Ok(())
    }
}

impl Provider for Maas {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Maas
    }

    fn server_seen_from_machines(&self) -> Option<String> {
        self.0.config.server.clone()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ProviderError>> {
        self.0.discover().boxed()
    }

    fn boot<'a>(
        &'a self,
        machine: &'a Target,
        boot: &'a Boot,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let limit = self.0.config.limits.call;
        within(limit, "the deployment", machine, self.0.boot(machine, boot)).boxed()
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up, ProviderError>> {
        let limit = self.0.config.limits.wait;
        within(limit, "the deployment", machine, self.0.wait(machine)).boxed()
    }

    fn power<'a>(
        &'a self,
        machine: &'a Target,
        power: Power,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let limit = self.0.config.limits.call;
        within(limit, "switching", machine, self.0.power(machine, power)).boxed()
    }

    fn power_state<'a>(
        &'a self,
        machine: &'a Target,
    ) -> BoxFuture<'a, Result<PowerState, ProviderError>> {
        let limit = self.0.config.limits.call;
        within(limit, "the state", machine, self.0.power_state(machine)).boxed()
    }

    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<(), ProviderError>> {
        let limit = self.0.config.limits.call;
        within(limit, "the release", machine, self.0.wipe(machine)).boxed()
    }

    fn console<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<Console, ProviderError>> {
        let text = "MAAS carries no console. Its page shows what a deployment logs; the console \
                    itself is with the machine's BMC (`ipmitool … sol activate`), or with \
                    `virsh console` where it is a virtual machine";
        std::future::ready(Err(ProviderError::Unsupported(text.into()))).boxed()
    }
}

//! Servers with a management controller that speaks Redfish. A server is
//! tagged in its BMC, given a CD that it boots once, and switched on.
//!
//! ```text
//! config      [machines.redfish]
//! bmc         requests, tasks, and what BMCs say
//! model       what is read of their resources
//! locate      which BMC, as whom, and which of its systems
//! system      power, and what boots next
//! tag         whose it is
//! media       the CD drive that the BMC plays
//! erase       its drives
//! shelf       serves the CD
//! ```
//!
//! A boot always begins with the server off and ends with it on: what runs
//! there was booted with an older token, or by somebody else.

mod bmc;
mod config;
mod erase;
mod locate;
mod media;
mod model;
mod range;
mod shelf;
mod system;
mod tag;

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_types::machine::{PowerState, ProviderKind};
use tokio::sync::OnceCell;

use crate::call::within;
use crate::iso::Medium;
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Target, Up};
pub use config::{BmcCredentials, BootWay, Erase, Limits, MediaConfig, RedfishConfig, TagPolicy};
use erase::Erasing;
use shelf::Shelf;
use system::Server;

/// Makes what a machine boots.
pub trait BootMedium: Send + Sync + 'static {
    /// Kernel, initramfs and command line of one boot. The join token goes
    /// into the initramfs: a command line is read by everybody on the machine.
    fn medium(&self, machine: &Target, boot: &Boot) -> Result<Medium, ProviderError>;
}

impl<F> BootMedium for F
where
    F: Fn(&Target, &Boot) -> Result<Medium, ProviderError> + Send + Sync + 'static,
{
    fn medium(&self, machine: &Target, boot: &Boot) -> Result<Medium, ProviderError> {
        self(machine, boot)
    }
}

/// The driver. Cheap to clone.
#[derive(Clone)]
pub struct Redfish(Arc<Inner>);

struct Inner {
    config: RedfishConfig,
    medium: Arc<dyn BootMedium>,
    shelf: OnceCell<Shelf>,
    erasing: Erasing,
}

impl Redfish {
    /// With this configuration. Nothing is reached, and nobody listens, until
    /// a machine boots.
    pub fn new(config: RedfishConfig, medium: Arc<dyn BootMedium>) -> Self {
        Self(Arc::new(Inner {
            config,
            medium,
            shelf: OnceCell::new(),
            erasing: Erasing::default(),
        }))
    }
}

impl Inner {
    async fn boot(&self, machine: &Target, boot: &Boot) -> Result<(), ProviderError> {
        let server = self.locate(machine).await?;
        server.claim(&machine.tag, self.config.tag).await?;
        let url = match self.config.boot {
            BootWay::Pxe => None,
            _ => Some(self.serve(machine, boot).await?),
        };
        server.off().await?;
        match (self.config.boot, &url) {
            (BootWay::VirtualMedia, Some(url)) => {
                server.insert(url).await?;
                server.boot_once("Cd", None).await?;
            }
            (BootWay::UefiHttp, Some(url)) => server.boot_once("UefiHttp", Some(url)).await?,
            _ => server.boot_once("Pxe", None).await?,
        }
        server.power(Power::On).await
    }

    async fn serve(&self, machine: &Target, boot: &Boot) -> Result<String, ProviderError> {
        let Some(media) = &self.config.media else {
            return Err(ProviderError::Refused(
                "nowhere to serve boot media from: say [machines.redfish.media] listen".into(),
            ));
        };
        let open = || Shelf::open(media, self.config.limits.serve);
        let shelf = self.shelf.get_or_try_init(open).await?;
        // It may have to read and pack files.
        let (maker, of, to) = (self.medium.clone(), machine.clone(), boot.clone());
        let medium = tokio::task::spawn_blocking(move || maker.medium(&of, &to)).await;
        let medium = medium.map_err(|error| ProviderError::Refused(error.to_string()))??;
        let folder = media.folder.clone().unwrap_or_else(std::env::temp_dir);
        shelf.put(&machine.tag.to_string(), medium, &folder).await
    }

    async fn wipe(&self, machine: &Target) -> Result<(), ProviderError> {
        if let Some(shelf) = self.shelf.get() {
            shelf.remove(&machine.tag.to_string());
        }
        let found = async {
            let server = self.locate(machine).await?;
            let system = server.read().await?;
            Ok((server, system.tag()))
        };
        let (server, tag) = match found.await {
            Err(ProviderError::NoSuchMachine(_)) => return Ok(()),
            found => found?,
        };
        let ours = match tag {
            Some(tag) => tag == machine.tag,
            // Where a BMC keeps no tags, the inventory's word holds.
            None => self.config.tag == TagPolicy::Optional,
        };
        if !ours {
            return Ok(());
        }
        server.off().await?;
        server.eject().await?;
        server.boot_as_ever().await?;
        if self.config.erase == Erase::SecureErase {
            server.erase(&self.erasing).await?;
        }
        // Last: until then, who asks again finds that it is to be wiped.
        server.release(&machine.tag).await
    }

    /// A server that is not another's.
    async fn ours(&self, machine: &Target) -> Result<Server, ProviderError> {
        let server = self.locate(machine).await?;
        match server.read().await?.tag() {
            Some(other) if other != machine.tag => Err(ProviderError::Taken(format!(
                "{} is taken: its AssetTag says {other}",
                server.name()
            ))),
            _ => Ok(server),
        }
    }
}

impl Provider for Redfish {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Redfish
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
        within(limit, "the boot", machine, self.0.boot(machine, boot)).boxed()
    }

    fn wait<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Up, ProviderError>> {
        let on = async {
            self.0.ours(machine).await?.until(PowerState::On).await?;
            // Where its node is reached, a BMC does not know.
            Ok(Up::default())
        };
        within(self.0.config.limits.wait, "the start", machine, on).boxed()
    }

    fn power<'a>(
        &'a self,
        machine: &'a Target,
        power: Power,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let switched = async move { self.0.ours(machine).await?.power(power).await };
        within(self.0.config.limits.call, "switching", machine, switched).boxed()
    }

    fn power_state<'a>(
        &'a self,
        machine: &'a Target,
    ) -> BoxFuture<'a, Result<PowerState, ProviderError>> {
        let seen = async { Ok(self.0.locate(machine).await?.read().await?.power()) };
        within(self.0.config.limits.call, "the state", machine, seen).boxed()
    }

    fn wipe<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<(), ProviderError>> {
        within(
            self.0.config.limits.call,
            "the wipe",
            machine,
            self.0.wipe(machine),
        )
        .boxed()
    }

    fn console<'a>(&'a self, machine: &'a Target) -> BoxFuture<'a, Result<Console, ProviderError>> {
        let text = format!(
            "Redfish carries no console. Serial over LAN shows it: \
             `ipmitool -I lanplus -H {} -U USER sol activate`, or the BMC's own page",
            locate::host(machine)
        );
        std::future::ready(Err(ProviderError::Unsupported(text))).boxed()
    }
}

//! Servers with a management controller that speaks Redfish. A server is
//! tagged in its BMC, given a CD that it boots once, and switched on.
//!
//! ```text
//! config             [machines.redfish]
//! bmc                requests, tasks, and errors of BMCs
//! model              what is read of their resources
//! locate             which BMC, which credentials, which of its systems
//! system             power, and what boots next
//! tag                whose it is
//! media              the CD drive that the BMC simulates
//! erase              its drives
//! boot_media_server  serves the CD
//! ```
//!
//! A boot always begins with the server off and ends with it on: what runs
//! there was booted with an older token, or by another caller.

mod bmc;
mod boot_media_server;
mod config;
mod erase;
mod locate;
mod media;
mod model;
mod range;
mod system;
mod tag;

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_bootimage::Medium;
use strata_types::machine::{PowerState, ProviderKind};
use tokio::sync::OnceCell;

use crate::call::within;
use crate::{Boot, Console, Discovered, Power, Provider, ProviderError, Target, Up};
use boot_media_server::BootMediaServer;
pub use config::{
    BmcCredentials, BootMethod, Erase, Limits, MediaConfig, RedfishConfig, TagPolicy,
};
use erase::Erasing;
use system::Server;

/// Makes what a machine boots.
pub trait BootMedium: Send + Sync + 'static {
    /// Kernel, initramfs and command line of one boot. The join token goes into
    /// the initramfs: a command line is readable for every user on the machine.
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
    boot_media_server: OnceCell<BootMediaServer>,
    erasing: Erasing,
}

impl Redfish {
    /// With this configuration. Nothing is contacted, and nothing listens,
    /// until a machine boots.
    pub fn new(config: RedfishConfig, medium: Arc<dyn BootMedium>) -> Self {
        Self(Arc::new(Inner {
            config,
            medium,
            boot_media_server: OnceCell::new(),
            erasing: Erasing::default(),
        }))
    }
}

impl Inner {
    async fn boot(&self, machine: &Target, boot: &Boot) -> Result<(), ProviderError> {
        let server = self.locate(machine).await?;
        server.claim(&machine.tag, self.config.tag).await?;
        let url = match self.config.boot {
            BootMethod::Pxe => None,
            _ => Some(self.serve(machine, boot).await?),
        };
        server.off().await?;
        match (self.config.boot, &url) {
            (BootMethod::VirtualMedia, Some(url)) => {
                server.insert(url).await?;
                server.boot_once("Cd", None).await?;
            }
            (BootMethod::UefiHttp, Some(url)) => server.boot_once("UefiHttp", Some(url)).await?,
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
        let open = || BootMediaServer::open(media, self.config.limits.serve);
        let boot_media_server = self.boot_media_server.get_or_try_init(open).await?;
        // It may have to read and pack files.
        let (maker, of, to) = (self.medium.clone(), machine.clone(), boot.clone());
        let medium = tokio::task::spawn_blocking(move || maker.medium(&of, &to)).await;
        let medium = medium.map_err(|error| ProviderError::Refused(error.to_string()))??;
        let directory = media.directory.clone().unwrap_or_else(std::env::temp_dir);
        boot_media_server
            .put(&machine.tag.to_string(), medium, &directory)
            .await
    }

    async fn wipe(&self, machine: &Target) -> Result<(), ProviderError> {
        if let Some(boot_media_server) = self.boot_media_server.get() {
            boot_media_server.remove(&machine.tag.to_string());
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
            // Where a BMC keeps no tags, the inventory decides.
            None => self.config.tag == TagPolicy::Optional,
        };
        if !ours {
            return Ok(());
        }
        server.off().await?;
        server.eject().await?;
        server.clear_boot_override().await?;
        if self.config.erase == Erase::SecureErase {
            server.erase(&self.erasing).await?;
        }
        // Last: until then, a caller that repeats the call finds that it is to
        // be wiped.
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

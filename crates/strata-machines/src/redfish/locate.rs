//! Which BMC, with which credentials, and which of its systems.

use strata_types::machine::MachineSpec;

use super::Inner;
use super::bmc::Bmc;
use super::config::BmcCredentials;
use super::model::{Root, System};
use super::system::Server;
use crate::http::Address;
use crate::{Discovered, ProviderError, Target};

const ROOT: &str = "/redfish/v1/";
const SYSTEMS: &str = "/redfish/v1/Systems";

/// The host of a machine's BMC, for people.
pub(super) fn host(machine: &Target) -> String {
    let origin = address(&machine.spec).map(|address| address.origin().to_owned());
    let origin = origin.unwrap_or_else(|_| "BMC".into());
    let host = origin.split("://").nth(1).unwrap_or_default();
    host.rsplit_once(':')
        .map_or(host, |(host, _)| host)
        .to_owned()
}

/// The BMC that a machine names: by its address, or in its handle.
fn address(spec: &MachineSpec) -> Result<Address, ProviderError> {
    let text = match (&*spec.address, &*spec.handle) {
        ("", handle) if handle.contains("://") => handle,
        ("", _) => {
            return Err(ProviderError::Refused(
                "it has no address: a Redfish machine needs the https:// of its BMC".into(),
            ));
        }
        (address, _) => address,
    };
    Ok(Address::parse(text)?)
}

impl Inner {
    /// The server of a machine: the one that its handle names, or the only one
    /// that its BMC has.
    pub(super) async fn locate(&self, machine: &Target) -> Result<Server, ProviderError> {
        let spec = &machine.spec;
        let address = address(spec)?;
        let credentials = self.credentials(&spec.credentials, &address)?;
        let bmc = Bmc::new(address.clone(), credentials, &self.config.limits)?;
        let path = match &*spec.handle {
            "" => only(&bmc).await?,
            handle if handle.starts_with('/') => handle.to_owned(),
            handle if handle.contains("://") => address.join(handle)?.path().to_owned(),
            name => format!("{SYSTEMS}/{name}"),
        };
        let pause = self.config.limits.pause;
        Ok(Server { bmc, path, pause })
    }

    fn credentials(&self, name: &str, address: &Address) -> Result<&BmcCredentials, ProviderError> {
        let all = &self.config.credentials;
        let found = match (name, all.len()) {
            ("", 1) => all.values().next(),
            _ => all.get(name),
        };
        let found = found.ok_or_else(|| {
            ProviderError::Refused(format!(
                "there are no credentials {name:?}: say [machines.redfish.credentials.NAME]"
            ))
        })?;
        let is_it = |known: &String| {
            Address::parse(known).is_ok_and(|known| known.origin() == address.origin())
        };
        if !found.addresses.is_empty() && !found.addresses.iter().any(is_it) {
            return Err(ProviderError::Refused(format!(
                "these credentials are not for {}: see their `addresses`",
                address.origin()
            )));
        }
        Ok(found)
    }

    /// The systems of all BMCs that credentials name. A BMC that does not
    /// answer does not keep the others from being listed.
    pub(super) async fn discover(&self) -> Result<Vec<Discovered>, ProviderError> {
        let mut asked = Vec::new();
        for credentials in self.config.credentials.values() {
            for address in &credentials.addresses {
                asked.push((credentials, address));
            }
        }
        let (mut found, mut failure) = (Vec::new(), None);
        for (credentials, address) in asked {
            let systems = self.systems(credentials, address);
            let limit = self.config.limits.call;
            match tokio::time::timeout(limit, systems).await {
                Ok(Ok(systems)) => found.extend(systems),
                Ok(Err(error)) => {
                    tracing::warn!(address, %error, "a BMC does not list its systems");
                    failure = Some(error);
                }
                Err(_) => tracing::warn!(address, "a BMC takes too long to list its systems"),
            }
        }
        match failure {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    async fn systems(
        &self,
        credentials: &BmcCredentials,
        address: &str,
    ) -> Result<Vec<Discovered>, ProviderError> {
        let address = Address::parse(address)?;
        let bmc = Bmc::new(address.clone(), credentials, &self.config.limits)?;
        let mut found = Vec::new();
        for path in members(&bmc).await? {
            let (system, _): (System, _) = bmc.get(&path).await?;
            let processors = system.processor_summary.as_ref();
            let threads = |all: &super::model::Processors| all.logical_processor_count;
            let memory = system.memory_summary.as_ref().and_then(|memory| memory.gib);
            found.push(Discovered {
                handle: address.join(&path)?.to_string(),
                hostname: None,
                tag: system.tag(),
                power: system.power(),
                // The count of sockets does not give the threads.
                cpu: processors.and_then(threads),
                ram: memory.map(|gib| (gib * 1_073.741_824) as u64),
            });
        }
        Ok(found)
    }
}

async fn members(bmc: &Bmc) -> Result<Vec<String>, ProviderError> {
    let (root, _): (Root, _) = bmc.get(ROOT).await?;
    let systems = root
        .systems
        .map_or_else(|| SYSTEMS.to_owned(), |link| link.id);
    bmc.members(&systems).await
}

async fn only(bmc: &Bmc) -> Result<String, ProviderError> {
    let mut all = members(bmc).await?;
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(ProviderError::NoSuchMachine(format!(
            "{} has no system",
            bmc.name()
        ))),
        (Some(last), false) => Err(ProviderError::Refused(format!(
            "{} has {} systems: name one as the handle, as {last}",
            bmc.name(),
            all.len() + 1
        ))),
    }
}

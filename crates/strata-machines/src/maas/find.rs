//! Which machine is ours, and taking one.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use rand::RngCore as _;
use strata_types::machine::MachineSpec;

use super::Inner;
use super::config::MaasCredentials;
use super::machine::{Machine, Status};
use super::region::Region;
use crate::http::Address;
use crate::{Discovered, ProviderError, Target};

/// A handle that means any machine with a tag of MAAS.
pub(super) const BY_TAG: &str = "tag:";

/// The regions that are known to go by `agent_name`.
#[derive(Default)]
pub(super) struct Probed(Mutex<HashSet<String>>);

impl Inner {
    /// The region of a machine. Its key is shown to no other.
    pub(super) fn region(&self, spec: &MachineSpec) -> Result<Region, ProviderError> {
        let all = &self.config.credentials;
        let found: Option<&MaasCredentials> = match (&*spec.credentials, all.len()) {
            ("", 1) => all.values().next(),
            (name, _) => all.get(name),
        };
        let found = found.ok_or_else(|| {
            ProviderError::Refused(format!(
                "there are no credentials {:?}: say [machines.maas.credentials.NAME]",
                spec.credentials
            ))
        })?;
        if !spec.address.is_empty() {
            let (asked, known) = (
                Address::parse(&spec.address)?,
                Address::parse(&found.address)?,
            );
            if asked.origin() != known.origin() {
                return Err(ProviderError::Refused(format!(
                    "these credentials are for {}, not for {}",
                    known.origin(),
                    asked.origin()
                )));
            }
        }
        Region::new(found, &self.config.limits)
    }

    /// The machine that was allocated under this tag. Should there be two, as
    /// when an allocation whose answer was lost came late, the others go back.
    pub(super) async fn ours(
        &self,
        region: &Region,
        tag: &str,
    ) -> Result<Option<Machine>, ProviderError> {
        self.probe(region).await?;
        let mut found = region.machines(Some(tag)).await?;
        // The machine that is furthest, and of those always the same.
        let rank = |machine: &Machine| match machine.status() {
            Status::Deployed => 0,
            Status::Deploying => 1,
            Status::FailedDeployment => 3,
            _ => 2,
        };
        found.sort_by_key(|machine| (rank(machine), machine.system_id.clone()));
        let mut found = found.into_iter();
        let ours = found.next();
        for other in found {
            if other.status() == Status::Allocated {
                tracing::warn!(
                    machine = other.system_id,
                    tag,
                    "allocated twice, releasing it"
                );
                let fields = [("comment", tag)];
                region.order(&other.system_id, "release", &fields).await?;
            }
        }
        Ok(ours)
    }

    /// A region that does not go by `agent_name` would show all machines as
    /// ours, so it is first queried for a name that no machine has.
    async fn probe(&self, region: &Region) -> Result<(), ProviderError> {
        let known = |all: &HashSet<String>| all.contains(region.name());
        if known(&self.probed.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let nobody = format!("strata-unused-{:016x}", rand::rng().next_u64());
        if !region.machines(Some(&nobody)).await?.is_empty() {
            return Err(ProviderError::Unsupported(format!(
                "MAAS at {} does not filter machines by agent_name: their owner cannot be determined",
                region.name()
            )));
        }
        let mut all = self.probed.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(region.name().to_owned());
        Ok(())
    }

    /// Takes the machine that a handle means.
    pub(super) async fn allocate(
        &self,
        region: &Region,
        target: &Target,
    ) -> Result<Machine, ProviderError> {
        let (tag, handle) = (target.tag.to_string(), target.handle());
        let wanted = match handle.strip_prefix(BY_TAG) {
            Some(name) => ("tags", name),
            None => ("system_id", handle),
        };
        let fields = [wanted, ("agent_name", &*tag), ("comment", &*tag)];
        let why = match region.allocate(&fields).await? {
            Ok(machine) => return Ok(machine),
            Err(why) => why,
        };
        if wanted.0 == "tags" {
            return Err(ProviderError::Refused(format!(
                "MAAS at {} has no ready machine with the tag {}: {why}",
                region.name(),
                wanted.1
            )));
        }
        // MAAS does not report why this one cannot be taken; the machine's own
        // state shows it.
        let machine = region.machine(handle).await?;
        match (machine.status(), &machine.owner) {
            (Status::Ready, _) => Err(ProviderError::Refused(why)),
            (_, Some(owner)) if !owner.is_empty() => {
                let reported = machine.reported();
                Err(ProviderError::Taken(format!(
                    "{reported}, and belongs to {owner}"
                )))
            }
            _ => Err(ProviderError::Refused(machine.reported())),
        }
    }

    /// The machines of all regions. One that does not answer does not keep the
    /// others from being listed.
    pub(super) async fn discover(&self) -> Result<Vec<Discovered>, ProviderError> {
        let (mut found, mut failure) = (Vec::new(), None);
        for credentials in self.config.credentials.values() {
            let asked = async {
                let region = Region::new(credentials, &self.config.limits)?;
                region.machines(None).await
            };
            match asked.await {
                Ok(machines) => found.extend(machines.into_iter().map(Machine::discovered)),
                Err(error) => {
                    tracing::warn!(region = credentials.address, %error, "no machines reported");
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }
}

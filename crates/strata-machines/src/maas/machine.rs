//! A machine as a region reports it.

use std::collections::BTreeMap;

use serde::Deserialize;
use strata_types::machine::PowerState;

use crate::call::or_default;
use crate::{Discovered, Tag};

/// What the owner of a machine noted with it. MAAS clears it on release.
pub(super) const TAG: &str = "strata-tag";
/// Which boot it was deployed for: a part of the hash of its token.
pub(super) const BOOT: &str = "strata-boot";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    pub(super) system_id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) hostname: String,
    pub(super) owner: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) owner_data: BTreeMap<String, String>,
    pub(super) status_name: String,
    pub(super) status_message: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) power_state: String,
    pub(super) cpu_count: Option<u32>,
    /// MiB.
    pub(super) memory: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) ip_addresses: Vec<String>,
}

/// Where it stands with MAAS, as far as that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    Allocated,
    Deploying,
    Deployed,
    FailedDeployment,
    GoingBack,
    FailedToGoBack,
    Other,
}

impl Machine {
    pub(super) fn status(&self) -> Status {
        match &*self.status_name {
            "Ready" => Status::Ready,
            "Allocated" => Status::Allocated,
            "Deploying" => Status::Deploying,
            "Deployed" => Status::Deployed,
            "Failed deployment" => Status::FailedDeployment,
            "Releasing" | "Disk erasing" => Status::GoingBack,
            "Releasing failed" | "Failed disk erasing" => Status::FailedToGoBack,
            _ => Status::Other,
        }
    }

    /// Its name, and its state at MAAS, for people.
    pub(super) fn reported(&self) -> String {
        let message = self.status_message.as_deref().unwrap_or_default();
        let text = format!(
            "{} ({}) is {}: {message}",
            self.system_id, self.hostname, self.status_name
        );
        strata_http::one_line(text.trim_end_matches([' ', ':']))
    }

    pub(super) fn power(&self) -> PowerState {
        match &*self.power_state {
            "on" => PowerState::On,
            "off" => PowerState::Off,
            _ => PowerState::Unknown,
        }
    }

    pub(super) fn tag(&self) -> Option<Tag> {
        Tag::parse(self.owner_data.get(TAG)?)
    }

    pub(super) fn discovered(self) -> Discovered {
        Discovered {
            tag: self.tag(),
            power: self.power(),
            cpu: self.cpu_count.filter(|count| *count > 0),
            ram: self
                .memory
                .map(|mib| (mib * 1.048_576) as u64)
                .filter(|mb| *mb > 0),
            hostname: Some(self.hostname).filter(|name| !name.is_empty()),
            handle: self.system_id,
        }
    }
}

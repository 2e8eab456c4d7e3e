//! One server behind a BMC: its power, whose it is, and what it boots next.

use std::time::Duration;

use serde_json::json;
use strata_types::machine::PowerState;

use super::bmc::Bmc;
use super::model::System;
use crate::{Power, ProviderError, Tag};

/// A server: its BMC and its path there.
pub(super) struct Server {
    pub(super) bmc: Bmc,
    pub(super) path: String,
    pub(super) pause: Duration,
}

impl Server {
    pub(super) async fn read(&self) -> Result<System, ProviderError> {
        let (mut system, etag): (System, _) = self.bmc.get(&self.path).await?;
        system.etag = etag.or(system.etag);
        Ok(system)
    }

    pub(super) fn name(&self) -> String {
        format!("{}{}", self.bmc.name(), self.path)
    }

    /// Switches it. Nothing is sent when it is in that state already.
    pub(super) async fn power(&self, power: Power) -> Result<(), ProviderError> {
        let system = self.read().await?;
        let now = system.power();
        match power {
            Power::On if now == PowerState::On => Ok(()),
            Power::Off if now == PowerState::Off => Ok(()),
            Power::On => self.reset(&system, &["On", "ForceOn"]).await,
            Power::Off => self.reset(&system, &["ForceOff"]).await,
            Power::Cycle if now == PowerState::Off => self.reset(&system, &["On", "ForceOn"]).await,
            Power::Cycle => self.reset(&system, &["ForceRestart", "PowerCycle"]).await,
        }
    }

    /// Off, and seen to be.
    pub(super) async fn off(&self) -> Result<(), ProviderError> {
        self.power(Power::Off).await?;
        self.until(PowerState::Off).await
    }

    /// Polls until it is so; the caller bounds how long.
    pub(super) async fn until(&self, wanted: PowerState) -> Result<(), ProviderError> {
        while self.read().await?.power() != wanted {
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }

    /// The first of these that it knows.
    async fn reset(&self, system: &System, kinds: &[&str]) -> Result<(), ProviderError> {
        let action = system.actions.as_ref().and_then(|all| all.reset.as_ref());
        let action = action.ok_or_else(|| {
            ProviderError::Unsupported(format!("{} has no ComputerSystem.Reset", self.name()))
        })?;
        let allowed = action.allowed.as_deref();
        let known = |kind: &&&str| allowed.is_none_or(|all| all.iter().any(|one| one == *kind));
        let kind = kinds.iter().find(known).ok_or_else(|| {
            ProviderError::Unsupported(format!(
                "{} knows none of {}; it knows {}",
                self.name(),
                kinds.join(", "),
                allowed.unwrap_or_default().join(", ")
            ))
        })?;
        let order = json!({ "ResetType": kind });
        self.bmc.post(&action.target, &order).await
    }

    /// Has it boot this once, and then as ever.
    pub(super) async fn boot_once(
        &self,
        target: &str,
        uri: Option<&str>,
    ) -> Result<(), ProviderError> {
        let system = self.read().await?;
        let boot = system.boot.as_ref();
        if let Some(allowed) = boot.and_then(|boot| boot.allowed.as_ref())
            && !allowed.iter().any(|known| known == target)
        {
            return Err(ProviderError::Unsupported(format!(
                "{} does not boot from {target}; it knows {}",
                self.name(),
                allowed.join(", ")
            )));
        }
        let mut change = json!({ "Boot": {
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": target,
        }});
        if let Some(uri) = uri {
            change["Boot"]["HttpBootUri"] = uri.into();
        }
        self.bmc
            .patch(&self.path, system.etag.as_deref(), &change)
            .await
    }

    /// Has it boot as usual. An error of a BMC that does not support that is
    /// ignored: what it was to boot from is not there any more, and "once" is
    /// over with one boot.
    pub(super) async fn clear_boot_override(&self) -> Result<(), ProviderError> {
        let system = self.read().await?;
        let Some(boot) = &system.boot else {
            return Ok(());
        };
        let is = |field: &Option<String>, word| field.as_deref() == Some(word);
        if is(&boot.enabled, "Disabled") || is(&boot.target, "None") {
            return Ok(());
        }
        let clear = [
            json!({ "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None" }),
            json!({ "BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Hdd" }),
        ];
        let mut etag = system.etag;
        for boot in clear {
            let done = self
                .bmc
                .patch(&self.path, etag.as_deref(), &json!({ "Boot": boot }))
                .await;
            match done {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::debug!(server = self.name(), %error, "boot override not cleared");
                }
            }
            etag = self.read().await?.etag;
        }
        tracing::warn!(server = self.name(), "boot override of the server stays");
        Ok(())
    }
}

impl System {
    pub(super) fn power(&self) -> PowerState {
        match self.power_state.as_deref() {
            Some("On") => PowerState::On,
            Some("Off") => PowerState::Off,
            _ => PowerState::Unknown,
        }
    }

    /// Whose it is: the last word of its asset tag. What people wrote there
    /// stands before it.
    pub(super) fn tag(&self) -> Option<Tag> {
        Tag::parse(self.asset_tag.as_deref()?.split_whitespace().last()?)
    }

    /// What people wrote there.
    pub(super) fn own_asset_tag(&self) -> &str {
        let text = self.asset_tag.as_deref().unwrap_or_default().trim_end();
        match self.tag() {
            None => text,
            Some(tag) => text
                .strip_suffix(&tag.to_string())
                .unwrap_or(text)
                .trim_end(),
        }
    }
}

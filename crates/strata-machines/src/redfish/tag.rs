//! Whose a server is, kept in the asset tag of its system: the one text that
//! people may set and that outlives both of us.
//!
//! Written only where the ETag still fits, and read again: some BMCs cut
//! texts, and some take them and remove them.

use serde_json::json;

use super::config::TagPolicy;
use super::system::Server;
use crate::{ProviderError, Tag};

impl Server {
    /// Takes it, unless it is another's.
    pub(super) async fn claim(&self, tag: &Tag, policy: TagPolicy) -> Result<(), ProviderError> {
        let system = self.read().await?;
        match system.tag() {
            Some(found) if found == *tag => return Ok(()),
            Some(other) => {
                return Err(ProviderError::Taken(format!(
                    "{} is taken: its AssetTag says {other}",
                    self.name()
                )));
            }
            None => {}
        }
        let before = system.own_asset_tag();
        let text = format!("{before} {tag}");
        let written = self
            .write_tag(system.etag.as_deref(), text.trim_start())
            .await;
        let why = match written {
            Ok(()) => {
                let now = self.read().await?;
                if now.tag().as_ref() == Some(tag) {
                    return Ok(());
                }
                // Half a tag belongs to nothing, and the next would not see it.
                let _ = self.write_tag(now.etag.as_deref(), before).await;
                "it takes an AssetTag and keeps another".to_owned()
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => error.to_string(),
        };
        if policy == TagPolicy::Optional {
            tracing::debug!(server = self.name(), why, "server stores no asset tag");
            return Ok(());
        }
        Err(ProviderError::Unsupported(format!(
            "{} cannot keep whose it is in its AssetTag ({why}): say `tag = \"optional\"` in \
             [machines.redfish] to go by the inventory alone, if no other control plane has it",
            self.name()
        )))
    }

    /// Gives it back.
    pub(super) async fn release(&self, tag: &Tag) -> Result<(), ProviderError> {
        let system = self.read().await?;
        if system.tag().as_ref() != Some(tag) {
            return Ok(());
        }
        self.write_tag(system.etag.as_deref(), system.own_asset_tag())
            .await
    }

    async fn write_tag(&self, etag: Option<&str>, text: &str) -> Result<(), ProviderError> {
        let change = json!({ "AssetTag": text });
        self.bmc.patch(&self.path, etag, &change).await
    }
}

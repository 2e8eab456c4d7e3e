//! The CD drive that a BMC simulates. Where it is, vendors do not agree: with the
//! system, or with the manager of it.

use serde_json::{Value, json};

use super::model::{Manager, Media};
use super::system::Server;
use crate::ProviderError;

impl Server {
    /// Puts a medium in, instead of one that is there.
    pub(super) async fn insert(&self, url: &str) -> Result<(), ProviderError> {
        let Some((path, drive)) = self.drive().await? else {
            return Err(ProviderError::Unsupported(format!(
                "{} has no virtual CD drive; other ways to boot are `uefi-http` and `pxe`",
                self.name()
            )));
        };
        self.empty(&path, &drive).await?;
        let whole = json!({ "Image": url, "Inserted": true, "WriteProtected": true });
        let insert = drive.actions.and_then(|all| all.insert);
        let Some(action) = insert else {
            let (now, etag): (Media, _) = self.bmc.get(&path).await?;
            let etag = etag.or(now.etag);
            return self.bmc.patch(&path, etag.as_deref(), &whole).await;
        };
        match self.bmc.post(&action.target, &whole).await {
            // Older ones accept nothing but the image.
            Err(ProviderError::Refused(_)) => {
                self.bmc
                    .post(&action.target, &json!({ "Image": url }))
                    .await
            }
            done => done,
        }
    }

    /// Takes out what is in, if there is a drive.
    pub(super) async fn eject(&self) -> Result<(), ProviderError> {
        match self.drive().await? {
            Some((path, drive)) => self.empty(&path, &drive).await,
            None => Ok(()),
        }
    }

    async fn empty(&self, path: &str, drive: &Media) -> Result<(), ProviderError> {
        let has_image = drive.image.as_ref().is_some_and(|image| !image.is_empty());
        if drive.inserted != Some(true) && !has_image {
            return Ok(());
        }
        match drive.actions.as_ref().and_then(|all| all.eject.as_ref()) {
            Some(action) => self.bmc.post(&action.target, &json!({})).await,
            None => {
                let out = json!({ "Image": Value::Null, "Inserted": false });
                self.bmc.patch(path, drive.etag.as_deref(), &out).await
            }
        }
    }

    /// The first drive that takes CDs.
    async fn drive(&self) -> Result<Option<(String, Media)>, ProviderError> {
        let system = self.read().await?;
        let mut collections: Vec<String> = Vec::new();
        collections.extend(system.virtual_media.map(|link| link.id));
        for manager in system.links.unwrap_or_default().managed_by.iter().take(4) {
            // A drive with the system is the one to use.
            if !collections.is_empty() {
                break;
            }
            let (manager, _): (Manager, _) = self.bmc.get(&manager.id).await?;
            collections.extend(manager.virtual_media.map(|link| link.id));
        }
        for collection in collections {
            for path in self.bmc.members(&collection).await?.into_iter().take(16) {
                let (mut drive, etag): (Media, _) = self.bmc.get(&path).await?;
                let takes_cds = |kind: &String| kind == "CD" || kind == "DVD";
                if drive.media_types.iter().any(takes_cds) {
                    drive.etag = etag.or(drive.etag);
                    return Ok(Some((path, drive)));
                }
            }
        }
        Ok(None)
    }
}

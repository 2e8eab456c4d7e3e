//! A pull: manifest, config, layers side by side, and the record at last.
//!
//! Whatever happens on the way, the record is written when everything that it
//! names is in its place, and not before. A pull that fails, is dropped or
//! dies leaves content that the next pull uses and a prune takes away.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::leases::Lease;
use super::progress::{Phase, Progress, Reporter};
use super::record::Record;
use super::retry::Retries;
use super::{Image, Inner, Store, StoreError};
use crate::manifest::MAX_JSON;
use crate::{ImageConfig, Platform, Reference, Resolved, Source, SourceError};

/// How to pull.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// For which platform; this machine's unless told otherwise.
    pub platform: Platform,
    /// Who wants to hear how far it is.
    pub progress: Option<watch::Sender<Progress>>,
    /// By credentials that are not everybody's here: see [`Image::private`].
    pub private: bool,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            platform: Platform::host(),
            progress: None,
            private: false,
        }
    }
}

impl Store {
    /// Makes the image be here as the source has it now, and records it under
    /// `reference`. What is here already is not fetched again. May be
    /// repeated, and run side by side with others of the same image; dropping
    /// it stops it.
    pub async fn pull(
        &self,
        reference: &Reference,
        source: &Arc<dyn Source>,
        options: PullOptions,
    ) -> Result<Image, StoreError> {
        let store = &self.0;
        let reporter = Reporter::new(options.progress);
        let resolved = store.resolve(source.as_ref(), &options.platform).await?;
        let lease = Lease::new(store);
        let manifest = &resolved.manifest;
        lease.add([resolved.digest, manifest.config.digest]);
        lease.add(manifest.layers.iter().map(|layer| layer.digest));
        store.keep(resolved.digest, &resolved.bytes)?;
        reporter.begin(manifest);
        let config = store.config(source.as_ref(), &resolved).await?;
        if !config.platform.serves(&options.platform) {
            return Err(SourceError::NoPlatform {
                wanted: options.platform,
                offered: vec![config.platform.to_string()],
            }
            .into());
        }
        lease.add(config.rootfs.diff_ids.iter().copied());
        store.layers(source, &resolved, &config, &reporter).await?;
        let record = Record {
            reference: reference.clone(),
            manifest: resolved.digest,
            pulled_at: jiff::Timestamp::now(),
            private: options.private,
        };
        store.write_record(&record)?;
        reporter.recorded();
        let syncing = Arc::clone(store);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = syncing.sync() {
                tracing::warn!(%error, "cannot sync the image store");
            }
        });
        store.image(&record, record.pulled_at)
    }
}

impl Inner {
    async fn resolve(
        &self,
        source: &dyn Source,
        platform: &Platform,
    ) -> Result<Resolved, StoreError> {
        let mut retries = Retries::new(&self.options);
        loop {
            let error = match source.resolve(platform).await {
                Ok(resolved) => return Ok(resolved),
                Err(error) => error,
            };
            let Some(wait) = retries.after(&error, 0) else {
                return Err(error.into());
            };
            tracing::debug!(%error, ?wait, "asking for the manifest again");
            tokio::time::sleep(wait).await;
        }
    }

    async fn config(
        self: &Arc<Self>,
        source: &dyn Source,
        resolved: &Resolved,
    ) -> Result<ImageConfig, StoreError> {
        let descriptor = &resolved.manifest.config;
        if descriptor.size > MAX_JSON {
            return Err(SourceError::TooLarge {
                what: format!("the config {}", descriptor.digest),
                limit: MAX_JSON,
            }
            .into());
        }
        self.fetch(source, descriptor, &Reporter::default()).await?;
        Ok(self.documents(&resolved.digest)?.1)
    }

    async fn layers(
        self: &Arc<Self>,
        source: &Arc<dyn Source>,
        resolved: &Resolved,
        config: &ImageConfig,
        reporter: &Reporter,
    ) -> Result<(), StoreError> {
        let mut tasks = JoinSet::new();
        let mut begun = HashSet::new();
        let layers = resolved.manifest.layers.iter();
        for (blob, diff_id) in layers.zip(config.rootfs.diff_ids.iter().copied()) {
            // Some builders put the same empty layer in many times.
            if !begun.insert(diff_id) {
                reporter.layer(blob.digest, Phase::Done, blob.size);
                continue;
            }
            let (store, source) = (Arc::clone(self), Arc::clone(source));
            let (blob, reporter) = (blob.clone(), reporter.clone());
            tasks.spawn(async move {
                store
                    .make_layer(source.as_ref(), &blob, diff_id, &reporter)
                    .await
            });
        }
        // The first failure drops the set, which stops the others.
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

//! A pull: manifest, config, layers side by side, and the record at last.
//!
//! Whatever happens on the way, the record is written when everything that it
//! names is in its place, and not before. A pull that fails, is dropped or
//! dies leaves content that the next pull uses and a prune takes away.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::budget::Budget;
use super::leases::Lease;
use super::progress::{Phase, Progress, Reporter};
use super::record::Record;
use super::retry::Retries;
use super::share::PullShare;
use super::{Image, Inner, Store, StoreError};
use crate::manifest::MAX_JSON;
use crate::{Digest, ImageConfig, Platform, Reference, Resolved, Source, SourceError};

#[derive(Clone, Debug)]
pub struct PullOptions {
    /// For which platform; this machine's by default.
    pub platform: Platform,
    /// The receiver of the progress.
    pub progress: Option<watch::Sender<Progress>>,
    /// By credentials that are not the node's own: see [`Image::private`].
    pub private: bool,
    /// The project that the pull is for: its downloads leave places to those of
    /// others, and its images leave them disk. Empty for a caller of the node,
    /// whose images may take all but the reserve.
    pub holder: String,
    /// The manifests that instances of that project run from.
    pub used: Vec<Digest>,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            platform: Platform::host(),
            progress: None,
            private: false,
            holder: String::new(),
            used: Vec::new(),
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
        let share = store.share(&options.holder, options.used).await?;
        if let Some(share) = &share {
            share.declare(manifest)?;
        }
        let who = (options.holder.as_str(), share.clone());
        store
            .layers(source, &resolved, &config, who, &reporter)
            .await?;
        // Layers that were there already charged it without a look.
        if let Some(share) = &share {
            share.check()?;
        }
        let mut record = Record {
            reference: reference.clone(),
            manifest: resolved.digest,
            pulled_at: jiff::Timestamp::now(),
            private: options.private,
            projects: (!options.holder.is_empty())
                .then_some(options.holder)
                .into_iter()
                .collect(),
        };
        store.record_pull(&mut record)?;
        drop(share);
        reporter.recorded();
        let syncing = Arc::clone(store);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = syncing.sync() {
                tracing::warn!(%error, "image store not synced");
            }
        });
        store.image(&record, record.pulled_at)
    }
}

impl Inner {
    /// What bounds a pull for a project.
    async fn share(
        self: &Arc<Self>,
        holder: &str,
        used: Vec<Digest>,
    ) -> Result<Option<Arc<PullShare>>, StoreError> {
        if holder.is_empty() || self.options.project_percent >= 100 {
            return Ok(None);
        }
        let (store, holder) = (Arc::clone(self), holder.to_owned());
        let share = tokio::task::spawn_blocking(move || PullShare::new(&store, &holder, used));
        Ok(Some(Arc::new(share.await??)))
    }

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
            tracing::debug!(%error, ?wait, "manifest request retried");
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
        (holder, share): (&str, Option<Arc<PullShare>>),
        reporter: &Reporter,
    ) -> Result<(), StoreError> {
        let root = self.paths.layers();
        let (budget, mut released) = Budget::new(&self.options, &root, &resolved.manifest, share);
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
            let (budget, holder) = (Arc::clone(&budget), holder.to_owned());
            tasks.spawn(async move {
                let source = source.as_ref();
                store
                    .make_layer(source, &blob, diff_id, (&holder, &budget), &reporter)
                    .await
            });
        }
        let mut failed = None;
        while let Some(done) = tasks.join_next().await {
            if let Err(error) = done.map_err(StoreError::from).flatten() {
                failed = Some(error);
                break;
            }
        }
        // The first failure stops the others. What they were unpacking is gone
        // when this returns, and so a prune after it misses nothing.
        tasks.shutdown().await;
        drop(budget);
        released.recv().await;
        failed.map_or(Ok(()), Err)
    }
}

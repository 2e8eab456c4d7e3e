//! Taking away: images by name, and what nothing needs.

use std::collections::HashMap;
use std::sync::PoisonError;

use strata_image::{Digest, PruneGoal, Pruned, Reference, StoreError};
use strata_types::{Error, Result};

use super::error::public;
use super::selector::Selector;
use super::space::DiskSpace;
use super::uses::UsesSnapshot;
use super::{Images, Inner};

/// How far a prune goes, as callers specify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PruneScope {
    Garbage,
    Packed,
    /// Until this many bytes are free on the file system.
    FreeSpace(u64),
    Unused,
}

impl Images {
    /// Removes what `text` means: one name, or all names of a digest. Nothing
    /// happens when something would lose the image it uses.
    pub(crate) async fn remove(&self, field: &str, text: &str) -> Result<Pruned> {
        let selector = Selector::from_field(field, text)?;
        let inner = &self.0;
        let all = self.list()?;
        let names: Vec<_> = all
            .iter()
            .map(|image| (image.reference.to_string(), image.digest))
            .collect();
        let going = selector.pick(&names)?;
        if going.is_empty() {
            let removed = inner.removed.lock().unwrap_or_else(PoisonError::into_inner);
            // Several that were removed are removed, each of them.
            return match selector.pick(removed.all()) {
                Ok(known) if known.is_empty() => Err(selector.unknown()),
                _ => Ok(Pruned::default()),
            };
        }
        let look = inner.uses.look();
        refuse_used(&names, &going, &look)?;
        let in_use = look.digests();
        let mut total = Pruned::default();
        for place in going {
            let image = &all[place];
            let pruned = inner.store.remove(&image.reference, &in_use).await;
            let pruned = match pruned {
                // Another caller was quicker.
                Err(StoreError::UnknownImage(_)) => continue,
                other => other.map_err(public)?,
            };
            tracing::info!(image = %image.reference, bytes = pruned.bytes, "image removed");
            inner.remember([names[place].clone()]);
            total.images.push(image.reference.clone());
            total.blobs += pruned.blobs;
            total.layers += pruned.layers;
            total.bytes += pruned.bytes;
        }
        Ok(total)
    }

    /// Removes what nothing needs, or reports what that would be.
    pub(crate) async fn prune(&self, goal: PruneScope, dry_run: bool) -> Result<Pruned> {
        let goal = match goal {
            PruneScope::Garbage => PruneGoal::Garbage,
            PruneScope::Packed => PruneGoal::Packed,
            PruneScope::Unused => PruneGoal::Free(u64::MAX),
            PruneScope::FreeSpace(wanted) => {
                let space = DiskSpace::of(&self.0.dir).map_err(|error| {
                    Error::internal(format!("cannot read the free disk space: {error}"))
                })?;
                match wanted.saturating_sub(space.available) {
                    0 => return Ok(Pruned::default()),
                    missing => PruneGoal::Free(missing),
                }
            }
        };
        if dry_run {
            let look = self.0.uses.look();
            let would = self.0.store.would_prune(goal, &look.digests()).await;
            return would.map_err(public);
        }
        let pruned = self.prune_to(goal).await?;
        tracing::info!(
            bytes = pruned.bytes,
            images = pruned.images.len(),
            "pruned images"
        );
        Ok(pruned)
    }

    pub(super) async fn prune_to(&self, goal: PruneGoal) -> Result<Pruned> {
        let digests = self.digests()?;
        let look = self.0.uses.look();
        let pruned = self.0.store.prune(goal, &look.digests()).await;
        self.pruned(pruned, &digests)
    }

    /// Takes unused images from a project until they are this many percent of
    /// its share, and from others that are over theirs.
    pub(super) async fn prune_share(&self, project: &str, percent: u8) -> Result<Pruned> {
        let digests = self.digests()?;
        let look = self.0.uses.look();
        let store = &self.0.store;
        let pruned = store.prune_share(project, percent, &look.digests()).await;
        self.pruned(pruned, &digests)
    }

    fn digests(&self) -> Result<HashMap<Reference, Digest>> {
        let images = self.list()?.into_iter();
        Ok(images
            .map(|image| (image.reference, image.digest))
            .collect())
    }

    fn pruned(
        &self,
        pruned: std::result::Result<Pruned, StoreError>,
        digests: &HashMap<Reference, Digest>,
    ) -> Result<Pruned> {
        let pruned = pruned.map_err(public)?;
        let gone = pruned.images.iter().filter_map(|name| {
            let digest = digests.get(name)?;
            Some((name.to_string(), *digest))
        });
        self.0.remember(gone);
        Ok(pruned)
    }
}

impl Inner {
    fn remember(&self, gone: impl IntoIterator<Item = (String, Digest)>) {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.add(gone);
    }
}

/// An image that something uses keeps one name at least.
fn refuse_used(names: &[(String, Digest)], going: &[usize], look: &UsesSnapshot<'_>) -> Result<()> {
    for place in going {
        let (name, digest) = &names[*place];
        let stays = |(other, image): (usize, &(String, Digest))| {
            image.1 == *digest && !going.contains(&other)
        };
        let users = look.of(digest);
        if !users.is_empty() && !names.iter().enumerate().any(stays) {
            return Err(Error::wrong_state(format!(
                "image {name} is in use by {}",
                users.join(", ")
            ))
            .with_hint("destroy what runs from it first"));
        }
    }
    Ok(())
}

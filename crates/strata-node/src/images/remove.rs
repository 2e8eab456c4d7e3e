//! Taking away: images by name, and what nothing needs.

use std::collections::HashMap;
use std::sync::PoisonError;

use strata_image::{Digest, PruneGoal, Pruned};
use strata_types::{Error, Result};

use super::error::public;
use super::selector::Selector;
use super::space::Space;
use super::uses::Look;
use super::{Images, Inner};

/// How far a prune goes, as callers say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
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
                // Somebody else was quicker.
                Err(strata_image::StoreError::UnknownImage(_)) => continue,
                other => other.map_err(public)?,
            };
            tracing::info!(image = %image.reference, bytes = pruned.bytes, "removed an image");
            inner.remember([names[place].clone()]);
            total.images.push(image.reference.clone());
            total.blobs += pruned.blobs;
            total.layers += pruned.layers;
            total.bytes += pruned.bytes;
        }
        Ok(total)
    }

    /// Takes away what nothing needs, or tells what that would be.
    pub(crate) async fn prune(&self, goal: Goal, dry_run: bool) -> Result<Pruned> {
        let goal = match goal {
            Goal::Garbage => PruneGoal::Garbage,
            Goal::Packed => PruneGoal::Packed,
            Goal::Unused => PruneGoal::Free(u64::MAX),
            Goal::FreeSpace(wanted) => {
                let space = Space::of(&self.0.folder).map_err(|error| {
                    Error::internal(format!("cannot tell how full the disk is: {error}"))
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
        let digests: HashMap<_, _> = self
            .list()?
            .into_iter()
            .map(|image| (image.reference, image.digest))
            .collect();
        let look = self.0.uses.look();
        let pruned = self.0.store.prune(goal, &look.digests()).await;
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
fn refuse_used(names: &[(String, Digest)], going: &[usize], look: &Look<'_>) -> Result<()> {
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

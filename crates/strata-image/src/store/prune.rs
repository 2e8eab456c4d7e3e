//! Taking away: names, and content that nothing needs.
//!
//! Content first leaves its place, by a rename into `tmp` while no pull can
//! begin to count on it, and is then deleted at leisure. Death in between
//! leaves it in `tmp`, which the next opening empties. Names go before the
//! content that they need.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use super::plan::{Plan, PruneGoal, RequiredContent, StoreContents, StoredImage, plan, plan_share};
use super::share::{ProjectShare, free};
use super::{Inner, Store, StoreError, unsynced};
use crate::{Digest, Reference};

/// What a prune took away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Images whose names went.
    pub images: Vec<Reference>,
    pub blobs: usize,
    /// Unpacked layers that went.
    pub layers: usize,
    /// Bytes in all, as far as known.
    pub bytes: u64,
}

impl From<Plan> for Pruned {
    fn from(plan: Plan) -> Self {
        Self {
            images: plan.images,
            blobs: plan.blobs.len(),
            layers: plan.layers.len(),
            bytes: plan.bytes,
        }
    }
}

impl Store {
    /// Removes a name, and deletes what only it needed. `in_use` are the
    /// manifests that something runs from; such an image is refused, unless
    /// another name keeps it.
    pub async fn remove(
        &self,
        reference: &Reference,
        in_use: &[Digest],
    ) -> Result<Pruned, StoreError> {
        let records = self.0.records()?;
        let record = records.iter().find(|(r, _)| r.reference == *reference);
        if let Some((record, _)) = record {
            let named = records
                .iter()
                .filter(|(other, _)| other.manifest == record.manifest);
            if in_use.contains(&record.manifest) && named.count() == 1 {
                return Err(StoreError::InUse(reference.clone()));
            }
        }
        if !self.0.remove_record(reference)? {
            return Err(StoreError::UnknownImage(reference.clone()));
        }
        self.prune(PruneGoal::Garbage, in_use).await
    }

    /// What [`Store::prune`] would take away now. Changes nothing.
    pub async fn would_prune(
        &self,
        goal: PruneGoal,
        in_use: &[Digest],
    ) -> Result<Pruned, StoreError> {
        let store = self.0.clone();
        let in_use: HashSet<Digest> = in_use.iter().copied().collect();
        tokio::task::spawn_blocking(move || {
            let leases = store.lock_leases();
            let facts = store.facts(&in_use, leases.all())?;
            Ok(plan(&facts, goal).into())
        })
        .await?
    }

    /// Takes away what nothing needs, as far as the goal goes. `in_use` are
    /// the manifests that something runs from; they and their layers stay.
    pub async fn prune(&self, goal: PruneGoal, in_use: &[Digest]) -> Result<Pruned, StoreError> {
        self.prune_by(in_use, move |facts| plan(facts, goal)).await
    }

    /// Takes unused images from a project until they are this many percent of
    /// its share, and from others that are over theirs. `in_use` are the
    /// manifests that something runs from.
    pub async fn prune_share(
        &self,
        project: &str,
        percent: u8,
        in_use: &[Digest],
    ) -> Result<Pruned, StoreError> {
        let project = project.to_owned();
        self.prune_by(in_use, move |facts| plan_share(facts, &project, percent))
            .await
    }

    async fn prune_by(
        &self,
        in_use: &[Digest],
        plan: impl FnOnce(&StoreContents) -> Plan + Send + 'static,
    ) -> Result<Pruned, StoreError> {
        let store = self.0.clone();
        let in_use: HashSet<Digest> = in_use.iter().copied().collect();
        tokio::task::spawn_blocking(move || store.prune(&in_use, plan)).await?
    }
}

impl Inner {
    fn prune(
        &self,
        in_use: &HashSet<Digest>,
        plan: impl FnOnce(&StoreContents) -> Plan,
    ) -> Result<Pruned, StoreError> {
        let mut out = Vec::new();
        let (plan, moved) = {
            let leases = self.lock_leases();
            let leased = leases.all();
            self.drop_partials(&leased)?;
            let facts = self.facts(in_use, leased)?;
            let plan = plan(&facts);
            (self.take_out(&plan, &mut out).map(|()| plan), out)
        };
        for path in &moved {
            if let Err(error) = unsynced::remove(path) {
                tracing::warn!(path = %path.display(), %error, "pruned content not removed");
            }
        }
        Ok(plan?.into())
    }

    /// Moves what the plan names out of its place; `out` returns the
    /// destination.
    fn take_out(&self, plan: &Plan, out: &mut Vec<std::path::PathBuf>) -> Result<(), StoreError> {
        for reference in &plan.images {
            self.remove_record(reference)?;
        }
        for (reference, project) in &plan.released {
            self.change_record(reference, |record| record.projects.remove(project))?;
        }
        let blobs = plan.blobs.iter().map(|digest| self.paths.blob(digest));
        let layers = plan.layers.iter().map(|diff_id| self.paths.layer(diff_id));
        for path in blobs.chain(layers) {
            let tmp = self.paths.new_tmp();
            match fs::rename(&path, &tmp) {
                Ok(()) => out.push(tmp),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("remove", &path)(error)),
            }
        }
        Ok(())
    }

    /// Cut downloads that no pull is at work on.
    fn drop_partials(&self, leased: &HashSet<Digest>) -> Result<(), StoreError> {
        let partials = digests(&self.paths.partials(), |_| Ok(0))?;
        for digest in partials.keys().filter(|digest| !leased.contains(*digest)) {
            let path = self.paths.partial(digest);
            unsynced::remove(&path).map_err(StoreError::io("remove", &path))?;
        }
        Ok(())
    }

    fn facts(
        &self,
        in_use: &HashSet<Digest>,
        leased: HashSet<Digest>,
    ) -> Result<StoreContents, StoreError> {
        let mut facts = StoreContents {
            blobs: digests(&self.paths.blobs(), |digest| {
                Ok(fs::metadata(self.paths.blob(digest))?.len())
            })?,
            layers: digests(&self.paths.layers(), |diff_id| self.layer_size(diff_id))?,
            entries: digests(&self.paths.layers(), |diff_id| {
                Ok(self.layer_entries(diff_id))
            })?,
            share: Some(ProjectShare(self.options.project_percent)),
            free: free(self.options.reserve, &self.paths.layers()),
            ..StoreContents::default()
        };
        for (record, used) in self.records()? {
            // A record without content needs nothing, and holds nothing.
            let Ok(needs) = self.needs(&record.manifest) else {
                continue;
            };
            facts.images.push(StoredImage {
                reference: record.reference,
                projects: record.projects,
                used,
                in_use: in_use.contains(&record.manifest),
                needs,
            });
        }
        for digest in in_use {
            let needs = self.needs(digest);
            let needs = needs.map_err(|_| StoreError::UnknownInUse(*digest))?;
            facts.held.documents.extend(needs.documents);
            facts.held.packed.extend(needs.packed);
            facts.held.layers.extend(needs.layers);
        }
        facts.held.documents.extend(&leased);
        facts.held.layers.extend(leased);
        Ok(facts)
    }

    pub(super) fn needs(&self, manifest: &Digest) -> Result<RequiredContent, StoreError> {
        let (documents, config) = self.documents(manifest)?;
        let diff_ids = config.rootfs.diff_ids;
        let packed = documents.layers.iter().map(|layer| layer.digest);
        Ok(RequiredContent {
            documents: [*manifest, documents.config.digest].into(),
            packed: packed.zip(diff_ids.iter().copied()).collect(),
            layers: diff_ids.into_iter().collect(),
        })
    }
}

/// What is in a directory by digest, with its size; none counts as 0.
fn digests(
    dir: &Path,
    size: impl Fn(&Digest) -> io::Result<u64>,
) -> Result<BTreeMap<Digest, u64>, StoreError> {
    let entries = fs::read_dir(dir).map_err(StoreError::io("read", dir))?;
    let named = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let digest = Digest::from_hex(name.to_str()?).ok()?;
        Some((digest, size(&digest).unwrap_or(0)))
    });
    Ok(named.collect())
}

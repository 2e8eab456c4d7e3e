//! Which manifest a name means: a small record per name. Its modification
//! time is when the image was last used, so that using one writes nothing.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Image, Inner, Store, StoreError};
use crate::manifest::{Document, ImageConfig, Manifest};
use crate::unpack::OPAQUE;
use crate::{Digest, Origin, Reference, SourceError};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) reference: Reference,
    pub(super) manifest: Digest,
    pub(super) pulled_at: jiff::Timestamp,
    #[serde(default)]
    pub(super) private: bool,
    /// Those that it was pulled or used for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) projects: BTreeSet<String>,
}

impl Store {
    /// Every image that is here, by name.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let mut images = Vec::new();
        for (record, used) in self.0.records()? {
            // One that another boot tore has a record but no content; it is
            // as good as not there, and a pull makes it whole.
            if let Ok(image) = self.0.image(&record, used) {
                images.push(image);
            }
        }
        images.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(images)
    }

    /// One image, whole, or [`StoreError::UnknownImage`].
    pub fn show(&self, reference: &Reference) -> Result<Image, StoreError> {
        let unknown = || StoreError::UnknownImage(reference.clone());
        let (record, used) = self.0.record(reference)?.ok_or_else(unknown)?;
        match self.0.image(&record, used) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(unknown())
            }
            other => other,
        }
    }

    /// Notes that an image is used now. The least recently used go first
    /// when space is short.
    pub fn touch(&self, reference: &Reference) -> Result<(), StoreError> {
        let path = self.0.paths.image(reference);
        let touched = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        match touched {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::UnknownImage(reference.clone()))
            }
            other => other.map_err(StoreError::io("touch", &path)),
        }
    }
}

impl Inner {
    /// Records what a pull brought. Projects that used the same image by this
    /// name before go on doing so.
    pub(super) fn record_pull(&self, record: &mut Record) -> Result<(), StoreError> {
        let _one = self.lock_records();
        if let Some((before, _)) = self.record(&record.reference)?
            && before.manifest == record.manifest
        {
            record.projects.extend(before.projects);
        }
        self.write_record(record)
    }

    /// Changes the record of an image that is here, and reports whether there
    /// was something to change; when it was used stays as it is.
    pub(super) fn change_record(
        &self,
        reference: &Reference,
        change: impl FnOnce(&mut Record) -> bool,
    ) -> Result<(), StoreError> {
        let _one = self.lock_records();
        let Some((mut record, used)) = self.record(reference)? else {
            return Ok(());
        };
        if !change(&mut record) {
            return Ok(());
        }
        self.write_record(&record)?;
        let path = self.paths.image(reference);
        File::open(&path)
            .and_then(|file| file.set_modified(used.into()))
            .map_err(StoreError::io("touch", &path))
    }

    /// Removes the record of an image; whether there was one.
    pub(super) fn remove_record(&self, reference: &Reference) -> Result<bool, StoreError> {
        let _one = self.lock_records();
        let path = self.paths.image(reference);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed
                .map(|()| true)
                .map_err(StoreError::io("remove", &path)),
        };
        self.changes.fetch_add(1, Ordering::Release);
        removed
    }

    fn lock_records(&self) -> MutexGuard<'_, ()> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_record(&self, record: &Record) -> Result<(), StoreError> {
        let path = self.paths.image(&record.reference);
        let bytes = serde_json::to_vec(record).map_err(io::Error::from);
        let tmp = self.paths.new_tmp();
        bytes
            .and_then(|bytes| fs::write(&tmp, bytes))
            .and_then(|()| fs::rename(&tmp, &path))
            .map_err(StoreError::io("write", &path))?;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// All records. One that cannot be read names nothing: it goes with the
    /// next pull of that name.
    pub(super) fn records(&self) -> Result<Vec<(Record, jiff::Timestamp)>, StoreError> {
        let dir = self.paths.images();
        let failed = StoreError::io("read", &dir);
        let entries = fs::read_dir(&dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let read = entries.map_err(failed)?.into_iter().filter_map(|entry| {
            let record = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            let used = entry.metadata().and_then(|metadata| metadata.modified());
            Some((record, timestamp(used.ok()?)))
        });
        Ok(read.collect())
    }

    /// Notes where the content of all images came from.
    pub(super) fn note_images(&self) -> Result<(), StoreError> {
        for (record, _) in self.records()? {
            // A record without its content is ignored.
            if let Ok((manifest, config)) = self.documents(&record.manifest) {
                let origin = match &record.reference {
                    Reference::Registry(name) => Some(Origin::of(name)),
                    Reference::Layout { .. } | Reference::Archive { .. } => None,
                };
                self.provenance
                    .note_image(origin.as_ref(), &manifest, &config);
            }
        }
        Ok(())
    }

    pub(super) fn record(
        &self,
        reference: &Reference,
    ) -> Result<Option<(Record, jiff::Timestamp)>, StoreError> {
        let path = self.paths.image(reference);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        };
        let used = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let used = timestamp(used.map_err(StoreError::io("read", &path))?);
        Ok(serde_json::from_slice(&bytes)
            .ok()
            .map(|record| (record, used)))
    }

    /// Manifest and config of an image, from the store.
    pub(super) fn documents(&self, digest: &Digest) -> Result<(Manifest, ImageConfig), StoreError> {
        let read = |digest: &Digest| {
            let path = self.paths.blob(digest);
            fs::read(&path).map_err(StoreError::io("read", &path))
        };
        let bad = |source| StoreError::Manifest {
            digest: *digest,
            source,
        };
        let Document::Manifest(manifest) = Document::parse(&read(digest)?).map_err(bad)? else {
            return Err(SourceError::TooDeep.into());
        };
        let config = read(&manifest.config.digest)?;
        let config = ImageConfig::parse(&config, &manifest).map_err(bad)?;
        Ok((manifest, config))
    }

    pub(super) fn image(
        &self,
        record: &Record,
        used_at: jiff::Timestamp,
    ) -> Result<Image, StoreError> {
        let (manifest, config) = self.documents(&record.manifest)?;
        let mut layers = Vec::new();
        let diff_ids: BTreeSet<_> = config.rootfs.diff_ids.iter().collect();
        let sizes = diff_ids.into_iter().map(|id| self.layer_size(id));
        let unpacked_size = sizes.map(|size| size.unwrap_or(0)).sum();
        for diff_id in &config.rootfs.diff_ids {
            let root = self.paths.layer_root(diff_id);
            // An overlay always merges the roots of its lowers; a root that
            // hides what is below must be the lowest.
            let mut value = [0; 1];
            match rustix::fs::lgetxattr(&root, OPAQUE, &mut value) {
                Ok(_) if value == *b"y" => layers.clear(),
                Ok(_) | Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP) => {}
                Err(errno) => return Err(StoreError::io("read", &root)(errno.into())),
            }
            layers.push(root);
        }
        let blobs = manifest.layers.iter().map(|layer| layer.size);
        Ok(Image {
            reference: record.reference.clone(),
            digest: record.manifest,
            packed_size: blobs.sum::<u64>() + manifest.config.size,
            manifest,
            config,
            layers,
            unpacked_size,
            pulled_at: record.pulled_at,
            private: record.private,
            projects: record.projects.clone(),
            used_at,
        })
    }
}

fn timestamp(time: SystemTime) -> jiff::Timestamp {
    time.try_into().unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

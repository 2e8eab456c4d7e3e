//! The rules of the storage pool for those who call it: what may be added,
//! removed and replaced, and what exists.

use strata_storage::{NewSpare, StoragePool, VolumeRef};
use strata_types::storage::{ExpandPlan, Pool, PoolDevice, PoolVolume, ShrinkPlan, VolumeKind};
use strata_types::{Error, Label, Result};

use super::{ExpandInput, ReplaceInput, ShrinkInput, Storage};
use crate::core::Core;

impl Storage {
    /// The state of the pool. One that does not exist yet is created first only
    /// if the caller may.
    pub(crate) async fn status(&self, may_create: bool) -> Result<Pool> {
        if !may_create && self.existing().await?.is_none() {
            return self.not_created();
        }
        Ok(self.pool().await?.status().await?)
    }

    /// How the pool would be expanded, or why it cannot be.
    pub(crate) async fn plan_expand(&self, input: &ExpandInput) -> Result<ExpandPlan> {
        Ok(self.pool().await?.plan_expand(input.min_bytes).await?)
    }

    /// How the pool would be shrunk, or why it cannot be.
    pub(crate) async fn plan_shrink(&self, input: &ShrinkInput) -> Result<ShrinkPlan> {
        Ok(self.pool().await?.plan_shrink(input.max_bytes).await?)
    }

    /// Adds a spare: the device at a path, or without a path a file of so many
    /// bytes.
    pub(crate) async fn add_spare(
        &self,
        path: &str,
        bytes: Option<u64>,
        overwrite: bool,
    ) -> Result<PoolDevice> {
        let spare = new_spare(path, bytes, overwrite)?;
        Ok(self.pool().await?.add_spare(spare).await?)
    }

    pub(crate) async fn remove_spare(&self, name: &str) -> Result<()> {
        let pool = self.pool().await?;
        require_device(&pool, name).await?;
        Ok(pool.remove_spare(name).await?)
    }

    /// Refuses to replace a device, or to replace it by one, that the pool does
    /// not have.
    pub(crate) async fn check_replace(&self, input: &ReplaceInput) -> Result<()> {
        let pool = self.pool().await?;
        require_device(&pool, &input.device).await?;
        match input.with.as_str() {
            "" => Ok(()),
            with => require_device(&pool, with).await,
        }
    }

    /// All volumes, by name.
    pub(crate) async fn volumes(&self) -> Result<Vec<PoolVolume>> {
        match self.existing_or_configured().await? {
            Some(pool) => Ok(pool.volumes().await?),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn volume(&self, name: &str) -> Result<PoolVolume> {
        let name = volume_name(name)?;
        match self.existing_or_configured().await? {
            Some(pool) => Ok(pool.volume(&name).await?),
            None => Err(no_volume(name.as_str())),
        }
    }

    /// Creates a volume, empty or as a clone of a volume or snapshot. The flag
    /// says whether it is new: the same request again gives the same volume.
    pub(crate) async fn create_volume(
        &self,
        name: &str,
        kind: VolumeKind,
        quota_bytes: Option<u64>,
        from: &str,
    ) -> Result<(PoolVolume, bool)> {
        let name = Label::from_field("name", name)?;
        let from = match from {
            "" => None,
            from => Some(from.parse::<VolumeRef>()?),
        };
        let pool = self.pool().await?;
        Ok(pool.ensure_volume(&name, kind, quota_bytes, from).await?)
    }

    /// Changes the quota of a volume; 0 removes it, none leaves it as it is.
    pub(crate) async fn resize_volume(&self, name: &str, quota: Option<u64>) -> Result<PoolVolume> {
        let name = volume_name(name)?;
        let pool = self.pool().await?;
        match quota {
            None => Ok(pool.volume(&name).await?),
            Some(bytes) => Ok(pool
                .resize_volume(&name, Some(bytes).filter(|it| *it > 0))
                .await?),
        }
    }

    /// Deletes a volume that no instance uses.
    pub(crate) async fn remove_volume(&self, core: &Core, name: &str) -> Result<()> {
        let name = volume_name(name)?;
        core.ensure_volume_unused(name.as_str())?;
        let pool = self.pool().await?;
        pool.volume(&name).await?;
        Ok(pool.remove_volume(&name).await?)
    }

    /// Takes a snapshot of a volume.
    pub(crate) async fn snapshot_volume(&self, name: &str, snapshot: &str) -> Result<PoolVolume> {
        let (name, snapshot) = (volume_name(name)?, Label::from_field("name", snapshot)?);
        let pool = self.pool().await?;
        Ok(pool.snapshot_volume(&name, &snapshot).await?)
    }

    /// Deletes a snapshot of a volume.
    pub(crate) async fn remove_snapshot(&self, name: &str, snapshot: &str) -> Result<()> {
        let (name, snapshot) = (volume_name(name)?, snapshot_name(snapshot)?);
        let pool = self.pool().await?;
        let volume = pool.volume(&name).await?;
        let mut snapshots = volume.snapshots.iter();
        if !snapshots.any(|one| one.name == snapshot.as_str()) {
            let why = format!("volume {name} has no snapshot {snapshot}");
            return Err(Error::not_found(why));
        }
        Ok(pool.remove_snapshot(&name, &snapshot).await?)
    }

    /// The pool, if it was ever created: reading it creates nothing. Refused
    /// where this server has none.
    async fn existing_or_configured(&self) -> Result<Option<StoragePool>> {
        let existing = self.existing().await?;
        if existing.is_none() {
            self.not_created()?;
        }
        Ok(existing)
    }
}

fn new_spare(path: &str, bytes: Option<u64>, overwrite: bool) -> Result<NewSpare> {
    match (path, bytes) {
        ("", Some(bytes)) => Ok(NewSpare::File { bytes }),
        ("", None) => Err(Error::invalid("bytes", "says how large a file is to be")),
        (_, Some(_)) => Err(Error::invalid(
            "bytes",
            "is for files; a device has its size",
        )),
        (path, None) => Ok(NewSpare::Device {
            path: path.into(),
            overwrite,
        }),
    }
}

/// Refuses a device that the pool does not have.
async fn require_device(pool: &StoragePool, name: &str) -> Result<()> {
    let status = pool.status().await?;
    if status.devices.iter().any(|device| device.name == name) {
        return Ok(());
    }
    let why = format!("the pool has no device {}", shown(name));
    Err(Error::not_found(why).with_hint("see those it has: strata storage device list"))
}

/// A name that no volume can have is of none.
fn volume_name(text: &str) -> Result<Label> {
    text.parse().map_err(|_| no_volume(text))
}

fn no_volume(name: &str) -> Error {
    Error::not_found(format!("there is no volume {}", shown(name)))
}

fn snapshot_name(text: &str) -> Result<Label> {
    let missing = |_| Error::not_found(format!("there is no snapshot {}", shown(text)));
    text.parse().map_err(missing)
}

/// A name of a caller, as long as errors show it.
fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use strata_types::ErrorKind;

    use super::*;

    #[test]
    fn spare_is_a_file_with_a_size_or_a_device_without_one() {
        let spare = new_spare("", Some(7), false);
        assert!(
            matches!(spare, Ok(NewSpare::File { bytes: 7 })),
            "{spare:?}"
        );
        let spare = new_spare("/dev/x", None, true);
        assert!(
            matches!(&spare, Ok(NewSpare::Device { path, overwrite: true }) if path.ends_with("x")),
            "{spare:?}"
        );
        for (path, bytes) in [("", None), ("/dev/x", Some(7))] {
            let error = new_spare(path, bytes, false).unwrap_err();
            assert_eq!(error.field(), Some("bytes"), "{path:?}");
        }
    }

    #[test]
    fn name_that_no_volume_can_have_is_not_found() {
        let long = "x".repeat(1000);
        for name in ["", "a/b", long.as_str()] {
            let error = volume_name(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{name:.20}");
            assert!(error.to_string().len() < 200, "{error}");
        }
    }
}

//! What volumes have of an image. One that a pod names is filled with what the
//! image has in its place, where it is empty and no other pod has it.
//!
//! Directories that an image declares as volumes. A pod gets one for each that
//! it has no volume of its own for: it is filled with what the image has there,
//! stays over stop and start, can be written to also where the root cannot, and
//! goes with the pod.
//!
//! An image names as many as it likes, and together they take no more than the
//! pod's disk limit. With one, they are directories of the pod's root, which
//! has the limit; where nothing is written to the root, they have equal parts
//! of it.

use std::os::fd::OwnedFd;
use std::path::Path;

use strata_rootfs::{BindOptions, RootError, RootOptions};
use strata_types::Result;
use strata_types::pod::{PodSpec, VolumeSource};

use super::kind::PodAllocation;
use super::rootfs::{self, RootfsBuilder};
use crate::volumes::of_image;

pub(super) fn names(id: &str, allocated: &PodAllocation) -> Vec<String> {
    let places = 0..allocated.image_volumes.len();
    places.map(|index| of_image(id, index)).collect()
}

/// Makes them, each with what the image has at its place. The writable layer
/// is there already.
pub(super) fn make(
    rootfs_builder: &RootfsBuilder,
    id: &str,
    spec: &PodSpec,
    allocated: &PodAllocation,
) -> Result<()> {
    if allocated.image_volumes.is_empty() {
        return Ok(());
    }
    let root = root_of_image(rootfs_builder, id, allocated)?;
    let size = share(spec.limits.disk_bytes, allocated.image_volumes.len());
    for (target, name) in allocated.image_volumes.iter().zip(names(id, allocated)) {
        let volumes = &rootfs_builder.volumes;
        let made = volumes.make_of_image(&name, size);
        made.map_err(|error| match error.field() {
            Some("size_bytes") => error
                .in_field("pod.limits.disk_bytes")
                .with_hint("the volumes that the image declares have equal parts of the limit"),
            _ => error,
        })?;
        // It goes with the pod, so half of it is never taken for all.
        let mount = volumes.mount(&name, size, BindOptions::default())?;
        let copied = strata_rootfs::copy_dir(&root, Path::new(target), &mount);
        copied.map_err(|error| rootfs::error(&error, "pod.image"))?;
    }
    Ok(())
}

/// What each of so many volumes may hold.
fn share(limit: Option<u64>, volumes: usize) -> Option<u64> {
    let volumes = u64::try_from(volumes).unwrap_or(u64::MAX).max(1);
    limit.map(|limit| limit / volumes)
}

/// Fills volumes that a pod names, and that nothing was ever put into, with
/// what the image has at their places: content, owners and modes, so that a
/// program which is not root finds a directory of its own. Those of the storage
/// pool too, which pods of other nodes may have.
pub(super) fn fill_named(
    rootfs_builder: &RootfsBuilder,
    id: &str,
    spec: &PodSpec,
    allocated: &PodAllocation,
) -> Result<()> {
    for (index, volume) in spec.volumes.iter().enumerate() {
        let copy = |to: &OwnedFd| {
            let root = mount_image(rootfs_builder, id, allocated)?;
            strata_rootfs::copy_dir(&root, Path::new(volume.place()), to)
        };
        match &volume.source {
            VolumeSource::Named(name) => {
                let fill = |to: &OwnedFd| copy(to).map(drop);
                rootfs_builder.volumes.fill(id, name.as_str(), fill)?;
            }
            VolumeSource::Pool(name) => {
                let field = rootfs::pool_field(index);
                let around = rootfs_builder.pool.volume(name, &field)?;
                strata_rootfs::fill_shared(&around, Path::new(name.as_str()), copy)
                    .map_err(|error| rootfs::error(&error, &field))?;
            }
            VolumeSource::Memory(_) | VolumeSource::Directory(_) => {}
        }
    }
    Ok(())
}

fn root_of_image(
    rootfs_builder: &RootfsBuilder,
    id: &str,
    allocated: &PodAllocation,
) -> Result<OwnedFd> {
    mount_image(rootfs_builder, id, allocated).map_err(|error| rootfs::error(&error, "pod.image"))
}

/// The image as it is, before the pod has changed anything.
fn mount_image(
    rootfs_builder: &RootfsBuilder,
    id: &str,
    allocated: &PodAllocation,
) -> Result<OwnedFd, RootError> {
    let options = RootOptions {
        read_only: true,
        no_dev: true,
        ..RootOptions::default()
    };
    rootfs_builder.roots.mount(id, &allocated.layers, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_of_an_image_have_equal_parts_of_the_disk_limit() {
        assert_eq!(share(Some(9 << 20), 3), Some(3 << 20));
        assert_eq!(share(Some(9 << 20), 0), Some(9 << 20));
        assert_eq!(share(None, 3), None);
    }
}

//! The disks of a virtual machine: clones of images, which stay as they are,
//! and empty ones, all in the machine's own directory; and volumes of the pool,
//! which it writes to as they are. Images are opened as described at
//! [`Images`].

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use strata_types::{Error, Label, Result};
use strata_vm::{Disk, DiskFormat, Seed, VmDir, clone_open_disk, create_disk};

use super::spec::{VmBoot, VmDisk, VmUnitSpec};
use crate::host_path::Pins;

/// How files of the host that a machine is made from are opened.
pub(super) struct Images<'a> {
    pub(super) pins: &'a Pins,
    /// Directories whose content operators may name.
    pub(super) allowed: &'a [PathBuf],
}

impl Images<'_> {
    fn open(&self, field: &str, path: &Path) -> Result<File> {
        self.pins.open_file(path, self.allowed).map_err(|error| {
            let why = format!("{}: {error}", path.display());
            match error.kind() {
                io::ErrorKind::NotFound => Error::not_found(why).in_field(field),
                _ => Error::invalid(field, why),
            }
        })
    }

    fn clone(&self, image: &Path, overlay: &Path, bytes: u64, field: &str) -> Result<Disk> {
        let file = self.open(field, image)?;
        let size = (bytes > 0).then_some(bytes);
        let info = clone_open_disk(&file, image, overlay, size)
            .map_err(|error| Error::from(error).in_field(field.to_owned()))?;
        Ok(Disk::clone_of(overlay, image, info.format))
    }
}

/// Makes all disks; answers how the machine boots and its further disks.
pub(super) fn make(
    dir: &VmDir,
    id: &str,
    unit_spec: &VmUnitSpec,
    images: &Images<'_>,
) -> Result<(Option<Disk>, Vec<Disk>)> {
    let first = match &unit_spec.boot {
        VmBoot::Image { path, bytes } => {
            Some(images.clone(path, &dir.disk(), *bytes, "vm.image")?)
        }
        VmBoot::Kernel { kernel, initrd, .. } => {
            images.open("vm.kernel.kernel", kernel)?;
            if let Some(initrd) = initrd {
                images.open("vm.kernel.initrd", initrd)?;
            }
            None
        }
    };
    let mut further = Vec::new();
    for (i, disk) in unit_spec.disks.iter().enumerate() {
        further.push(make_one(dir, i, disk, images)?);
    }
    if first.is_some() || !unit_spec.user_data.is_empty() {
        further.push(seed(dir, id, unit_spec)?);
    }
    Ok((first, further))
}

/// What stands for a volume of the pool in the list of a machine's disks.
pub(super) fn pool_path(name: &Label) -> String {
    format!("/pool/{name}/disk.raw")
}

fn make_one(dir: &VmDir, i: usize, disk: &VmDisk, images: &Images<'_>) -> Result<Disk> {
    if let Some(name) = &disk.pool {
        // Raw whatever is in it: the guest writes its beginning. QEMU's own
        // cache is as safe as a disk's: what the guest flushes is on the pool.
        let mut disk_of_pool = Disk::new(pool_path(name), DiskFormat::Raw);
        disk_of_pool.read_only = disk.read_only;
        return Ok(disk_of_pool);
    }
    let path = dir.path().join(format!("disk-{i}.qcow2"));
    let field = format!("vm.disks[{i}]");
    let mut allocated = match &disk.image {
        Some(image) => images.clone(image, &path, disk.bytes, &format!("{field}.image"))?,
        None => {
            create_disk(&path, DiskFormat::Qcow2, disk.bytes)
                .map_err(|error| Error::from(error).in_field(format!("{field}.bytes")))?;
            Disk::new(path, DiskFormat::Qcow2)
        }
    };
    allocated.read_only = disk.read_only;
    Ok(allocated)
}

/// What gives a cloud image its identity.
fn seed(dir: &VmDir, id: &str, unit_spec: &VmUnitSpec) -> Result<Disk> {
    let seed = Seed {
        instance_id: id.to_owned(),
        hostname: unit_spec.host_name(),
        ssh_keys: Vec::new(),
        user_data: unit_spec.user_data.clone(),
        network_config: None,
    };
    seed.write(&dir.seed())
        .map_err(|error| match error.field() {
            Some(field) => {
                let field = format!("vm.{field}");
                error.in_field(field)
            }
            None => error,
        })?;
    let mut disk = Disk::new(dir.seed(), DiskFormat::Raw);
    disk.read_only = true;
    Ok(disk)
}

/// Bytes of the machine's disk that all of it takes.
pub(crate) fn usage(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    sizes.map(|metadata| metadata.blocks() * 512).sum()
}

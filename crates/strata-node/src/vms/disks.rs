//! The disks of a virtual machine: clones of images, which stay as they are,
//! and empty ones, all in the machine's own folder; and volumes of the pool,
//! which it writes to as they are.

use std::path::Path;

use strata_types::{Error, Label, Result};
use strata_vm::{Disk, DiskFormat, Seed, VmFolder, check_image, clone_disk, create_disk};

use super::ask::{VmAsk, VmBoot, VmDisk};

/// Makes all disks; answers how the machine boots and its further disks.
pub(super) fn make(folder: &VmFolder, id: &str, ask: &VmAsk) -> Result<(Option<Disk>, Vec<Disk>)> {
    let first = match &ask.boot {
        VmBoot::Image { path, bytes } => Some(clone(path, &folder.disk(), *bytes, "vm.image")?),
        VmBoot::Kernel { kernel, initrd, .. } => {
            readable("vm.kernel.kernel", kernel)?;
            if let Some(initrd) = initrd {
                readable("vm.kernel.initrd", initrd)?;
            }
            None
        }
    };
    let mut further = Vec::new();
    for (i, disk) in ask.disks.iter().enumerate() {
        further.push(make_one(folder, i, disk)?);
    }
    if first.is_some() || !ask.user_data.is_empty() {
        further.push(seed(folder, id, ask)?);
    }
    Ok((first, further))
}

fn readable(field: &str, path: &Path) -> Result<()> {
    std::fs::File::open(path)
        .map(drop)
        .map_err(|error| Error::invalid(field, format!("{}: {error}", path.display())))
}

/// Where QEMU finds a volume of the pool, in its cell.
pub(super) fn pool_path(name: &Label) -> String {
    format!("/pool/{name}/disk.raw")
}

fn make_one(folder: &VmFolder, i: usize, disk: &VmDisk) -> Result<Disk> {
    if let Some(name) = &disk.pool {
        // Raw whatever is in it: the guest writes its beginning. QEMU's own
        // cache is as safe as a disk's: what the guest flushes is on the pool.
        let mut disk_of_pool = Disk::new(pool_path(name), DiskFormat::Raw);
        disk_of_pool.read_only = disk.read_only;
        return Ok(disk_of_pool);
    }
    let path = folder.path().join(format!("disk-{i}.qcow2"));
    let field = format!("vm.disks[{i}]");
    let mut made = match &disk.image {
        Some(image) => clone(image, &path, disk.bytes, &format!("{field}.image"))?,
        None => {
            create_disk(&path, DiskFormat::Qcow2, disk.bytes)
                .map_err(|error| Error::from(error).in_field(format!("{field}.bytes")))?;
            Disk::new(path, DiskFormat::Qcow2)
        }
    };
    made.read_only = disk.read_only;
    Ok(made)
}

fn clone(image: &Path, overlay: &Path, bytes: u64, field: &str) -> Result<Disk> {
    let refused = |error| Error::from(error).in_field(field.to_owned());
    let info = check_image(image).map_err(refused)?;
    let size = (bytes > 0).then_some(bytes);
    clone_disk(image, overlay, size).map_err(refused)?;
    Ok(Disk::clone_of(overlay, image, info.format))
}

/// What tells an image made for clouds who it is.
fn seed(folder: &VmFolder, id: &str, ask: &VmAsk) -> Result<Disk> {
    let seed = Seed {
        instance_id: id.to_owned(),
        hostname: ask.name.label().clone(),
        ssh_keys: Vec::new(),
        user_data: ask.user_data.clone(),
        network_config: None,
    };
    seed.write(&folder.seed())
        .map_err(|error| match error.field() {
            Some(field) => {
                let field = format!("vm.{field}");
                error.in_field(field)
            }
            None => error,
        })?;
    let mut disk = Disk::new(folder.seed(), DiskFormat::Raw);
    disk.read_only = true;
    Ok(disk)
}

/// Bytes of the machine's disk that all of it takes.
pub(crate) fn usage(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    sizes.map(|metadata| metadata.blocks() * 512).sum()
}
